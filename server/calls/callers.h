/* Admission of calls. A caller is a connection; it counts its calls that run and that wait against limits of its
 * own, of the server and of its principal. A call that finds no room to run queues. A caller knows its calls, so
 * that the loss of a connection ends exactly these.
 *
 *   NEW --admit--> QUEUED --begin--> RUNNING --park--> PARKED --resume--> WOKEN
 *    ^ \--refused                     ^  |                                 |
 *    |                                \--|------------resume---------------/
 *    \------------leave, from any state--/
 *
 * With room, an admitted call skips QUEUED, and a resumed one WOKEN.
 *
 * Calls that settle (they end or keep something: Release, Renew, Confirm) find room when those that take do not:
 * they start first, and each kind has a quarter of the room to run that the other cannot use. A call that takes is
 * refused at once when it would queue for too long, which is estimated from the number of calls before it and the
 * rate at which such calls began lately. So under overload an admitted call is answered in time. A caller's starts
 * have a limit in each turn of the loop; then it is the others' turn. All connections of one owner (a principal, or
 * the address of an unknown caller) share these turns while another owner calls, and have a share of the calls that
 * run. So an owner of many connections gets no more than an owner of one. Loop thread only. */
#ifndef LOCKSTOCK_SERVER_CALLERS_H
#define LOCKSTOCK_SERVER_CALLERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include <lockstock/status.h>

#include "net/sink.h"

struct uv_loop_s;

typedef struct callers callers;

typedef struct callers_options {
    struct uv_loop_s *loop;
    uint32_t running_max;        /* places of running calls; 16 times as many calls that take may queue */
    uint32_t running_per_caller; /* more calls of one caller queue */
    uint32_t running_per_owner;  /* places of one owner while another calls; 0 = 32 */
    uint32_t waiting_max;        /* calls that may wait; half of them of one principal */
    uint32_t waiting_per_caller;
    uint64_t turn_ns;  /* time to start calls of one caller in one turn, and of all costly callers; 0 = 0.2 ms */
    uint64_t stall_ns; /* a queue that started nothing for this time is long; 0 = 20 ms */
} callers_options;

/* LKS_RESOURCE_EXHAUSTED: out of memory. */
lks_code callers_new(const callers_options *options, callers **ret, lks_error *error);

/* Call this when every caller is gone. `closed` runs on the loop when it is freed. */
void callers_close(callers *all, void (*closed)(void *arg), void *arg);

/* Makes a caller for a new connection. Its calls count in `bytes`, which must outlive them (budget.h ensures that).
 * on_room, which may be NULL, runs when caller_queues has become false, and may run more than once; of the functions in
 * this header only caller_leave and caller_park run it. Returns NULL when out of memory. */
caller *caller_new(callers *all, budget_share *bytes, void (*on_room)(void *arg), void *arg);

/* Sets the owner of a connection: its address, until a call of a principal is admitted. At first all connections have
 * one owner without a name. The name is copied. When out of memory the owner does not change. */
void caller_set_owner(caller *c, const char *name);

/* Sets the names of the connection for the log, the wire and the address, which must live as long as the connection. At
 * first "?". */
void caller_name(caller *c, const char *wire, const char *from);
const char *caller_wire(const caller *c);
const char *caller_from(const caller *c);

/* The connection is gone: `abandoned` runs for each of its calls, and the caller is freed with its last call. Takes
 * NULL. */
void caller_lost(caller *c);

/* While a caller is held, its calls queue. */
void caller_hold(caller *c, bool held);

/* Notes the size of a reply to a call that takes more places than one. New connections are assumed to receive large
 * replies. */
void caller_had_answer(caller *c, size_t bytes);

/* The `bytes` that caller_new got. */
budget_share *caller_bytes(const caller *c);

/* Whether its transport should stop reading: its calls queue, and have not queued for long. When calls queue for long
 * the transport reads on: unread calls would grow old where they cannot be refused. */
bool caller_queues(const caller *c);

/* Refuses a call with LKS_RESOURCE_EXHAUSTED if it would queue for more than a quarter of its remaining time
 * (base/pace.h). Call this before any work for the call. */
lks_code caller_refuse_if_late(const caller *c, uint64_t deadline_ns, lks_error *error);

typedef enum call_state {
    CALL_NEW,     /* not admitted, or left */
    CALL_QUEUED,  /* waits for room to begin */
    CALL_RUNNING, /* takes places; its store calls are under way */
    CALL_PARKED,  /* waits for an event; takes only memory */
    CALL_WOKEN,   /* an event came; waits for room to resume */
} call_state;

struct caller_call;

typedef struct call_ops {
    /* The call has room: after admission, and after a resume. Both may leave or park it. */
    void (*begin)(struct caller_call *call);
    void (*resume)(struct caller_call *call);
    /* The caller is lost. May leave. */
    void (*abandoned)(struct caller_call *call);
} call_ops;

/* The state of a call in admission; a member of the struct of the module that runs it. */
typedef struct caller_call {
    caller *caller;
    const call_ops *ops;
    bool settles;
    bool waits;          /* it may be parked */
    uint32_t more;       /* places beyond one that it takes while it runs, because it occupies the store for longer.
                          * Multiplied while its caller's answers may be large */
    call_state state;    /* others may read it; only callers.c changes it */
    uint32_t places;     /* private from here on: the places that it takes now */
    struct owner *owner; /* while it runs */
    struct named_entry *waiting;
    TAILQ_ENTRY(caller_call) in_caller, in_queue;
} caller_call;

/* Admits a call whose public members are set and whose others are zero: it starts before this returns, or queues.
 * principal NULL: unknown. LKS_RESOURCE_EXHAUSTED: no room, and nothing is counted; LKS_CANCELLED: the caller is
 * lost. */
lks_code caller_admit(caller_call *call, const char *principal, lks_error *error);

/* Parks a running call of a kind that waits: from now on it takes only memory. */
void caller_park(caller_call *call);

/* Runs a parked call again: `resume` runs before this returns, or the call queues. */
void caller_resume(caller_call *call);

/* Ends a call in any state. Does nothing for a call that was not admitted. */
void caller_leave(caller_call *call);

/* Whether a call is under way, in any state. */
bool callers_any(const callers *all);

/* The places that running calls take; the number of parked calls; the number of queued calls. */
uint32_t callers_running(const callers *all);
uint32_t callers_parked(const callers *all);
uint64_t callers_queued(const callers *all);

/* Returns the number of waiting calls of a principal. */
size_t callers_waiting_of(const callers *all, const char *principal);

#endif
