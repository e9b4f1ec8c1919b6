/* Shared by test_callers.c and its scene: a loop, callers with room for few, and calls that only count. Main thread
 * only. */
#ifndef LOCKSTOCK_TESTS_CALLERS_SCENE_H
#define LOCKSTOCK_TESTS_CALLERS_SCENE_H

#include <uv.h>

#include "calls/callers.h"
#include "test.h"

enum { RUNNING = 8, EACH = 4, WAITING = 8, WAITING_EACH = 6, CALLS_MAX = 400, SHARE = 4, CONNECTIONS_MAX = 32 };
#define TAKES_EACH (EACH - EACH / 4) /* and so many that settle */
#define TAKES (RUNNING - RUNNING / 4)

/* New for each case. */
extern struct scene {
    uv_loop_t loop;
    callers *all;
    budget *budget;
    caller *connections[CONNECTIONS_MAX]; /* NULL: lost */
    size_t n_connections;
    caller_call calls[CALLS_MAX];
    size_t n;
    size_t started[CALLS_MAX]; /* numbers of calls, as they started */
    size_t n_started;
    size_t n_abandoned, n_rooms;
    bool leave_at_once; /* a call that starts is over */
    uint64_t now_ns;
    uint64_t costs_ns; /* what starting one takes */
    bool closed;
    uv_async_t alive;
} here;

/* A call of the scene starts: it is counted. */
void on_start(caller_call *call);

int setup_with(uint64_t turn_ns, uint64_t stall_ns, uint32_t waiting_per_caller, uint32_t share);
void lose(caller *c);
/* All calls leave. */
void leave_all(void);
int teardown(void **state);
caller *connect_one(void);
caller *connect_of(const char *owner);
/* A call that was not admitted yet. */
caller_call *make(caller *c);
/* One that must be admitted. */
caller_call *admit(caller *c, bool settles);
/* One call more is refused. */
void refused(caller *c, bool settles);
/* One that may wait; OK or RESOURCE_EXHAUSTED. */
lks_code wait_as(caller *c, const char *principal);
caller_call *park_one(caller *c, const char *principal);
void admit_many(caller *c, size_t n, bool settles);
/* Until the connection queues. */
void fill_room(caller *c);
void turn(void); /* of the loop */

#define take(c) admit(c, false)
#define settle(c) admit(c, true)
#define take_many(c, n) admit_many(c, n, false)
#define settle_many(c, n) admit_many(c, n, true)

#endif
