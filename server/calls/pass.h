/* A pass looks at all keys of the store, one bounded step at a time, one part of the store after another. It costs the
 * store a small share of its time, however many keys there are: at most one step is under way, and the next begins
 * PASS_STEP_MS after the results of the last one are handled. A step that fails ends its part; the next pass looks at
 * it again. Loop thread only. */
#ifndef LOCKSTOCK_SERVER_PASS_H
#define LOCKSTOCK_SERVER_PASS_H

#include <stdbool.h>
#include <stdint.h>

#include "store/store.h"

struct uv_loop_s;

enum { PASS_STEP_MS = 20, PASS_STEP_TIMEOUT_MS = 5000 };

typedef struct pass pass;

typedef struct pass_options {
    struct uv_loop_s *loop;
    store *store;
    const char
        *function; /* takes SCAN's cursor, and gives {'OK', next cursor or '' at the end of the part, found...} */
    uint64_t interval_ms;  /* from the end of a pass to the next */
    const char *shared_as; /* only one server at a time makes the passes of this name; NULL: each makes its own */
    /* The step found elements 2 to n of the reply, which is valid until this returns; NULL: the step failed. Then call
     * pass_continue, now or later. */
    void (*on_step)(void *arg, const store_value *reply);
    void (*on_end)(void *arg); /* the pass has walked all parts; may be NULL */
    void *arg;
} pass_options;

pass *pass_new(const pass_options *options);

/* Begins a pass, unless one is under way or, for a shared pass, another server began one a moment ago. */
void pass_begin(pass *p);

/* The owner has handled the results of the step. */
void pass_continue(pass *p);

/* Begins no more steps. Takes NULL. */
void pass_stop(pass *p);
bool pass_is_stopped(const pass *p);

/* Call this when no store call is under way. Freed on the next turn of the loop. Takes NULL. */
void pass_close(pass *p);

#endif
