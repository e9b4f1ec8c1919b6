/* The parts of callers, for callers.c and callers_room.c only. */
#ifndef LOCKSTOCK_SERVER_CALLERS_STATE_H
#define LOCKSTOCK_SERVER_CALLERS_STATE_H

#include <uv.h>

#include "calls/callers.h"
#include "base/pace.h"
#include "base/named.h"
#include "net/close_barrier.h"

enum {
    CALLERS_RETRY_AFTER_MS = 100,
    CALLERS_QUIET_NS = 50 * 1000 * 1000, /* an owner without a call for this time does not count as calling */
};

typedef TAILQ_HEAD(, caller_call) call_list;
typedef TAILQ_HEAD(, caller) caller_list;
typedef TAILQ_HEAD(, owner) owner_list;

/* Places, by kind of call: those that take, those that settle. */
typedef struct running_calls {
    uint32_t of_kind[2];
} running_calls;

/* The owner of connections: a principal, or an address if no principal is known. */
typedef struct owner {
    named_entry named;    /* members: callers, and running calls */
    caller_list ready[2]; /* callers that can start a queued call, by kind of call */
    bool listed[2];       /* in `ready` of struct callers */
    TAILQ_ENTRY(owner) ready_in[2];
    running_calls running;
    uint32_t n_taking;      /* calls that queue to take */
    uint32_t n_limited;     /* those of them that may not wait; their number is limited */
    uint64_t turn, turn_ns; /* as in struct caller */
} owner;

struct caller {
    callers *all;
    owner *owner;
    budget_share *bytes;
    void (*on_room)(void *arg);
    void *arg;
    const char *wire, *from;
    call_list calls;    /* in any state */
    call_list queue[2]; /* queued calls, by kind */
    running_calls running;
    uint32_t n_waiting, n_queued[2], n_limited;
    uint64_t moved_ns;      /* when it last had no queued call that takes, or when one of those began */
    uint64_t turn, turn_ns; /* the turn, and the time that its calls took to start in it */
    bool was_costly;        /* its calls used up its last turn */
    uint32_t cost_factor;   /* 1..COST_FACTOR_MAX, by the size of its latest replies */
    unsigned pins;          /* functions that still use it */
    bool lost, held, ready[2];
    TAILQ_ENTRY(caller) ready_in[2], in_takers;
};

struct callers {
    callers_options options;
    owner_list ready[2]; /* owners of callers that can start a queued call, by kind of call */
    named_set owners;
    const owner *recent;           /* the owner whose call began last; NULL: gone */
    uint64_t recent_ns, others_ns; /* when that call began; and when the last call of another owner began */
    caller_list takers;            /* those with a queued call that takes */
    running_calls running;
    uint32_t n_waiting, n_parked, n_taking, n_limited, n_queued;
    uint32_t n_takers, n_owners_taking;
    pace pace;            /* of queued calls that take */
    named_set principals; /* their waiting calls are the members */
    uint64_t turn;
    uint64_t costly_ns, queue_ns; /* used in this turn: by costly callers' calls on arrival, and by queued calls */
    uint64_t light_ns;            /* when a caller that is not costly last had a call */
    bool serving;
    uv_prepare_t turn_end;
    uv_idle_t busy; /* the loop does not wait while calls could start */
    uv_timer_t look;
    close_barrier closing;
};

/* ---- callers_room.c ------------------------------------------------------------------- */

/* Adds a member; returns NULL when out of memory. */
owner *callers_enter_owner(callers *all, const char *name);
void callers_leave_owner(callers *all, owner *o);

/* Notes that a call of that owner begins. */
void callers_note_owner(callers *all, const owner *o, uint64_t now_ns);

/* Whether another owner had a call lately. */
bool callers_contended(const callers *all, const owner *o);

/* Whether one more call of that kind fits: into `max` places; into the owner's share, which counts while another
 * owner calls; and into all limits of the caller, its owner and the server. */
bool callers_fit(const running_calls *running, uint32_t max, bool settles);
bool callers_have_share(const callers *all, const owner *o, bool settles);
bool callers_have_room(const caller *c, bool settles);

/* Corrects the lists of callers and owners that can start a call. */
void callers_relist(caller *c);

void callers_enqueue(caller_call *call);
void callers_dequeue(caller_call *call);

/* How long a call that takes would queue: owners take turns, and so do the callers of one owner. */
uint64_t callers_queue_ns(const caller *c);
bool callers_queue_long(const caller *c);

/* Sets RESOURCE_EXHAUSTED, NO, with a time to retry after. */
lks_code callers_no_room(lks_error *error, lks_reason reason, const char *why);

/* Counts a call among those that may wait: of the server, of its connection, and of the principal unless that is
 * NULL. */
lks_code callers_enter_waiting(caller_call *call, const char *principal, lks_error *error);
void callers_leave_waiting(caller_call *call);

#endif
