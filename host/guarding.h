/* The guards of a method as its last interceptor before the handler. */
#ifndef HOST_GUARDING_H
#define HOST_GUARDING_H

#include <lockstock/host.h>

struct running;

extern const lks_host_interceptor guarding;

/* Call it after `before`. True: the guards did not admit the call, and its answer is in r->response and r->error. */
bool guarding_refuses(struct running *r);

/* Call it after `after`: puts the caller's answer into r->response and r->error. */
void guarding_answer(struct running *r);

#endif
