/* A network that loses answers: it forwards SP messages over TCP between clients and one server of 127.0.0.1. */
#ifndef LOCKSTOCK_TESTS_LOSSY_PROXY_H
#define LOCKSTOCK_TESTS_LOSSY_PROXY_H

#include <stdint.h>

typedef struct lossy_proxy lossy_proxy;

typedef enum lossy_way {
    LOSE_FIRST_REPLIES, /* the first reply to each distinct call: a call that is sent again has the same method and
                           payload */
    CUT_FIRST_REPLY,    /* the first reply of all; its connection is closed in its place */
} lossy_way;

/* NULL on failure. */
lossy_proxy *lossy_proxy_start(unsigned short server_port, lossy_way way);

/* "nng+tcp://127.0.0.1:PORT" */
const char *lossy_proxy_url(const lossy_proxy *proxy);

/* The number of calls whose reply was lost so far. */
uint64_t lossy_proxy_hits(lossy_proxy *proxy);

/* Closes every connection. Takes NULL. */
void lossy_proxy_stop(lossy_proxy *proxy);

#endif
