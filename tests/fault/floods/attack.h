/* The attacks: a table of programs, each run by one or more attackers, a thread each. */
#ifndef LOCKSTOCK_TESTS_FLOODS_ATTACK_H
#define LOCKSTOCK_TESTS_FLOODS_ATTACK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bytes.h"
#include "raw.h"
#include "target.h"

/* Sets of wires. */
enum {
    ON_TCP = 1 << WIRE_TCP,
    ON_UNIX = 1 << WIRE_UNIX,
    ON_TLS = 1 << WIRE_TLS,
    ON_WS = 1 << WIRE_WS,
    ON_GRPCS = 1 << WIRE_GRPCS,
    ON_SP = 1 << WIRE_TCP | 1 << WIRE_UNIX | 1 << WIRE_TLS,
    ON_H2 = 1 << WIRE_GRPC | 1 << WIRE_GRPCS,
    ON_ANY_TLS = ON_TLS | ON_GRPCS,
    ON_PORTS = ON_TCP | ON_TLS | ON_H2,
};

enum { FLOOD_FRAMES = 2000 };

typedef struct attack attack;

typedef struct attacker {
    const attack *attack;
    wire wire;
    unsigned nth; /* its address is 127.0.0.2 + nth */
    const atomic_bool *stop;
    atomic_bool at_peak;       /* all that it wants to hold is held */
    atomic_size_t connections; /* that were opened */
    atomic_size_t left;        /* of those that it holds, when it is stopped */
} attacker;

/* What a flood on one connection has come to. */
typedef struct flood {
    wire wire;
    uint32_t next_id; /* of a stream or a request */
} flood;

struct attack {
    const char *name;
    unsigned wires;
    /* Runs until it is stopped. NULL: a flood, by `open` and `fill` or `frame`. */
    void (*run)(attacker *a);
    /* What a connection begins with, after preface or greeting; may be NULL. */
    void (*open)(bytes *b, flood *f);
    /* Some kilobytes more. True: they may be sent again as they are. */
    bool (*fill)(bytes *b, flood *f);
    /* Without `fill`: FLOOD_FRAMES times this frame of HTTP/2. */
    struct {
        uint8_t type, flags;
        uint32_t id;
        const char *data;
        size_t len;
    } frame;
    /* Before it, with a connection of the others'; may be NULL. */
    void (*prepare)(void);
    /* It fills all places for connections. */
    bool fills_places;
};

/* A preparation: another than the attackers has the lock of pack_waiting_acquire. */
void hold_the_lock(void);

extern const attack floods_h2[], floods_sp[], floods_tls[], holds[]; /* each ends with a name of NULL */

/* In an attacker's thread. */
bool attacker_goes_on(const attacker *a);
bool attacker_open(attacker *a, raw *r);
void attacker_run(attacker *a);

#endif
