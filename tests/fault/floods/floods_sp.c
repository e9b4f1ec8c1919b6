/* Floods over SP. */
#include "attack.h"

enum { CALLS_OF_A_FRAME = 256, FRAMES = 500 };

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

const attack floods_sp[] = {
    {.name = "refused_frames", .wires = ON_SP, .fill = refused_frames},
    {.name = "refused_calls", .wires = ON_SP, .fill = refused_calls},
    {.name = "frames", .wires = ON_SP, .fill = frames},
    {.name = "calls", .wires = ON_SP, .fill = calls},
    {.name = "empty_frames", .wires = ON_SP, .fill = empty_frames},
    {.name = "no_frames", .wires = ON_SP, .fill = no_frames},
    {.name = NULL},
};
