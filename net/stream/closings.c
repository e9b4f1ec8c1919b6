/* Invariant: each reason has a text. Called by stream.c. */
#include "net/stream/closings.h"

#include <stdbool.h>
#include <stdio.h>

enum { LINE_BYTES = 512 };

static const struct {
    const char *event, *text;
    bool warns;
} reasons[STREAM_REASONS] = {
    [STREAM_ENDED] = {"closed", "the protocol is done", false},
    [STREAM_PEER_LEFT] = {"closed", "the peer left", false},
    [STREAM_LOST] = {"closed", "the connection broke", false},
    [STREAM_STOPPED] = {"closed", "the server stops", false},
    [STREAM_BROKEN] = {"closed", "what came is not of the protocol", false},
    [STREAM_NO_TLS] = {"closed", "TLS failed", false},
    [STREAM_NOT_GREETED] = {"closed", "the greeting was not finished in time", false},
    [STREAM_NOT_FINISHED] = {"closed", "a request was not finished in time", false},
    [STREAM_NOT_TAKEN] = {"closed", "answers were not taken in time", false},
    [STREAM_TOO_COSTLY] = {"closed", "too much came that brings nothing", false},
    [STREAM_TOO_MANY_PINGS] = {"closed", "pings came too often", false},
    [STREAM_PEER_GONE] = {"closed", "a ping was not answered", false},
    [STREAM_TOO_OLD] = {"closed", "its calls did not end within the grace of its age", false},
    [STREAM_IDLE] = {"closed", "idle", false},
    [STREAM_NO_MEMORY] = {"closed", "out of memory", true},
    [STREAM_GIVEN_UP] = {"given-up", "idle, and another needs its place", true},
    [STREAM_REFUSED] = {"refused", "too many", true},
    [STREAM_NO_DESCRIPTOR] = {"refused", "no descriptor to spare", true},
};

void closings_log(closings *c, const streams_options *to, uint64_t now_ms, stream_reason why, const char *wire,
                  const char *from, const char *more)
{
    uint32_t left_out;
    char suffix[LOG_RATE_SUFFIX_BYTES], line[LINE_BYTES];

    if (!to->tell || !log_rate_allows(&c->of[why], now_ms, &left_out))
        return;
    log_rate_suffix(left_out, suffix);
    snprintf(line, sizeof line, "wire=%s from=%s reason=\"%s%s%s\"%s", wire, from, reasons[why].text, more ? " " : "",
             more ? more : "", suffix);
    to->tell(to->tell_arg, reasons[why].warns, reasons[why].event, line);
}
