/* Floods over SP. */
#include <stdlib.h>

#include "attack.h"
#include "support/counts.h"

enum { CALLS_OF_A_FRAME = 256, FRAMES = 500, CALLS_AT_A_TIME = 8 };

static bool put_frames(bytes *b, flood *f, const sp_call *call, size_t n_calls, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sp_put_frame(b, f->wire, f->next_id++, call, n_calls);
    return true;
}

static const sp_call unknown = {.path = PATH_DECODE, .payload = "\10\1", .len = 2},
                     known = {.path = PATH_DECODE, .payload = "\10\1", .len = 2, .token = TARGET_ATTACKERS_TOKEN};

static bool refused_frames(bytes *b, flood *f)
{
    return put_frames(b, f, &unknown, CALLS_OF_A_FRAME, 4);
}

static bool refused_calls(bytes *b, flood *f)
{
    return put_frames(b, f, &unknown, 1, FRAMES);
}

static bool frames(bytes *b, flood *f)
{
    return put_frames(b, f, &known, CALLS_OF_A_FRAME, 4);
}

static bool calls(bytes *b, flood *f)
{
    return put_frames(b, f, &known, 1, FRAMES);
}

static const sp_call item = {
    .path = PATH_GET_ITEM, .payload = "\12\1g\22\1s", .len = 6, .token = TARGET_ATTACKERS_TOKEN};

/* Each call asks the store. */
static bool item_frames(bytes *b, flood *f)
{
    return put_frames(b, f, &item, CALLS_OF_A_FRAME, 4);
}

static bool item_calls(bytes *b, flood *f)
{
    return put_frames(b, f, &item, 1, FRAMES);
}

/* A frame without a call. */
static bool empty_frames(bytes *b, flood *f)
{
    return put_frames(b, f, &unknown, 0, FRAMES);
}

/* No frame at all; whoever sends it is thrown out. */
static bool no_frames(bytes *b, flood *f)
{
    sp_put_length(b, f->wire, 8);
    bytes_put(b, "\x80\0\0\1\xFF\xFF\xFF\xFF", 8);
    return true;
}

static void greet(attacker *a, raw *r)
{
    bytes b = {0};

    sp_put_greeting(&b, a->wire);
    if (!attacker_open(a, r) || !raw_send(r, b.data, b.len))
        raw_close(r);
    bytes_free(&b);
}

/* One principal on many connections, each with a few calls at a time. */
static void many_connections(attacker *a)
{
    size_t n = counts_of(50, 400);
    raw *raws = calloc(n, sizeof *raws);
    flood f = {.wire = a->wire, .next_id = 1};
    bytes b = {0};

    if (!raws)
        abort();
    for (size_t i = 0; i < n; i++)
        raws[i].fd = -1;
    put_frames(&b, &f, &item, 1, CALLS_AT_A_TIME);
    for (size_t i = 0; attacker_goes_on(a); i = (i + 1) % n) {
        if (raws[i].fd >= 0 && raw_send(&raws[i], b.data, b.len))
            continue;
        raw_close(&raws[i]);
        greet(a, &raws[i]);
    }
    for (size_t i = 0; i < n; i++)
        raw_close(&raws[i]);
    free(raws);
    bytes_free(&b);
}

/* Calls with long answers that nobody reads. Of a few connections the oldest is closed and comes again, once the
 * newest has an answer. */
static void unread_answers(attacker *a)
{
    enum { CONNECTIONS = 10, CALLS = 100, PATIENCE_MS = 1000 };
    raw raws[CONNECTIONS];
    bytes request = {0}, b = {0};
    uint8_t first[9]; /* the greeting, and more */

    pack_uuids(&request);
    const sp_call call = {
        .path = PATH_NEXT, .payload = request.data, .len = request.len, .token = TARGET_ATTACKERS_TOKEN};
    sp_put_greeting(&b, a->wire);
    for (uint32_t id = 1; id <= CALLS; id++)
        sp_put_frame(&b, a->wire, id, &call, 1);
    for (size_t i = 0; i < CONNECTIONS; i++)
        raws[i] = (raw){.fd = -1};
    for (size_t i = 0; attacker_goes_on(a); i = (i + 1) % CONNECTIONS) {
        if (raws[i].fd >= 0)
            raw_close(&raws[i]);
        if (!attacker_open(a, &raws[i]))
            continue;
        raws[i].deaf = true;
        raws[i].patience_ms = PATIENCE_MS;
        size_t n = raw_send(&raws[i], b.data, b.len) ? 0 : sizeof first;
        while (n < sizeof first && raw_receive(&raws[i], &first[n], 1, PATIENCE_MS) == 1)
            n++;
    }
    for (size_t i = 0; i < CONNECTIONS; i++)
        raw_close(&raws[i]);
    bytes_free(&request);
    bytes_free(&b);
}

const attack floods_sp[] = {
    {.name = "refused_frames", .wires = ON_SP, .fill = refused_frames},
    {.name = "refused_calls", .wires = ON_SP, .fill = refused_calls},
    {.name = "frames", .wires = ON_SP, .fill = frames},
    {.name = "calls", .wires = ON_SP, .fill = calls},
    {.name = "item_frames", .wires = ON_SP | ON_WS, .fill = item_frames},
    {.name = "item_calls", .wires = ON_SP | ON_WS, .fill = item_calls},
    {.name = "many_connections", .wires = ON_SP, .run = many_connections},
    {.name = "unread_answers", .wires = ON_SP, .run = unread_answers},
    {.name = "empty_frames", .wires = ON_SP, .fill = empty_frames},
    {.name = "no_frames", .wires = ON_SP, .fill = no_frames},
    {.name = NULL},
};
