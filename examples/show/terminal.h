/* The terminal: its modes, its size, and that it is left as it was found. One a process. */
#ifndef SHOW_TERMINAL_H
#define SHOW_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>

/* Standard output is one that can show this. */
bool terminal_is_live(void);

/* Takes it over: its other screen, no cursor, keys as they are pressed, where standard input is the same terminal.
 * It is given back by terminal_leave, by exit, and by the signals with which programs crash. */
void terminal_enter(void);

/* Takes back all of it; at once and any number of times. */
void terminal_leave(void);

/* True when keys can be read from standard input. */
bool terminal_has_keys(void);

/* In characters; 80 by 24 when it does not say. */
void terminal_size(size_t *rows, size_t *columns);

/* Writes all of it, if it can. */
void terminal_write(const char *bytes, size_t n);

#endif
