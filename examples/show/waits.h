/* How long buyers waited from their arrival to their answer, over time: one value for each quarter of a second. */
#ifndef SHOW_WAITS_H
#define SHOW_WAITS_H

#include "crowd.h"

enum { WAITS_KEPT = 256, WAITS_NONE = -1 };

typedef struct waits waits;

/* NULL: out of memory. The caller frees. */
waits *waits_new(crowd *c, shop_side side);
void waits_free(waits *w);

/* Takes in who got an answer since the last time. */
void waits_look(waits *w, int64_t now_ms);

/* Nine of ten who got theirs in a quarter of a second waited no longer than so many ms; `ago` = 0 is the last whole
 * quarter. WAITS_NONE: nobody got one. */
int64_t waits_at(const waits *w, size_t ago);

/* 0 to 7: 1 ms or less, 3, 10, 30, 100, 300, 1,000, and more. */
unsigned waits_level(int64_t ms);

/* Of all of the side that have an answer: half of them waited no longer than *half_ms, nobody longer than *longest_ms;
 * 0 when there is none. */
void waits_all(crowd *c, shop_side side, int64_t *half_ms, int64_t *longest_ms);

#endif
