/* The state of a group in the ensemble: one node, which a write replaces as a whole if its version is still the one
 * that was read. Besides the keys it has the group's time (group_clock.h), the number of the last write of each server,
 * and messages for other servers. After a lost connection, a server finds out from that number whether its write was
 * applied. No I/O. */
#ifndef LOCKSTOCK_SERVER_QUORUM_STORED_H
#define LOCKSTOCK_SERVER_QUORUM_STORED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sys/queue.h>

#include <lockstock/rpc/arena.h>

#include "machine/keys.h"

enum {
    STORED_WRITERS = 16,  /* the last servers that wrote */
    STORED_MESSAGES = 256 /* the last messages; a server that missed one asks for everything again */
};

typedef struct stored_writer {
    char *server;
    uint64_t write; /* the server's number of its last write of the group */
} stored_writer;

typedef struct stored_message {
    TAILQ_ENTRY(stored_message) in_all;
    uint64_t number; /* one more than that of the previous message */
    int64_t at_us;   /* the group's time */
    char *server;    /* the receiver */
    char *text;
    size_t len;
} stored_message;

/* After stored_init it is the state of a group that was never written. */
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
void stored_clear(stored_group *s); /* back to the state after stored_init */
void stored_free(stored_group *s);  /* frees what it points to */

/* Replaces *s by the packed state. Returns false, with *s empty, if the data is not from stored_pack. */
bool stored_unpack(stored_group *s, const char *data, size_t len);

/* The result is in the arena. */
lks_rpc_slice stored_pack(const stored_group *s, lks_rpc_arena *arena);

/* Returns the number of the server's last write, as far as *s has it; 0: none. */
uint64_t stored_write_of(const stored_group *s, const char *server);
void stored_note_write(stored_group *s, const char *server, uint64_t write);

/* Appends a message, and drops messages that are too old, or the oldest if there are too many. */
void stored_send(stored_group *s, lks_rpc_slice server, lks_rpc_slice text, int64_t now_us);

#endif
