/* Places for connections: so many in all, of one wire, and from one address; some of them
 * are kept for unix sockets. When there is none for a newcomer, the idlest connection in
 * its way that is `quiet` (nobody's that we know, with nothing under way) is given up for
 * it. Loop thread only. */
#ifndef LOCKSTOCK_NET_ADMISSION_PLACES_H
#define LOCKSTOCK_NET_ADMISSION_PLACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

typedef struct places places;

/* Where a connection comes from: an address (of IPv6 the network of 64 bits, which one
 * host has for itself), or a user. */
typedef struct place_origin {
    enum { PLACE_IPV4, PLACE_IPV6, PLACE_USER } kind;
    uint8_t bytes[8]; /* the rest is zero */
} place_origin;

enum { PLACE_LIMITS = 4 };

/* A connection's place; inside its struct. */
typedef struct place {
    struct place_group *in[PLACE_LIMITS]; /* NULL: not counted there */
    TAILQ_ENTRY(place) quiet[PLACE_LIMITS];
    bool taken, is_quiet;
} place;

typedef struct places_options {
    uint32_t all;              /* at least 1 */
    uint32_t per_wire;         /* 0: no limit */
    uint32_t per_address;      /* 0: no limit */
    uint32_t for_unix;         /* of all, for unix sockets only */
    void (*give_up)(place *p); /* gives it up by places_leave before it returns */
} places_options;

/* NULL when out of memory. */
places *places_new(const places_options *options);

/* With every place left. Takes NULL. */
void places_free(places *all);

/* A place for a newcomer, who is not quiet. wire: static, fewer than 8 bytes. NULL: it has it; else which limit is
 * in the way, in words ("connections", "connections of one wire", ...). */
const char *places_take(places *all, place *p, const char *wire, const place_origin *origin);

/* From now on it is quiet, the latest of all that are; or not any more. */
void places_set_quiet(places *all, place *p, bool quiet);

/* Nothing if it has none. */
void places_leave(places *all, place *p);

#endif
