/* Knows which shard has which slot, by the newest known claims, and which slot is moving to another shard. No I/O; loop
 * thread only. */
#ifndef LOCKSTOCK_SERVER_STORE_OWNERS_H
#define LOCKSTOCK_SERVER_STORE_OWNERS_H

#include <stdbool.h>
#include <stdint.h>

#include "store/shard.h"
#include "store/slots.h"

typedef struct owners {
    shard *of[SLOTS];                         /* NULL: not known */
    uint64_t epoch[SLOTS];                    /* of the claim */
    uint16_t moving;                          /* a slot whose owner answered ASK; of several, the first seen */
    uint64_t moving_since_ms, moving_last_ms; /* when it was first and last seen to move; 0: none */
} owners;

/* Applies the claims of a map that are not older than the known ones. `found` returns the shard of a node, called once
 * for each node that claims slots. Returns whether an owner has changed. */
bool owners_take_map(owners *owners, const slots_map *map, shard *(*found)(void *arg, const slots_node *node),
                     void *arg);

/* Counts the slots of each owner, whose counts must be 0, and chooses its part. */
void owners_count(const owners *owners);

/* Forgets the epochs of the claims: of all, or of shards that do not serve. */
void owners_forget(owners *owners, bool all);

/* Notes that the slot's owner reported at now_ms that the slot moves. */
void owners_note_moving(owners *owners, uint16_t slot, uint64_t now_ms);

/* Returns the shard whose slot has been moving for so long that people should know; NULL: none. */
const shard *owners_stuck(const owners *owners);

/* Forgets a move that was not seen for long. */
void owners_forget_moving(owners *owners, uint64_t now_ms);

#endif
