/* Connects to one of several addresses, as in RFC 8305: the families take turns, and the next attempt begins when
 * one has failed, or 250 ms after the last one began. The first that connects is used, and the others are closed. Loop
 * thread only. */
#ifndef LOCKSTOCK_CLIENT_WIRE_DIAL_H
#define LOCKSTOCK_CLIENT_WIRE_DIAL_H

#include <netdb.h>
#include <stddef.h>

#include "client/loop/loop.h"

enum { DIAL_ADDRESSES_MAX = 16 }; /* of one dial; more are not tried */

typedef struct dial_attempt {
    loop_source source; /* fd -1: not under way */
    struct dial *dial;
} dial_attempt;

typedef struct dial {
    struct loop *loop;
    /* Ends the dial: with a connected socket, which the user then owns, or with -1 and an errno. May run inside
     * dial_start. */
    void (*done)(struct dial *d, int fd, int failed);

    struct timer timer; /* the next attempt, or the end of all */
    const struct addrinfo *order[DIAL_ADDRESSES_MAX];
    size_t n, next; /* in order */
    dial_attempt attempts[DIAL_ADDRESSES_MAX];
    int failed; /* the error of the last failed attempt */
} dial;

void dial_init(dial *d, struct loop *loop, void (*done)(dial *d, int fd, int failed));

/* The addresses, at least one, must exist until the end. Begins with address number `first` modulo their number. */
void dial_start(dial *d, const struct addrinfo *addresses, uint32_t first);

/* Ends the dial without calling `done`. Does nothing when no dial is under way. */
void dial_cancel(dial *d);

#endif
