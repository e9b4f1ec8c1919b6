/* What is seen while the sale runs: both shops side by side, or a line a second. */
#ifndef SHOW_SCREEN_H
#define SHOW_SCREEN_H

#include "crowd.h"
#include "news.h"
#include "waits.h"

enum { SCREEN_NEWS = 5 }; /* lines of news on a screen */

typedef struct picture {
    crowd *crowd;
    totals totals[SIDES];
    const waits *waits[SIDES];
    const news *said;
    const char *help; /* a line on the keys */
    bool utf8;        /* the terminal shows it */
} picture;

/* Draws the whole screen, as large as the terminal is now; what does not fit is left out. The news are the last lines
 * of those told. */
void screen_draw(const picture *p);

/* Prints one line to standard output. */
void screen_line(const picture *p, double seconds);

#endif
