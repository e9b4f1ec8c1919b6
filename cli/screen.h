/* A terminal's screen that is drawn again and again, and the keys pressed meanwhile. The program's one screen; main thread. */
#ifndef LOCKSTOCK_CLI_SCREEN_H
#define LOCKSTOCK_CLI_SCREEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether standard output is a terminal that can be drawn on. */
bool screen_is_there(void);

/* Takes the screen; it is given back by screen_leave, and when the program exits. */
void screen_enter(void);

/* Gives it back; SIGTERM, SIGHUP and SIGQUIT, if they came, end the program now, as if it had not caught them. */
void screen_leave(void);

/* q or Ctrl-C was pressed, or a signal tells the program to end. Looks at the keys; does not block. */
bool screen_is_over(void);

/* Waits as long; returns earlier when screen_is_over, or when the size has changed. */
void screen_wait(int64_t ms);

/* Rows and columns as they are now. */
void screen_size(size_t *rows, size_t *columns);

/* One drawing: from the top, a line after the other, cut to the columns; what is too much for the rows is left out.
 * Lines are UTF-8 without control characters. */
void screen_begin(void);
void screen_line(const char *line);
void screen_heading(const char *line); /* bold */
void screen_end(void);

#endif
