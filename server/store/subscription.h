/* A connection that is subscribed to one channel, or two. Loop thread only. */
#ifndef LOCKSTOCK_SERVER_STORE_SUBSCRIPTION_H
#define LOCKSTOCK_SERVER_STORE_SUBSCRIPTION_H

#include <stdbool.h>
#include <stddef.h>

#include "store/connection.h"

struct close_barrier;

typedef struct subscription subscription;

/* Callbacks run on the loop, or inside a connection_drop of its connection. */
typedef struct subscription_options {
    const char *channel; /* this and the credentials must outlive the subscription */
    const char *second;  /* another channel; NULL: none */
    const login *as;
    bool sentinel;  /* it connects to a Redis Sentinel */
    const char *id; /* the id that the node of a cluster must have; NULL: any */
    /* Messages come from now on. */
    void (*on_listening)(void *arg);
    /* A message's payload, valid until it returns. */
    void (*on_message)(void *arg, const char *data, size_t len);
    /* The subscription could not be made, or was_heard and is lost. It tries again by itself. NULL: no callback. */
    void (*on_lost)(void *arg, bool was_heard, store_fault fault);
    void *arg;
} subscription_options;

/* Connects with the options `to`, except for their callbacks, and subscribes, again after each loss, until
 * subscription_close. */
subscription *subscription_open(const subscription_options *options, const connection_options *to);

/* Whether messages are being received. */
bool subscription_is_listening(const subscription *subscription);

/* Returns why not; text NULL: not known yet. Valid until the next change. */
store_fault subscription_fault(const subscription *subscription);

/* Returns its connection, to drop, move or confirm it. */
connection *subscription_connection(subscription *subscription);

/* Closes it. From now on nothing is called back. `within` counts it until it has closed. */
void subscription_close(subscription *subscription, struct close_barrier *within);

#endif
