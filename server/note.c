/* Called by server.c at its start and when files were read again. */
#include "note.h"

#include <stdio.h>

#include <lockstock/version.h>

#include "commit.h"

enum { POLICY_DIGITS = 12 }; /* the first ones of the digest */

static const char *word(bool value)
{
    return value ? "true" : "false";
}

void note_of(const settings *c, const char *policy, char note[PEERS_NOTE_BYTES])
{
    snprintf(note, PEERS_NOTE_BYTES,
             "version=%s commit=%s policy=%.*s wait-replicas=%ld wait-ms=%ld allow-unsafe-store=%s message-bytes=%ld "
             "timeout-ms=%ld timeout-max-ms=%ld remember-refusals=%s id-sequence-block=%ld",
             LOCKSTOCK_VERSION, LOCKSTOCK_COMMIT, POLICY_DIGITS, *policy ? policy : "none", c->wait_replicas,
             c->wait_ms, word(c->allow_unsafe_store), c->message_bytes, c->timeout_ms, c->timeout_max_ms,
             word(c->remember_refusals), c->id_sequence_block);
}
