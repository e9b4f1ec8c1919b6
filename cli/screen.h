/* A terminal screen that is drawn repeatedly, and its keys. One per program; main thread only. */
#ifndef LOCKSTOCK_CLI_SCREEN_H
#define LOCKSTOCK_CLI_SCREEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns whether standard output is a terminal that can be drawn on. */
bool screen_is_there(void);

/* Switches to the alternate screen. screen_leave, or the exit of the program, restores the terminal. */
void screen_enter(void);

/* Restores the terminal. If SIGTERM, SIGHUP or SIGQUIT was caught, raises it again. */
void screen_leave(void);

/* Returns whether q or Ctrl-C was pressed, or a signal asks the program to end; false before screen_enter. Does not
 * block. */
bool screen_is_over(void);

/* Waits; returns early if screen_is_over, or if the size changes. */
void screen_wait(int64_t ms);

/* The current size. */
void screen_size(size_t *rows, size_t *columns);

/* Draws the screen from the top, line by line. Lines are cut to the columns, and left out below the last row. They
 * are UTF-8 without control characters. */
void screen_begin(void);
void screen_line(const char *line);
void screen_heading(const char *line); /* bold */
void screen_end(void);

#endif
