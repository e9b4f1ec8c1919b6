/* Whether other servers on this store are as this one: version, settings that count for all, policy. Each keeps a note in the
 * store for a while, and reads those of the others. Loop thread only. */
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
    const char *server; /* its id; outlives this */
    /* Called after each look, with what differs, or NULL. Valid until it returns. */
    void (*on_look)(void *arg, const char *differs);
    void *arg;
} peers_options;

/* The options are copied. It looks from peers_begin on. */
peers *peers_new(const peers_options *options);

/* What this server says of itself from the next look on; copied. */
void peers_note(peers *p, const char *note);

/* The store is heard: looks now, and from now on. */
void peers_begin(peers *p);

/* Looks no more. Takes NULL. */
void peers_stop(peers *p);

/* With no store call under way. Freed when the loop has run on. Takes NULL. */
void peers_close(peers *p);

/* What differs, for people: each name for which both notes have a value, and not the same. False: nothing. Pure. */
bool peers_differ(const char *here, const char *there, char text[PEERS_TEXT_BYTES]);

#endif
