/* Called by server.c at the start and after a reload. */
#include "note.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockstock/version.h>

#include "commit.h"

enum { NAMESPACES_BYTES = 128, ID_BYTES = 24, POLICY_DIGITS = 12 }; /* the first digits of the digest */

static const char *word(bool value)
{
    return value ? "true" : "false";
}

/* Leaves out the hosts, whose order and names may differ between servers, and the password, which is secret. */
static const char *lock_path(const settings *c)
{
    const char *path = c->lock_store ? strchr(c->lock_store + strlen("zookeeper://"), '/') : NULL;

    return path ? path : "none";
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Writes the namespaces sorted by name. */
static void write_namespaces(const config_list *list, char *text, size_t size)
{
    char *names[CONFIG_LIST_MAX];
    size_t at = 0;

    text[0] = '\0';
    memcpy(names, list->of, list->n * sizeof *names);
    qsort(names, list->n, sizeof *names, by_text);
    for (size_t i = 0; i < list->n && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%s", i == 0 ? ":" : "+", names[i]);
}

void note_settings(peers *p, const settings *c, const char *policy, const quorum *locks)
{
    char note[PEERS_NOTE_BYTES], namespaces[NAMESPACES_BYTES], ensemble[ID_BYTES] = "";
    quorum_view view = {.ensemble = 0};

    if (locks)
        quorum_look(locks, &view);
    if (view.ensemble != 0)
        snprintf(ensemble, sizeof ensemble, "%" PRIx64, view.ensemble);
    write_namespaces(&c->lock_store_namespaces, namespaces, sizeof namespaces);
    snprintf(note, sizeof note,
             "version=%s commit=%s policy=%.*s wait-replicas=%ld wait-ms=%ld allow-unsafe-store=%s message-bytes=%ld "
             "timeout-ms=%ld timeout-max-ms=%ld remember-refusals=%s id-sequence-block=%ld ensemble=%s lock-store=%s%s",
             LOCKSTOCK_VERSION, LOCKSTOCK_COMMIT, POLICY_DIGITS, *policy ? policy : "none", c->wait_replicas,
             c->wait_ms, word(c->allow_unsafe_store), c->message_bytes, c->timeout_ms, c->timeout_max_ms,
             word(c->remember_refusals), c->id_sequence_block, ensemble, lock_path(c), namespaces);
    peers_note(p, note);
}
