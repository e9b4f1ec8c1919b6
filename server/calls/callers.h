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
    uint32_t running_max;        /* places of calls that run; 16 times as many calls may queue to take */
    uint32_t running_per_caller; /* more of one caller queue */
    uint32_t running_per_owner;  /* of one owner's while another calls; 0 = 32 */
    uint32_t waiting_max;        /* calls that may wait; half of them a principal's */
    uint32_t waiting_per_caller;
    uint64_t turn_ns;  /* that a caller's calls may take to start in one turn, and all costly ones'; 0 = 0.2 ms */
    uint64_t stall_ns; /* a queue of which nothing began for so long is long; 0 = 20 ms */
} callers_options;

/* LKS_RESOURCE_EXHAUSTED: out of memory. */
lks_code callers_new(const callers_options *options, callers **ret, lks_error *error);

/* With every caller gone; `closed` runs on the loop when it is freed. */
void callers_close(callers *all, void (*closed)(void *arg), void *arg);

/* A new connection. `bytes`, its share, must outlive its calls (budget.h ensures that). on_room, which may be NULL,
 * runs when caller_queues has become false, and may run more than once; of the functions in this header it runs only
 * from caller_leave and caller_park. Returns NULL when out of memory. */
caller *caller_new(callers *all, budget_share *bytes, void (*on_room)(void *arg), void *arg);

/* Sets the owner of a connection: the address it comes from, until a call of a principal is admitted. At first all
 * connections have one owner without a name. The name is copied. Out of memory the owner stays as it was. */
void caller_set_owner(caller *c, const char *name);

/* How the log names its connection: the wire and the address, which live as long as that. At first "?". */
void caller_name(caller *c, const char *wire, const char *from);
const char *caller_wire(const caller *c);
const char *caller_from(const caller *c);

/* The connection is gone: `abandoned` runs for each of its calls, and the caller is freed with the last of them. Takes
 * NULL. */
void caller_lost(caller *c);

/* While a caller is held, its calls queue. */
void caller_hold(caller *c, bool held);

/* The size of a reply to a call of it that takes more places than one. New connections are assumed to receive large
 * replies. */
void caller_had_answer(caller *c, size_t bytes);

/* Whether its connection is gone. */
bool caller_is_lost(const caller *c);

/* The share that was given. */
budget_share *caller_bytes(const caller *c);

/* Whether its transport should stop reading: calls of it queue, and not for long. When they queue for long, unread
 * calls would only age where they cannot be refused. */
bool caller_queues(const caller *c);

/* Refuses a call that would queue for more than a quarter of its remaining time (base/pace.h), with LKS_RESOURCE_EXHAUSTED. Call it before
 * any work is done for the call. */
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
    /* It has room: after admission, and after a resume. Both may leave or park it. */
    void (*begin)(struct caller_call *call);
    void (*resume)(struct caller_call *call);
    /* Its caller is lost. May leave. */
    void (*abandoned)(struct caller_call *call);
} call_ops;

/* A call's part in admission; inside the struct of the module that runs it. */
typedef struct caller_call {
    caller *caller;
    const call_ops *ops;
    bool settles;
    bool waits;    /* it may be parked */
    uint32_t more; /* places that it takes while it runs, beyond one: it holds up the store for so much longer. Several
                            times as many while its caller's answers may be large */
    call_state state;    /* others may read it, callers.c changes it */
    uint32_t places;     /* private from here on: that it takes now */
    struct owner *owner; /* while it runs */
    struct named_entry *waiting;
    TAILQ_ENTRY(caller_call) in_caller, in_queue;
} caller_call;

/* Admits a call of which the public members are set and the others are zero: it starts before this returns, or queues.
 * principal NULL: unknown. LKS_RESOURCE_EXHAUSTED: there is no room, and nothing is counted; LKS_CANCELLED: the caller
 * is lost. */
lks_code caller_admit(caller_call *call, const char *principal, lks_error *error);

/* A running call of a kind that waits: from now on it takes only memory. */
void caller_park(caller_call *call);

/* A parked call is to run again: `resume` runs before this returns, or the call queues. */
void caller_resume(caller_call *call);

/* The call is over, in any state; nothing when it was never admitted. */
void caller_leave(caller_call *call);

/* Whether a call is under way, in any state. */
bool callers_any(const callers *all);

/* Places that are taken by calls that run; calls that are parked; calls that queue. */
uint32_t callers_running(const callers *all);
uint32_t callers_parked(const callers *all);
uint64_t callers_queued(const callers *all);

/* How many calls of a principal wait. */
size_t callers_waiting_of(const callers *all, const char *principal);

#endif
