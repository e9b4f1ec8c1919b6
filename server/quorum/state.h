/* What the ensemble stores of a group: one node, which a write replaces as a whole if its version is still the one that was
 * read. Beside the keys it has the group's time (group_clock.h), the last writes of each server, by which a server whose
 * connection was lost finds out whether its write was applied, and messages for other servers. No I/O. */
#ifndef LOCKSTOCK_SERVER_QUORUM_STATE_H
#define LOCKSTOCK_SERVER_QUORUM_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sys/queue.h>

#include <lockstock/rpc/arena.h>

#include "machine/keys.h"

enum {
    STATE_WRITERS = 16,  /* the servers that wrote last */
    STATE_MESSAGES = 256 /* the last messages; a server that missed one asks for everything again */
};

typedef struct state_writer {
    char *server;
    uint64_t write; /* the server's number of its last write of the group */
} state_writer;

typedef struct state_message {
    TAILQ_ENTRY(state_message) in_all;
    uint64_t number; /* one more than that of the message before */
    int64_t at_us;   /* the group's time */
    char *server;    /* which it is for */
    char *text;
    size_t len;
} state_message;

/* After state_init: a group that was never written. */
typedef struct state {
    keys *keys;
    int64_t time_us;
    uint64_t sent;    /* number of the last message */
    size_t n_writers; /* the latest first */
    state_writer writers[STATE_WRITERS];
    size_t n_messages; /* the oldest first */
    TAILQ_HEAD(, state_message) messages;
} state;

void state_init(state *s);
void state_clear(state *s); /* as after state_init */
void state_free(state *s);  /* what it points to */

/* Replaces *s by what was packed. False, and *s is empty: it is no such text. */
bool state_unpack(state *s, const char *data, size_t len);

/* In the arena. */
lks_rpc_slice state_pack(const state *s, lks_rpc_arena *arena);

/* The number of the server's last write that *s remembers; 0: none. */
uint64_t state_write_of(const state *s, const char *server);
void state_note_write(state *s, const char *server, uint64_t write);

/* Appends a message, and drops those that are too old or too many. */
void state_send(state *s, const char *server, const char *text, size_t len, int64_t now_us);

#endif
