/* The function library in Redis: loads it, notes that it is used, and deletes libraries that no server uses. */
#ifndef LOCKSTOCK_SERVER_STORE_LIBRARY_H
#define LOCKSTOCK_SERVER_STORE_LIBRARY_H

#include <stdbool.h>

#include "store/connection.h"

/* The key, after a base, of a hash: digest of a library -> when a server last used it, in seconds of Redis' TIME. */
#define LIBRARY_USES "libraries"

enum { LIBRARY_UNUSED_DAYS = 7 };

typedef enum library_verdict {
    LIBRARY_LOADED, /* the library is in the store, with this code */
    LIBRARY_FAILED, /* not now: see the fault */
    LIBRARY_FOREIGN /* a library with its name has another text */
} library_verdict;

typedef void library_done(void *arg, library_verdict verdict, store_fault fault);

enum { LIBRARY_NAME_BYTES = 64, LIBRARY_SECONDS_BYTES = 24 };

/* Embedded in a shard; it must outlive the connection. */
typedef struct library {
    const char *text, *digest; /* static; set by the owner */

    connection *connection; /* private to library.c from here on */
    char name[LIBRARY_NAME_BYTES];
    library_done *done;
    void *arg;
    bool listed_again;
    bool keeping;
    char uses[LIBRARY_NAME_BYTES];   /* the key */
    char now[LIBRARY_SECONDS_BYTES]; /* of Redis */
} library;

/* Loads the library if it is missing. One call at a time. `done` is not called if the connection is lost. */
void library_ensure(library *library, connection *connection, library_done *done, void *arg);

/* Notes under `base` that the library is used, and deletes those that were not used for 7 days. Runs in the
 * background, once at a time; logs failures. */
void library_keep(library *library, connection *connection, const char *base);

#endif
