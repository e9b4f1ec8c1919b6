/* Invariant: each reason has a text. Called by stream.c. */
#include "net/stream/closings.h"

#include <stdbool.h>
#include <stdio.h>

enum { LINE_BYTES = 512 };

static const struct {
    const char *word, *event, *text;
    bool warns;
} reasons[STREAM_REASONS] = {
    [STREAM_ENDED] = {"ended", "closed", "the protocol ended the connection", false},
    [STREAM_PEER_LEFT] = {"peer_left", "closed", "the peer left", false},
    [STREAM_LOST] = {"lost", "closed", "the connection broke", false},
    [STREAM_STOPPED] = {"stopped", "closed", "the server is stopping", false},
    [STREAM_BROKEN] = {"broken_protocol", "closed", "the peer sent bytes that are not of the protocol", false},
    [STREAM_NO_TLS] = {"tls_failed", "closed", "TLS failed", false},
    [STREAM_NOT_GREETED] = {"not_greeted", "closed", "the peer did not finish the handshake in time", false},
    [STREAM_NOT_FINISHED] = {"request_unfinished", "closed", "the peer did not finish a request in time", false},
    [STREAM_NOT_TAKEN] = {"answers_not_taken", "closed", "the peer did not read answers in time", false},
    [STREAM_TOO_COSTLY] = {"too_costly", "closed", "the peer sent too many useless frames", false},
    [STREAM_TOO_MANY_PINGS] = {"too_many_pings", "closed", "the peer sent pings too often", false},
    [STREAM_PEER_GONE] = {"ping_unanswered", "closed", "the peer did not answer a ping", false},
    [STREAM_TOO_OLD] = {"too_old", "closed", "its calls did not end within the grace period", false},
    [STREAM_IDLE] = {"idle", "closed", "idle", false},
    [STREAM_NO_MEMORY] = {"no_memory", "closed", "out of memory", true},
    [STREAM_GIVEN_UP] = {"place_needed", "given-up", "idle, and a new connection needs its place", true},
    [STREAM_REFUSED] = {"refused", "refused", "too many", true},
    [STREAM_NO_DESCRIPTOR] = {"no_descriptor", "refused", "no free file descriptor", true},
};

const char *closings_word(stream_reason why)
{
    return reasons[why].word;
}

void closings_log(closings *c, const streams_options *to, uint64_t now_ms, stream_reason why, const char *wire,
                  const char *from, const char *more)
{
    uint32_t left_out;
    char suffix[LOG_RATE_SUFFIX_BYTES], line[LINE_BYTES];

    c->n[why]++;
    if (!to->tell || !log_rate_allows(&c->of[why], now_ms, &left_out))
        return;
    log_rate_suffix(left_out, suffix);
    snprintf(line, sizeof line, "wire=%s from=%s reason=\"%s%s%s\"%s", wire, from, reasons[why].text, more ? " " : "",
             more ? more : "", suffix);
    to->tell(to->tell_arg, reasons[why].warns, reasons[why].event, line);
}
