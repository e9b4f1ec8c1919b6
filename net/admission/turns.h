/* Shares the loop's time fairly. The time that a connection's bytes take is measured; a connection that used much of it
 * recently is `heavy`.
 *
 *   light --used too much--> heavy --bytes arrive--> queued --served, one read at a time--> heavy
 *     ^-------------------- its use leaks away ------------------------------/
 *
 * Light connections are read as soon as bytes arrive. Heavy ones queue. In each turn of the loop, heavy connections
 * are served round-robin for TURNS_CONTENDED_NS in all, or for TURNS_ALONE_NS when no light connection was active
 * for TURNS_QUIET_NS. So a flood delays a light connection by one such slice, however many heavy connections there
 * are, and heavy connections alone use the whole loop.
 *
 * Each connection has an owner: a principal, or before it is known an address. While connections of light owners are
 * active, all connections of an owner that used much are heavy, and owners take turns before their connections do.
 * So more connections do not give an owner more time. The number of bytes of a read follows from the cost of the
 * previous ones. One piece of work, such as a frame of 256 calls, cannot be divided: if it took long and a light
 * connection was active, heavy connections then pause for as long. Loop thread only. */
#ifndef LOCKSTOCK_NET_ADMISSION_TURNS_H
#define LOCKSTOCK_NET_ADMISSION_TURNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

struct uv_loop_s;

typedef struct turns turns;

enum {
    TURNS_LIGHT_NS = 150 * 1000, /* at once; in the long run 1 / TURNS_LEAK_PART of the time */
    TURNS_LEAK_PART = 16,
    TURNS_OWNER_LEAK_PART = 4,      /* for all connections of an owner */
    TURNS_CONTENDED_NS = 80 * 1000, /* of a turn, for all heavy connections */
    TURNS_ALONE_NS = 1000 * 1000,   /* the same when no light connection was active for TURNS_QUIET_NS */
    TURNS_QUIET_NS = 50 * 1000 * 1000,
    TURNS_BYTES_MIN = 512,
};

typedef struct turn_use {
    uint64_t used_ns, at_ns; /* use at at_ns, after the leak */
} turn_use;

/* The state of a connection; a member of its struct, zero at first. */
typedef struct turn_taker {
    turn_use use;
    struct turn_owner *owner; /* NULL: none yet */
    uint64_t ns_per_kib;      /* recent cost of its bytes; 0: not known */
    bool queued;
    TAILQ_ENTRY(turn_taker) next;
} turn_taker;

typedef struct turns_options {
    struct uv_loop_s *loop;
    uint64_t (*now_ns)(void);
    /* Serves a queued connection: it must read once and call turns_worked, and also turns_leave when it has nothing
     * more to read. */
    void (*serve)(turn_taker *t);
} turns_options;

/* NULL when out of memory. */
turns *turns_new(const turns_options *options);

/* The clock, for turns_worked. */
uint64_t turns_now(const turns *all);

/* Sets the owner. Copies the name. NULL: none; required before the connection is freed. When out of memory, nothing
 * changes. */
void turns_set_owner(turns *all, turn_taker *t, const char *name);

/* Whether the connection is light and may work now. */
bool turns_is_light(const turns *all, const turn_taker *t);

/* How many bytes it should read at a time, at most `max`. */
size_t turns_bytes(const turns *all, const turn_taker *t, size_t max);

/* Records that the connection worked since since_ns, on that many bytes (0: not on bytes). */
void turns_worked(turns *all, turn_taker *t, uint64_t since_ns, size_t bytes);

/* Queues it, if it is not queued. */
void turns_queue(turns *all, turn_taker *t);

/* Takes it out of the queue, if it is queued. */
void turns_leave(turns *all, turn_taker *t);

/* No connection may be queued. `closed` runs on the loop when everything is freed. */
void turns_close(turns *all, void (*closed)(void *arg), void *arg);

#endif
