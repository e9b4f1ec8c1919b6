/* What the ensemble stores of a group: one node, which a write replaces as a whole if its version is still the one that was
 * read. Beside the keys it has the group's time (group_clock.h), the last writes of each server, by which a server whose
 * connection was lost finds out whether its write was applied, and messages for other servers. No I/O. */
#ifndef LOCKSTOCK_SERVER_QUORUM_STORED_H
#define LOCKSTOCK_SERVER_QUORUM_STORED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sys/queue.h>

#include <lockstock/rpc/arena.h>

#include "machine/keys.h"

enum {
    STORED_WRITERS = 16,  /* the servers that wrote last */
    STORED_MESSAGES = 256 /* the last messages; a server that missed one asks for everything again */
};

typedef struct stored_writer {
    char *server;
    uint64_t write; /* the server's number of its last write of the group */
} stored_writer;

typedef struct stored_message {
    TAILQ_ENTRY(stored_message) in_all;
    uint64_t number; /* one more than that of the message before */
    int64_t at_us;   /* the group's time */
    char *server;    /* which it is for */
    char *text;
    size_t len;
} stored_message;

/* After stored_init: a group that was never written. */
typedef struct stored_group {
    keys *keys;
    int64_t time_us;
    uint64_t sent;    /* number of the last message */
    size_t n_writers; /* the latest first */
    stored_writer writers[STORED_WRITERS];
    size_t n_messages; /* the oldest first */
    TAILQ_HEAD(, stored_message) messages;
} stored_group;

void stored_init(stored_group *s);
void stored_clear(stored_group *s); /* as after stored_init */
void stored_free(stored_group *s);  /* what it points to */

/* Replaces *s by what was packed. False, and *s is empty: it is no such text. */
bool stored_unpack(stored_group *s, const char *data, size_t len);

/* In the arena. */
lks_rpc_slice stored_pack(const stored_group *s, lks_rpc_arena *arena);

/* The number of the server's last write that *s remembers; 0: none. */
uint64_t stored_write_of(const stored_group *s, const char *server);
void stored_note_write(stored_group *s, const char *server, uint64_t write);

/* Appends a message, and drops those that are too old or too many. */
void stored_send(stored_group *s, lks_rpc_slice server, lks_rpc_slice text, int64_t now_us);

#endif
