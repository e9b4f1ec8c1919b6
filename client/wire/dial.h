/* Connects to one of several addresses, in the way of RFC 8305: the families take turns, and the next attempt begins when
 * one has failed, or 250 ms after the last one began. The first that connects is used, and the others are closed. All on
 * the loop thread. */
#ifndef LOCKSTOCK_CLIENT_WIRE_DIAL_H
#define LOCKSTOCK_CLIENT_WIRE_DIAL_H

#include <netdb.h>
#include <stddef.h>

#include "client/loop/loop.h"

enum { DIAL_ADDRESSES_MAX = 16 }; /* of one dial; more are not tried */

typedef struct dial_attempt {
    loop_source source; /* its fd is -1: not under way */
    struct dial *dial;
} dial_attempt;

typedef struct dial {
    struct loop *loop;
    /* The end: a connected socket, which is the user's; or -1, and an errno. May run inside dial_start. */
    void (*done)(struct dial *d, int fd, int failed);

    struct timer timer; /* the next attempt, or the end of all */
    const struct addrinfo *order[DIAL_ADDRESSES_MAX];
    size_t n, next; /* in order */
    dial_attempt attempts[DIAL_ADDRESSES_MAX];
    int failed; /* why the last failed attempt did */
} dial;

void dial_init(dial *d, struct loop *loop, void (*done)(dial *d, int fd, int failed));

/* The addresses, at least one, must live until the end. The order begins with the first-th of them, counted round. */
void dial_start(dial *d, const struct addrinfo *addresses, uint32_t first);

/* `done` does not run any more. Does nothing when nothing is under way. */
void dial_cancel(dial *d);

#endif
