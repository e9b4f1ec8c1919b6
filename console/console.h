/* The console: a page for people at /console/, whose files are part of lockstockd. The files call the public API with
 * the visitor's own token; the server checks the rights of each call. */
#ifndef LOCKSTOCK_CONSOLE_CONSOLE_H
#define LOCKSTOCK_CONSOLE_CONSOLE_H

#include "net/http/page.h"

enum { CONSOLE_PAGES_MAX = 32, CONSOLE_OTHER_PAGES = 2 /* pages that are not files */ };

typedef struct console_file {
    const char *path, *type;
    const unsigned char *bytes;
    const size_t *len;
} console_file;

/* The files of this directory, listed by the build. */
extern const console_file console_files[];
extern const size_t console_files_len;

/* Writes the pages, and returns how many there are. */
size_t console_pages(http_page to[CONSOLE_PAGES_MAX]);

#endif
