/* Pages of a list over all parts of the store (store_part), one part after the other. The keys of each slot are listed
 * once.
 *
 * A page token of a store with several parts is "~<listed>!<here>!<node>!<rest>": the slots that are done; the
 * slots that the node which is being listed has had since its first page; its id; and what the service needs to
 * continue there. With one part it is <rest> alone. So a slot that moves while pages are read is not missed: it is
 * listed where it is then, and a node that replaces another one is listed from its beginning. Pure. */
#ifndef LOCKSTOCK_SERVER_WALK_H
#define LOCKSTOCK_SERVER_WALK_H

#include <stdbool.h>

#include "services/service.h"

enum { WALK_SLOTS = 16384 };

typedef struct walk {
    unsigned char listed[WALK_SLOTS / 8], here[WALK_SLOTS / 8];
    const char *node; /* "" = none yet */
    const char *rest; /* "" at first, and at the beginning of a part */
} walk;

/* Parses a token, or "", into the arena. Returns NULL if walk_next cannot have returned it. */
walk *walk_read(lks_rpc_arena *arena, const char *token);

/* Returns the slots that are done, as functions take them: "0-99,100-100". */
const char *walk_listed(lks_rpc_arena *arena, const walk *w);

/* Sends the plan's last call to the next part. */
void walk_place(const walk *w, plan *p);

/* Returns the token after a page; "" when everything is listed. `node` and `slots` are from the function's reply, ""
 * with one part; rest "" = the node has no more. */
const char *walk_next(lks_rpc_arena *arena, const walk *w, const char *node, const char *slots, const char *rest);

#endif
