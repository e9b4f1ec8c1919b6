/* Which shard has which slot, by the newest known claims, and which slot is on its way to another shard. No I/O; loop
 * thread only. */
#ifndef LOCKSTOCK_SERVER_STORE_OWNERS_H
#define LOCKSTOCK_SERVER_STORE_OWNERS_H

#include <stdbool.h>
#include <stdint.h>

#include "store/shard.h"
#include "store/slots.h"

typedef struct owners {
    shard *of[SLOTS];      /* NULL: not known */
    uint64_t epoch[SLOTS]; /* of the claim */
    uint16_t moving;       /* a slot whose owner answered ASK: of several the one that was seen first, */
    uint64_t moving_since_ms, moving_last_ms; /* and when; 0: none is */
} owners;

/* One shard has all. */
void owners_set_all(owners *owners, shard *only);

/* Follows the claims of a map that are not older than the known ones. `found` names the shard of a node, once for each
 * that claims anything. Returns whether an owner has changed. */
bool owners_take_map(owners *owners, const slots_map *map, shard *(*found)(void *arg, const slots_node *node),
                     void *arg);

/* Counts the slots of each owner, whose counts are 0, and chooses its part. */
void owners_count(const owners *owners);

/* Forgets how new the claims are: of all, or of shards that do not serve. */
void owners_forget(owners *owners, bool all);

/* The slot's owner has said at now_ms that it moves. */
void owners_note_moving(owners *owners, uint16_t slot, uint64_t now_ms);

/* The shard whose slot has moved for so long that people should know; NULL: there is none. */
const shard *owners_stuck(const owners *owners);

/* Forgets a move of which nothing was heard for long. */
void owners_forget_moving(owners *owners, uint64_t now_ms);

#endif
