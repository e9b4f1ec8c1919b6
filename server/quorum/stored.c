#include "quorum/stored.h"

#include <stdlib.h>
#include <string.h>

#include "memory.h"

/* A byte FORMAT, time, sent, writers, messages, keys. A number has 8 bytes, little-endian; a text its length before it; a
 * list its count. */
enum { FORMAT = 1, NUMBER_BYTES = 8, MESSAGE_KEPT_US = 10000000 };

/* ---- writing --------------------------------------------------------------------------- */

typedef struct writer {
    char *data; /* NULL: only counts */
    size_t len;
} writer;

static void put_bytes(writer *w, const void *data, size_t len)
{
    if (w->data && len > 0)
        memcpy(w->data + w->len, data, len);
    w->len += len;
}

static void put_number(writer *w, uint64_t number)
{
    unsigned char bytes[NUMBER_BYTES];

    for (size_t i = 0; i < NUMBER_BYTES; i++)
        bytes[i] = (unsigned char)(number >> 8 * i);
    put_bytes(w, bytes, sizeof bytes);
}

static void put_text(writer *w, const char *text, size_t len)
{
    put_number(w, len);
    put_bytes(w, text, len);
}

static void put_state(writer *w, const stored_group *s, const keys_buffer *packed)
{
    const stored_message *m;

    put_bytes(w, &(char){FORMAT}, 1);
    put_number(w, (uint64_t)s->time_us);
    put_number(w, s->sent);
    put_number(w, s->n_writers);
    for (size_t i = 0; i < s->n_writers; i++) {
        put_text(w, s->writers[i].server, strlen(s->writers[i].server));
        put_number(w, s->writers[i].write);
    }
    put_number(w, s->n_messages);
    TAILQ_FOREACH(m, &s->messages, in_all) {
        put_number(w, m->number);
        put_number(w, (uint64_t)m->at_us);
        put_text(w, m->server, strlen(m->server));
        put_text(w, m->text, m->len);
    }
    put_bytes(w, packed->data, packed->len);
}

lks_rpc_slice stored_pack(const stored_group *s, lks_rpc_arena *arena)
{
    keys_buffer packed = {0};
    writer counted = {0};

    keys_pack(s->keys, &packed);
    put_state(&counted, s, &packed);
    writer w = {.data = memory_in(arena, counted.len)};
    put_state(&w, s, &packed);
    free(packed.data);
    return (lks_rpc_slice){.data = w.data, .len = w.len};
}

/* ---- reading --------------------------------------------------------------------------- */

typedef struct reader {
    const char *data;
    size_t left;
    bool failed;
} reader;

static const char *take_bytes(reader *r, size_t len)
{
    const char *data = r->data;

    if (r->failed || len > r->left) {
        r->failed = true;
        return NULL;
    }
    r->data += len;
    r->left -= len;
    return data;
}

static uint64_t take_number(reader *r)
{
    const unsigned char *bytes = (const unsigned char *)take_bytes(r, NUMBER_BYTES);
    uint64_t number = 0;

    for (size_t i = 0; bytes && i < NUMBER_BYTES; i++)
        number |= (uint64_t)bytes[i] << 8 * i;
    return number;
}

/* A copy with a NUL after it; NULL: failed. */
static char *take_text(reader *r, size_t *len)
{
    const uint64_t n = take_number(r);
    const char *text = take_bytes(r, n);

    if (len)
        *len = r->failed ? 0 : n;
    return text ? memory_copy(text, n) : NULL;
}

static void take_writers(reader *r, stored_group *s)
{
    const uint64_t n = take_number(r);

    r->failed = r->failed || n > STORED_WRITERS;
    for (uint64_t i = 0; i < n && !r->failed; i++) {
        stored_writer *w = &s->writers[i];
        w->server = take_text(r, NULL);
        w->write = take_number(r);
        s->n_writers += w->server != NULL;
    }
}

static void take_messages(reader *r, stored_group *s)
{
    const uint64_t n = take_number(r);

    r->failed = r->failed || n > STORED_MESSAGES;
    for (uint64_t i = 0; i < n && !r->failed; i++) {
        stored_message *m = memory_alloc(sizeof *m);
        m->number = take_number(r);
        m->at_us = (int64_t)take_number(r);
        m->server = take_text(r, NULL);
        m->text = take_text(r, &m->len);
        TAILQ_INSERT_TAIL(&s->messages, m, in_all);
        s->n_messages++;
    }
}

bool stored_unpack(stored_group *s, const char *data, size_t len)
{
    reader r = {.data = data, .left = len};
    const char *format = take_bytes(&r, 1);
    keys *found = NULL;

    stored_clear(s);
    r.failed = r.failed || *format != FORMAT;
    s->time_us = (int64_t)take_number(&r);
    s->sent = take_number(&r);
    take_writers(&r, s);
    take_messages(&r, s);
    r.failed = r.failed || !(found = keys_unpack(r.data, r.left));
    if (r.failed) {
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
        free(s->writers[at].server); /* NULL, or that of the oldest */
    }
    memmove(s->writers + 1, s->writers, at * sizeof s->writers[0]);
    own.write = write;
    s->writers[0] = own;
}

static bool is_old(const stored_message *m, int64_t now_us)
{
    return m && m->at_us + MESSAGE_KEPT_US < now_us;
}

void stored_send(stored_group *s, const char *server, const char *text, size_t len, int64_t now_us)
{
    stored_message *m = memory_alloc(sizeof *m);

    while (s->n_messages == STORED_MESSAGES || is_old(TAILQ_FIRST(&s->messages), now_us))
        drop_oldest_message(s);
    *m = (stored_message){.number = ++s->sent,
                          .at_us = now_us,
                          .server = memory_copy(server, strlen(server)),
                          .text = memory_copy(text, len),
                          .len = len};
    TAILQ_INSERT_TAIL(&s->messages, m, in_all);
    s->n_messages++;
}
