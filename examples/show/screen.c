/* A screen is a grid of cells, each one glyph wide: so nothing is ever written beyond an edge. */
#include "screen.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sale.h"
#include "shops.h"
#include "terminal.h"

typedef enum style { PLAIN, DIM, BOLD, RED, GREEN, YELLOW, ALARM, STYLES } style;

static const char *const sgr[STYLES] = {"\033[0m",    "\033[0;2m",  "\033[0;1m",      "\033[0;31m",
                                        "\033[0;32m", "\033[0;33m", "\033[0;1;37;41m"};

enum { GLYPH_MAX = 4, LABEL_COLUMNS = 23, NUMBER_COLUMNS = 8, FIRST_ROW = 3, NEWS_ROW = 17, LEVELS = 8 };

typedef struct cell {
    char glyph[GLYPH_MAX]; /* UTF-8; filled up with NUL */
    uint8_t style;
} cell;

typedef struct grid {
    size_t rows, columns;
    cell *cells;
} grid;

/* ---- the grid -------------------------------------------------------------------- */

static size_t glyph_bytes(const char *text)
{
    size_t n = 1;

    while (((unsigned char)text[n] & 0xC0) == 0x80 && n < GLYPH_MAX)
        n++;
    return n;
}

/* From `column` to before `end`; returns the column after it. */
static size_t put(grid *g, size_t row, size_t column, size_t end, style how, const char *text)
{
    size_t limit = end < g->columns ? end : g->columns;

    for (; *text != '\0' && row < g->rows && column < limit; column++) {
        cell *c = &g->cells[row * g->columns + column];
        size_t n = glyph_bytes(text);
        *c = (cell){.style = (uint8_t)how};
        memcpy(c->glyph, text, n);
        text += n;
    }
    return column;
}

/* ---- the two halves -------------------------------------------------------------- */

typedef struct half {
    grid *grid;
    size_t column, end, row;
} half;

