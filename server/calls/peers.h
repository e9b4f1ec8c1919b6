/* Compares this server with the others on its store: version, policy, and settings that must be the same on all. Each
 * server keeps a note in the store for a while and reads the others' notes. Loop thread only. */
#ifndef LOCKSTOCK_SERVER_PEERS_H
#define LOCKSTOCK_SERVER_PEERS_H

#include <stdbool.h>
#include <stddef.h>

#include "store/store.h"

struct uv_loop_s;

typedef struct peers peers;

/* A note, "name=value name=value": values without spaces. */
enum { PEERS_NOTE_BYTES = 512, PEERS_TEXT_BYTES = 512 };

typedef struct peers_options {
    struct uv_loop_s *loop;
    store *store;
    const char *server; /* its id; must outlive this */
    /* Called after each look, with what differs, or NULL. Valid until it returns. */
    void (*on_look)(void *arg, const char *differs);
    void *arg;
} peers_options;

/* Copies the options. It looks after peers_begin. */
peers *peers_new(const peers_options *options);

/* Sets this server's note, from the next look on; copied. */
void peers_note(peers *p, const char *note);

/* The store is connected: looks now, and periodically from now on. */
void peers_begin(peers *p);

/* Takes NULL. */
void peers_stop(peers *p);

/* Call this when no store call is under way. Freed on the next turn of the loop. Takes NULL. */
void peers_close(peers *p);

/* Describes what differs, for people: each name for which both notes have a value and the values differ. Returns false
 * if nothing differs. Pure. */
bool peers_differ(const char *here, const char *there, char text[PEERS_TEXT_BYTES]);

#endif
