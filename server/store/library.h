/* The function library inside Redis: there, with our code; used, so kept;
 * others' forgotten ones, removed. */
#ifndef LOCKSTOCK_SERVER_STORE_LIBRARY_H
#define LOCKSTOCK_SERVER_STORE_LIBRARY_H

#include <stdbool.h>

#include "store/connection.h"

/* Where servers note when they last used a library, behind a base: digest -> seconds of Redis' TIME. */
#define LIBRARY_USES "libraries"

enum { LIBRARY_UNUSED_DAYS = 7 };

typedef struct library library;

/* text and digest are static. The caller frees; a connection's commands must
 * have ended before. */
library *library_new(const char *text, const char *digest);
void library_free(library *library);

typedef enum library_verdict {
    LIBRARY_LOADED, /* it is there, and its code was compared */
    LIBRARY_FAILED, /* not now: `fault` says why */
    LIBRARY_FOREIGN /* another text stands under its name */
} library_verdict;

typedef void library_done(void *arg, library_verdict verdict, store_fault fault);

/* Looks whether the library is there, loads it if not. One at a time. `done` is
 * not called when the connection is lost before. */
void library_ensure(library *library, connection *connection, library_done *done, void *arg);

/* Notes under `base` that the library is used, and deletes those that nobody used for 7 days.
 * In the background; failures are logged only. Does nothing while it still runs. */
void library_keep(library *library, connection *connection, const char *base);

#endif
