/* Invariant: one call is under way at most. Called by server.c.
 *
 * A server that has ended cannot take its note away, and may have been this one before it was started again. So a
 * note counts only when it was written after the first look, whose own note ends at `since`: all are kept for the
 * same time. */
#include "calls/peers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "functions/arguments.h"
#include "memory.h"

enum { KEEP_MS = 5000, TIMEOUT_MS = 5000, NUMBER_BYTES = 24, N_ARGS = 3 };

struct peers {
    peers_options options;
    char note[PEERS_NOTE_BYTES];
    char asked[PEERS_NOTE_BYTES]; /* the note of the call that is under way */
    char keep[NUMBER_BYTES];
    lks_rpc_slice args[N_ARGS];
    store_call call;
    bool asking;
    int64_t since; /* 0: no look yet */
};

/* ---- notes -------------------------------------------------------------------------- */

/* Returns the value of that name in a note; NULL: not there. */
static const char *value_of(const char *note, const char *name, size_t len)
{
    for (; *note; note += strcspn(note, " "), note += *note == ' ')
        if (strncmp(note, name, len) == 0 && note[len] == '=')
            return note + len + 1;
    return NULL;
}

bool peers_differ(const char *here, const char *there, char text[PEERS_TEXT_BYTES])
{
    size_t at = 0;

    text[0] = '\0';
    for (const char *one = here; *one; one += strcspn(one, " "), one += *one == ' ') {
        size_t name_len = strcspn(one, "=");
        const char *ours = one + name_len + (one[name_len] == '='), *theirs = value_of(there, one, name_len);
        size_t len = strcspn(ours, " ");
        size_t their_len = theirs ? strcspn(theirs, " ") : 0;
        bool same = their_len == len && strncmp(ours, theirs, len) == 0;
        if (len == 0 || their_len == 0 || same || at >= PEERS_TEXT_BYTES)
            continue;
        at += (size_t)snprintf(text + at, PEERS_TEXT_BYTES - at, "%s%.*s is %.*s there and %.*s here",
                               at > 0 ? ", " : "another server on this store differs: ", (int)name_len, one,
                               (int)their_len, theirs, (int)len, ours);
    }
    return text[0] != '\0';
}

void peers_note(peers *p, const char *note)
{
    snprintf(p->note, sizeof p->note, "%s", note);
}

/* ---- looking ------------------------------------------------------------------------ */

static int64_t number(const store_value *value)
{
    char text[NUMBER_BYTES];

    if (value->type != STORE_STRING)
        return 0;
    snprintf(text, sizeof text, "%.*s", (int)value->string.len, value->string.data);
    return strtoll(text, NULL, 10);
}

static void on_notes(void *arg, const store_result *result)
{
    peers *p = arg;
    const store_value *reply = result->value;
    char text[PEERS_TEXT_BYTES] = "", note[PEERS_NOTE_BYTES];
    bool differs = false;

    p->asking = false;
    if (result->code != LKS_OK || reply->type != STORE_ARRAY || reply->n < 2)
        return;
    if (p->since == 0)
        p->since = number(&reply->element[1]);
    for (size_t i = 2; i + 1 < reply->n && !differs; i += 2) {
        const store_value *other = &reply->element[i + 1];
        if (other->type != STORE_STRING || number(&reply->element[i]) <= p->since)
            continue;
        snprintf(note, sizeof note, "%.*s", (int)other->string.len, other->string.data);
        differs = peers_differ(p->asked, note, text);
    }
    p->options.on_look(p->options.arg, differs ? text : NULL);
}

void peers_look(peers *p)
{
    if (p->asking)
        return;
    p->asking = true;
    strcpy(p->asked, p->note);
    p->args[ARG_SERVER_NOTE_ID] = lks_rpc_slice_of(p->options.server);
    p->args[ARG_SERVER_NOTE_NOTE] = lks_rpc_slice_of(p->asked);
    p->args[ARG_SERVER_NOTE_KEEP_MS] = lks_rpc_slice_of(p->keep);
    p->call = (store_call){.base = lks_rpc_slice_of(STORE_META_BASE),
                           .function = fn_server_note.name,
                           .n_args = N_ARGS,
                           .args = p->args,
                           .repeatable = true};
    store_submit(p->options.store, &p->call, clock_in_ms(TIMEOUT_MS), on_notes, p);
}

/* ---- beginning and end -------------------------------------------------------------- */

peers *peers_new(const peers_options *options)
{
    peers *p = memory_alloc(sizeof *p);

    *p = (peers){.options = *options};
    snprintf(p->keep, sizeof p->keep, "%d", KEEP_MS);
    return p;
}

void peers_free(peers *p)
{
    free(p);
}
