/* Fair shares of the loop: what a connection's bytes cost is measured, and who has cost
 * much lately is `heavy`.
 *
 *   light --used too much--> heavy --bytes came--> queued --served, a piece a time--> heavy
 *     ^-------------------- it leaks away ----------------------------------/
 *
 * Light connections are read as soon as bytes come. Heavy ones queue: in each turn of
 * the loop they are served round and round for TURNS_CONTENDED_NS together, longer while no light one was
 * active for a while. So what floods cost a light connection is one such part of a turn, however many
 * there are; and who is alone with others of its kind has the whole loop.
 * Connections have an owner: a principal, or until one is known an address. While connections of light owners are active,
 * all connections of an owner that has cost much lately are heavy, and owners take turns before their connections do. So who
 * has many connections gets no more of a turn than who has one. How many bytes are
 * read at a time follows from what those before cost. A piece that cannot be divided (a frame of 256 calls) may take much
 * longer: when a light one has worked since the turn before, heavy ones are then not served for as long as it took. Loop thread only. */
#ifndef LOCKSTOCK_NET_ADMISSION_TURNS_H
#define LOCKSTOCK_NET_ADMISSION_TURNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

struct uv_loop_s;

typedef struct turns turns;

enum {
    TURNS_LIGHT_NS = 150 * 1000, /* at once; TURNS_LEAK_PART of the time in the long run */
    TURNS_LEAK_PART = 16,
    TURNS_OWNER_LEAK_PART = 4,      /* of all connections of an owner together */
    TURNS_CONTENDED_NS = 80 * 1000, /* of a turn, for all heavy ones */
    TURNS_ALONE_NS = 1000 * 1000,   /* the same with no light one active for TURNS_QUIET_NS */
    TURNS_QUIET_NS = 50 * 1000 * 1000,
    TURNS_BYTES_MIN = 512,
};

typedef struct turn_use {
    uint64_t used_ns, at_ns; /* what was used then, less what had leaked away */
} turn_use;

/* A connection's part; inside its struct, zero at first. */
typedef struct turn_taker {
    turn_use use;
    struct turn_owner *owner; /* NULL: nobody's */
    uint64_t ns_per_kib;      /* what its bytes cost lately; 0: not known */
    bool queued;
    TAILQ_ENTRY(turn_taker) next;
} turn_taker;

typedef struct turns_options {
    struct uv_loop_s *loop;
    uint64_t (*now_ns)(void);
    /* A queued one's turn: it reads once, tells turns_worked, and leaves (turns_leave) when there
     * was no more. */
    void (*serve)(turn_taker *t);
} turns_options;

/* NULL when out of memory. */
turns *turns_new(const turns_options *options);

/* The clock, to begin to measure. */
uint64_t turns_now(const turns *all);

/* Whose connection it is from now on. The name is copied; NULL: nobody's, which it must be before it is freed. Out of
 * memory it stays as it was. */
void turns_set_owner(turns *all, turn_taker *t, const char *name);

/* Whether it may work at once. */
bool turns_is_light(const turns *all, const turn_taker *t);

/* How many bytes it should take at a time, of at most `max`. */
size_t turns_bytes(const turns *all, const turn_taker *t, size_t max);

/* It has worked since then, on so many bytes (0: not on bytes). */
void turns_worked(turns *all, turn_taker *t, uint64_t since_ns, size_t bytes);

/* Queues it, unless it does. */
void turns_queue(turns *all, turn_taker *t);

/* Queues no more; nothing if it does not. */
void turns_leave(turns *all, turn_taker *t);

/* With nobody queued. `closed` runs on the loop when it is freed. */
void turns_close(turns *all, void (*closed)(void *arg), void *arg);

#endif
