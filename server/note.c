/* Called by server.c at its start and when files were read again. */
#include "note.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockstock/version.h>

#include "commit.h"
#include "digest.h"
#include "memory.h"

enum { POLICY_BYTES_MAX = 1 << 20, POLICY_DIGITS = 12 };

/* The first digits of the file's digest. */
static void digest_policy(const char *path, char text[DIGEST_HEX_LEN + 1])
{
    FILE *file = path ? fopen(path, "re") : NULL;

    strcpy(text, "none");
    if (!file)
        return;
    char *bytes = memory_alloc(POLICY_BYTES_MAX);
    digest_hex(bytes, fread(bytes, 1, POLICY_BYTES_MAX, file), text);
    text[POLICY_DIGITS] = '\0';
    free(bytes);
    fclose(file);
}

static const char *word(bool value)
{
    return value ? "true" : "false";
}

void note_of(const settings *c, char note[PEERS_NOTE_BYTES])
{
    char policy[DIGEST_HEX_LEN + 1];

    digest_policy(c->policy, policy);
    snprintf(note, PEERS_NOTE_BYTES,
             "version=%s commit=%s policy=%s wait-replicas=%ld wait-ms=%ld allow-unsafe-store=%s message-bytes=%ld "
             "timeout-ms=%ld timeout-max-ms=%ld remember-refusals=%s id-sequence-block=%ld",
             LOCKSTOCK_VERSION, LOCKSTOCK_COMMIT, policy, c->wait_replicas, c->wait_ms, word(c->allow_unsafe_store),
             c->message_bytes, c->timeout_ms, c->timeout_max_ms, word(c->remember_refusals), c->id_sequence_block);
}
