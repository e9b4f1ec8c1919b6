/* Pages of what all parts of the store keep (store_part): one part after the other, a slot's keys once.
 *
 * A page token of a store with several parts is "~<listed>!<here>!<node>!<rest>": the slots that are done with; those
 * that the node which is being listed has had since it began, and does not leave; its id; and what the service itself
 * needs to go on there. With one part it is <rest> alone. So a slot that moves while pages are read is not missed: it
 * is listed where it is then, and a node that takes another one's place is listed from its beginning. Pure. */
#ifndef LOCKSTOCK_SERVER_WALK_H
#define LOCKSTOCK_SERVER_WALK_H

#include <stdbool.h>

#include "services/service.h"

enum { WALK_SLOTS = 16384 };

typedef struct walk {
    unsigned char listed[WALK_SLOTS / 8], here[WALK_SLOTS / 8];
    const char *node; /* "" = none yet */
    const char *rest; /* "" at first, and where a part begins */
} walk;

/* Takes a token apart, "" too; all is in the arena. NULL: no walk_next gave it. */
walk *walk_read(lks_rpc_arena *arena, const char *token);

/* The slots that are done with, as functions take them: "0-99,100-100". */
const char *walk_listed(lks_rpc_arena *arena, const walk *w);

/* Sends the plan's last call to the part that is next. */
void walk_place(const walk *w, plan *p);

/* The token after a page: `node` and `slots` are the function's, "" with one part; rest "" = the node has no more.
 * "" = all is listed. */
const char *walk_next(lks_rpc_arena *arena, const walk *w, const char *node, const char *slots, const char *rest);

#endif
