/* Limits the number of connections: in all, for each wire, and for each address. Some places are reserved for unix
 * sockets. When a limit is reached, a new connection replaces the connection under that limit that has been `idle`
 * longest: without a known principal and without work. Loop thread only. */
#ifndef LOCKSTOCK_NET_ADMISSION_PLACES_H
#define LOCKSTOCK_NET_ADMISSION_PLACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

typedef struct places places;

/* Where a connection comes from: an IPv4 address, the /64 network of an IPv6 address, or a user. */
typedef struct place_origin {
    enum { PLACE_IPV4, PLACE_IPV6, PLACE_USER } kind;
    uint8_t bytes[8]; /* the rest is zero */
} place_origin;

enum { PLACE_LIMITS = 4 };

/* A connection's place; a member of its struct. */
typedef struct place {
    struct place_group *in[PLACE_LIMITS]; /* NULL: not counted there */
    TAILQ_ENTRY(place) idle[PLACE_LIMITS];
    bool taken, is_idle;
} place;

typedef struct places_options {
    uint32_t all;                 /* at least 1 */
    uint32_t per_wire;            /* 0: no limit */
    uint32_t per_address;         /* 0: no limit */
    uint32_t for_unix;            /* of all, for unix sockets only */
    void (*close_idle)(place *p); /* must call places_leave before it returns */
} places_options;

/* NULL when out of memory. */
places *places_new(const places_options *options);

/* All places must have been left. Takes NULL. */
void places_free(places *all);

/* Takes a place for a new connection, which is not idle. Returns NULL, or the limit that was reached ("connections",
 * "connections of one wire", ...). */
const char *places_take(places *all, place *p, const char *wire, const place_origin *origin);

/* Marks the place as idle from now on, or as not idle. */
void places_set_idle(places *all, place *p, bool idle);

/* Does nothing when it has no place. */
void places_leave(places *all, place *p);

#endif
