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

/* The outcome of a flood on one connection. */
typedef struct flood {
    wire wire;
    uint32_t next; /* number of a call of the connection */
} flood;

/* One row: `run`, or a flood by `call`, `fill` or `frame`, or a hold by `take`. */
struct attack {
    const char *name;
    unsigned wires;
    /* Runs until it is stopped. */
    void (*run)(attacker *a);
    /* What a flood's connection begins with, after preface or greeting; may be NULL. */
    void (*open)(bytes *b, flood *f);
    /* Over and over; over SP so many in a message. */
    const wire_call *call;
    size_t calls_of_a_message;
    /* Some kilobytes more. True: they may be sent again as they are. */
    bool (*fill)(bytes *b, flood *f);
    /* Many times this frame of HTTP/2. */
    struct {
        uint8_t type, flags;
        uint32_t id;
        const char *data;
        size_t len;
    } frame;
    /* Takes one thing with a connection, the i-th; false: it was refused. */
    bool (*take)(attacker *a, raw *r, size_t i);
    /* How many things a hold takes in the fast form and in the full one. */
    size_t fast, full;
    /* Of a hold over HTTP/2: it waits until so many answers have begun on each connection. */
    size_t answers;
    /* Before it, with a connection of the others'; may be NULL. */
    void (*prepare)(void);
    /* It fills all places for connections. */
    bool fills_places;
};

/* A preparation: another than the attackers has the lock of pack_waiting_acquire. */
void hold_the_lock(void);

extern const attack floods[], holds[]; /* each ends with a name of NULL */

/* In an attacker's thread. */
bool attacker_continues(const attacker *a);
bool attacker_open(attacker *a, raw *r);
void attacker_run(attacker *a);

/* Things that are held, each with its connection. */
typedef struct holding {
    raw *raws;
    size_t n;
} holding;

/* Takes up to n things, until many in a row were refused. */
holding attacker_take(attacker *a, size_t n, bool (*take)(attacker *a, raw *r, size_t i));

#endif
