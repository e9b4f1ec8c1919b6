/* The function library in Redis: loads it, notes that it is used, and deletes libraries that no server uses. */
#ifndef LOCKSTOCK_SERVER_STORE_LIBRARY_H
#define LOCKSTOCK_SERVER_STORE_LIBRARY_H

#include <stdbool.h>

#include "store/connection.h"

/* The key, after a base, of a hash: digest of a library -> when a server last used it, in seconds of Redis' TIME. */
#define LIBRARY_USES "libraries"

enum { LIBRARY_UNUSED_DAYS = 7 };

typedef struct library library;

/* text and digest are static. Call library_free after the connection was closed. */
library *library_new(const char *text, const char *digest);
void library_free(library *library);

typedef enum library_verdict {
    LIBRARY_LOADED, /* the library is in the store, with this code */
    LIBRARY_FAILED, /* not now: see the fault */
    LIBRARY_FOREIGN /* a library with its name has another text */
} library_verdict;

typedef void library_done(void *arg, library_verdict verdict, store_fault fault);

/* Loads the library if it is missing. One call at a time. `done` is not called if the connection is lost. */
void library_ensure(library *library, connection *connection, library_done *done, void *arg);

/* Notes under `base` that the library is used, and deletes those that were not used for 7 days. Runs in the
 * background, once at a time; logs failures. */
void library_keep(library *library, connection *connection, const char *base);

#endif
