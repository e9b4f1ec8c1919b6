/* The guards of a method as an interceptor: the last before the handler. */
#ifndef HOST_GUARDING_H
#define HOST_GUARDING_H

#include <lockstock/host.h>

struct running;

extern const lks_host_interceptor guarding;

/* After its `before`. True: the guards did not admit the call, and its answer is in r->response and r->error. */
bool guarding_refuses(struct running *r);

/* After its `after`: puts what the caller gets into r->response and r->error. */
void guarding_answer(struct running *r);

#endif