static void say(half *h, style how, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void say(half *h, style how, const char *format, ...)
{
    char text[256];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    put(h->grid, h->row++, h->column, h->end, how, text);
}

static void count(half *h, style how, const char *label, size_t n)
{
    char number[COUNT_TEXT_MAX];

    say(h, how, "%-*s%*s", LABEL_COLUMNS, label, NUMBER_COLUMNS, count_text(n, number));
}

static void wait_rows(half *h, const picture *p, shop_side side)
{
    static const char *const bars[2][LEVELS] = {{".", ":", "-", "=", "+", "*", "#", "@"},
                                                {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"}};
    size_t columns = h->end > h->column ? h->end - h->column - 1 : 0;
    int64_t last = waits_at(p->waits[side], 0);

    if (last == WAITS_NONE)
        say(h, PLAIN, "%-*s%*s", LABEL_COLUMNS, "9 of 10 waited", NUMBER_COLUMNS, "-");
    else
        say(h, PLAIN, "%-*s%*" PRId64 " ms", LABEL_COLUMNS, "9 of 10 waited", NUMBER_COLUMNS, last);
    for (size_t i = 0; i < columns; i++) {
        int64_t ms = waits_at(p->waits[side], columns - 1 - i);
        if (ms != WAITS_NONE) {
            unsigned level = waits_level(ms);
            put(h->grid, h->row, h->column + i, h->end,
                level < 3   ? GREEN
                : level < 5 ? YELLOW
                            : RED,
                bars[p->utf8][level]);
        }
    }
    h->row++;
}

static void same_rows(half *h, const totals *t)
{
    count(h, BOLD, "bought", t->bought);
    count(h, PLAIN, "told sold out", t->sold_out);
    count(h, PLAIN, "waiting", t->asks);
    count(h, t->no_answer > 0 ? RED : PLAIN, "gave up, no answer", t->no_answer);
}

static void naive_rows(half *h, const picture *p)
{
    const totals *t = &p->totals[NAIVE];
    crowd *c = p->crowd;
    size_t missed = crowd_missed(c, t), over = crowd_oversold(c, t);
    unsigned holder = atomic_load(&c->holder[NAIVE]);

    say(h, RED, "BY HAND: %s", naive_titles[c->form]);
    same_rows(h, t);
    say(h, PLAIN, "%-*s%*" PRId64, LABEL_COLUMNS, "left, as it counts", NUMBER_COLUMNS, atomic_load(&c->naive_left));
    count(h, t->lost > 0 ? RED : PLAIN, "in doubt, tried anew", t->lost);
    if (atomic_load(&c->naive_stuck))
        say(h, ALARM, "its lock has no end: nobody gets in");
    else if (c->form == NAIVE_DECR)
        say(h, DIM, "no lock");
    else if (holder == 0)
        say(h, DIM, "lock: no client pays");
    else
        say(h, DIM, "lock: client %u, which pays", holder);
    h->row++;
    count(h, missed > 0 ? RED : PLAIN, "sales it did not count", missed);
    count(h, over > 0 ? ALARM : PLAIN, "OVERSOLD", over);
    wait_rows(h, p, NAIVE);
}

static void exact_rows(half *h, const picture *p)
{
    const totals *t = &p->totals[EXACT];
    crowd *c = p->crowd;
    size_t over = crowd_oversold(c, t);
    unsigned holder = atomic_load(&c->holder[EXACT]), late = atomic_load(&c->till_late);

    say(h, GREEN, "LOCKSTOCK: Deduct, by an order id");
    same_rows(h, t);
    count(h, t->lost > 0 ? YELLOW : PLAIN, "answer lost: MAYBE", t->lost);
    count(h, t->known > 0 ? GREEN : PLAIN, "... and then known", t->known);
    count(h, t->replayed > 0 ? GREEN : PLAIN, "... replayed", t->replayed);
    if (holder == 0)
        say(h, DIM, "till (lks_mutex): changes hands");
    else
        say(h, DIM, "till (lks_mutex): client %u", holder);
    count(h, late > 0 ? GREEN : PLAIN, "late writes refused", late);
    count(h, over > 0 ? ALARM : GREEN, "OVERSOLD", over);
    wait_rows(h, p, EXACT);
}

/* ---- all of it ------------------------------------------------------------------- */

static void fill(grid *g, const picture *p)
{
    const totals *naive = &p->totals[NAIVE], *exact = &p->totals[EXACT];
    size_t middle = g->columns / 2 + 1, all = p->crowd->n_buyers;
    half title = {g, 1, g->columns, 0}, left = {g, 1, middle - 1, FIRST_ROW},
         right = {g, middle + 1, g->columns, FIRST_ROW};
    half told = {g, 1, g->columns, NEWS_ROW};
    char buyers[COUNT_TEXT_MAX], stock[COUNT_TEXT_MAX], here[COUNT_TEXT_MAX];

    say(&title, BOLD, "%s buyers want one of %s phones, in two shops at once, on one Redis", count_text(all, buyers),
        count_text((size_t)p->crowd->stock, stock));
    say(&title, DIM, "%s have come to both",
        count_text(all - (naive->away > exact->away ? naive->away : exact->away), here));
    naive_rows(&left, p);
    exact_rows(&right, p);
    for (size_t row = FIRST_ROW; row < NEWS_ROW - 1; row++)
        put(g, row, middle - 1, middle, DIM, p->utf8 ? "│" : "|");
    for (size_t end = p->said->told, i = end > SCREEN_NEWS ? end - SCREEN_NEWS : 0; i < end; i++) {
        const char *text = news_at(p->said, i);
        if (text)
            say(&told, i == end - 1 ? BOLD : PLAIN, "%s", text);
    }
    put(g, g->rows - 1, 1, g->columns, YELLOW, p->help);
}

static void write_grid(const grid *g)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    if (!out)
        return;
    for (size_t row = 0; row < g->rows; row++) {
        unsigned now = STYLES;
        fprintf(out, "\033[%zu;1H", row + 1); /* no line ends, which scroll */
        for (size_t column = 0; column < g->columns; column++) {
            const cell *c = &g->cells[row * g->columns + column];
            if (c->style != now)
                fputs(sgr[c->style], out);
            now = c->style;
            if (c->glyph[0] == '\0')
                fputc(' ', out);
            else
                fprintf(out, "%.*s", GLYPH_MAX, c->glyph);
        }
    }
    fputs(sgr[PLAIN], out);
    if (fclose(out) == 0)
        terminal_write(text, size);
    free(text);
}

void screen_draw(const picture *p)
{
    grid g;

    terminal_size(&g.rows, &g.columns);
    g.cells = calloc(g.rows * g.columns, sizeof *g.cells);
    if (!g.cells)
        return;
    fill(&g, p);
    write_grid(&g);
    free(g.cells);
}

void screen_line(const picture *p, double seconds)
{
    const totals *naive = &p->totals[NAIVE], *exact = &p->totals[EXACT];

    printf(
        "%5.1f s  by hand: %zu bought, %zu sold out, %zu waiting, %zu gave up, %zu not counted, %zu OVERSOLD | "
        "lockstock: %zu bought, %zu sold out, %zu waiting, %zu gave up, %zu MAYBE, %zu of them known, %zu replayed\n",
        seconds, naive->bought, naive->sold_out, naive->asks, naive->no_answer, crowd_missed(p->crowd, naive),
        crowd_oversold(p->crowd, naive), exact->bought, exact->sold_out, exact->asks, exact->no_answer, exact->lost,
        exact->known, exact->replayed);
    fflush(stdout);
}
