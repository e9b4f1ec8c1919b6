/* Compares this server with the others on its store: version, policy, and settings that must be the same on all. Each
 * server keeps a note in the store for a while and reads the others' notes. Loop thread only. */
#ifndef LOCKSTOCK_SERVER_PEERS_H
#define LOCKSTOCK_SERVER_PEERS_H

#include <stdbool.h>
#include <stddef.h>

#include "store/store.h"

typedef struct peers peers;

/* A note, "name=value name=value": values without spaces. */
enum { PEERS_NOTE_BYTES = 512, PEERS_TEXT_BYTES = 512 };

typedef struct peers_options {
    store *store;
    const char *server; /* its id; must outlive this */
    /* Called after each look, with what differs, or NULL. Valid until it returns. */
    void (*on_look)(void *arg, const char *differs);
    void *arg;
} peers_options;

/* Copies the options. */
peers *peers_new(const peers_options *options);

/* Sets this server's note, from the next look on; copied. */
void peers_note(peers *p, const char *note);

/* Looks now, unless a look is under way. Call it when the store is connected, and every second. */
void peers_look(peers *p);

/* Call this when no store call is under way. Takes NULL. */
void peers_free(peers *p);

/* Describes what differs, for people: each name for which both notes have a value and the values differ. Returns false
 * if nothing differs. Pure. */
bool peers_differ(const char *here, const char *there, char text[PEERS_TEXT_BYTES]);

#endif
