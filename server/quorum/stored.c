#include "quorum/stored.h"

#include <stdlib.h>
#include <string.h>

#include "base/varint.h"
#include "machine/packed.h"
#include "memory.h"

/* The packed form: a byte FORMAT, time, sent, writers, messages, keys, made of numbers and texts as in packed.h. A
 * count precedes each list. */
enum { FORMAT = 1, HEAD_NUMBERS = 4, MESSAGE_KEPT_US = 10000000 };

/* ---- as bytes -------------------------------------------------------------------------- */

static size_t bytes_at_most(const stored_group *s)
{
    size_t numbers = HEAD_NUMBERS + 2 * s->n_writers + 4 * s->n_messages, texts = 0;
    const stored_message *m;

    for (size_t i = 0; i < s->n_writers; i++)
        texts += strlen(s->writers[i].server);
    TAILQ_FOREACH(m, &s->messages, in_all)
        texts += strlen(m->server) + m->len;
    return 1 + numbers * PACKED_NUMBER_MAX + texts + keys_bytes(s->keys);
}

lks_rpc_slice stored_pack(const stored_group *s, lks_rpc_arena *arena)
{
    char *begin = memory_in(arena, bytes_at_most(s)), *at = begin;
    const stored_message *m;

    *at++ = FORMAT;
    at = varint_put(at, (uint64_t)s->time_us);
    at = varint_put(at, s->sent);
    at = varint_put(at, s->n_writers);
    for (size_t i = 0; i < s->n_writers; i++)
        at = varint_put(packed_put_text(at, lks_rpc_slice_of(s->writers[i].server)), s->writers[i].write);
    at = varint_put(at, s->n_messages);
    TAILQ_FOREACH(m, &s->messages, in_all) {
        at = varint_put(varint_put(at, m->number), (uint64_t)m->at_us);
        at = packed_put_text(packed_put_text(at, lks_rpc_slice_of(m->server)), (lks_rpc_slice){m->text, m->len});
    }
    at = keys_pack(s->keys, at);
    return (lks_rpc_slice){.data = begin, .len = (size_t)(at - begin)};
}

/* Returns a copy with a NUL after it. */
static char *take_text(packed_reader *r, size_t *len)
{
    const lks_rpc_slice text = packed_text(r);

    *len = text.len;
    return memory_copy(text.data, text.len);
}

static void take_writers(packed_reader *r, stored_group *s)
{
    const uint64_t n = packed_number(r);
    size_t len;

    packed_refuse_unless(r, n <= STORED_WRITERS);
    for (; s->n_writers < n && !r->failed; s->n_writers++) {
        stored_writer *w = &s->writers[s->n_writers];
        w->server = take_text(r, &len);
        w->write = packed_number(r);
    }
}

static void take_messages(packed_reader *r, stored_group *s)
{
    const uint64_t n = packed_number(r);
    size_t len;

    packed_refuse_unless(r, n <= STORED_MESSAGES);
    for (; s->n_messages < n && !r->failed; s->n_messages++) {
        stored_message *m = memory_alloc(sizeof *m);
        m->number = packed_number(r);
        m->at_us = (int64_t)packed_number(r);
        m->server = take_text(r, &len);
        m->text = take_text(r, &m->len);
        TAILQ_INSERT_TAIL(&s->messages, m, in_all);
    }
}

bool stored_unpack(stored_group *s, const char *data, size_t len)
{
    packed_reader r = packed_reader_of(data, len);
    keys *found = NULL;

    stored_clear(s);
    packed_refuse_unless(&r, packed_byte(&r) == FORMAT);
    s->time_us = (int64_t)packed_number(&r);
    s->sent = packed_number(&r);
    take_writers(&r, s);
    take_messages(&r, s);
    if (r.failed || !(found = keys_unpack(r.at, packed_left(&r)))) {
        stored_clear(s);
        return false;
    }
    keys_free(s->keys);
    s->keys = found;
    return true;
}

/* ---- the group ------------------------------------------------------------------------- */

void stored_init(stored_group *s)
{
    *s = (stored_group){.keys = keys_new()};
    TAILQ_INIT(&s->messages);
}

static void drop_oldest_message(stored_group *s)
{
    stored_message *m = TAILQ_FIRST(&s->messages);

    TAILQ_REMOVE(&s->messages, m, in_all);
    s->n_messages--;
    free(m->server);
    free(m->text);
    free(m);
}

void stored_free(stored_group *s)
{
    while (s->n_messages > 0)
        drop_oldest_message(s);
    for (size_t i = 0; i < s->n_writers; i++)
        free(s->writers[i].server);
    keys_free(s->keys);
}

void stored_clear(stored_group *s)
{
    stored_free(s);
    stored_init(s);
}

uint64_t stored_write_of(const stored_group *s, const char *server)
{
    for (size_t i = 0; i < s->n_writers; i++)
        if (strcmp(s->writers[i].server, server) == 0)
            return s->writers[i].write;
    return 0;
}

void stored_note_write(stored_group *s, const char *server, uint64_t write)
{
    stored_writer own = {0};
    size_t at = 0;

    while (at < s->n_writers && strcmp(s->writers[at].server, server) != 0)
        at++;
    if (at < s->n_writers) {
        own = s->writers[at];
    } else {
        own.server = memory_copy(server, strlen(server));
        at = s->n_writers < STORED_WRITERS ? s->n_writers++ : STORED_WRITERS - 1;
        free(s->writers[at].server); /* NULL, or the oldest server */
    }
    memmove(s->writers + 1, s->writers, at * sizeof s->writers[0]);
    own.write = write;
    s->writers[0] = own;
}

static bool is_old(const stored_message *m, int64_t now_us)
{
    return m && m->at_us + MESSAGE_KEPT_US < now_us;
}

void stored_send(stored_group *s, lks_rpc_slice server, lks_rpc_slice text, int64_t now_us)
{
    stored_message *m = memory_alloc(sizeof *m);

    while (s->n_messages == STORED_MESSAGES || is_old(TAILQ_FIRST(&s->messages), now_us))
        drop_oldest_message(s);
    *m = (stored_message){.number = ++s->sent,
                          .at_us = now_us,
                          .server = memory_copy(server.data, server.len),
                          .text = memory_copy(text.data, text.len),
                          .len = text.len};
    TAILQ_INSERT_TAIL(&s->messages, m, in_all);
    s->n_messages++;
}
