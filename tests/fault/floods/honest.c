#include "honest.h"
#include "test.h"

#include <nghttp2/nghttp2.h>
#include <poll.h>

#include "bytes.h"
#include "frames.h"
#include "raw.h"
#include "support/counts.h"
#include "support/process.h"

enum { STREAMS_MAX = 65536, ANSWER_MS = 20000 };

static const atomic_bool go_on;

typedef struct peer {
    raw r;
    frames in;
    uint32_t streams_max; /* as its server says */
} peer;

/* Opened, SETTINGS exchanged. */
static void open_peer(peer *p, wire w)
{
    bytes b = {0};
    frame got;

    *p = (peer){.r = {.fd = -1}, .in = {.from = &p->r}};
    assert_true(raw_open(&p->r, w, 0, &go_on));
    p->r.deaf = true; /* raw_send leaves the answers to frames_next */
    h2_put_preface(&b, -1);
    assert_true(raw_send(&p->r, b.data, b.len));
    do {
        assert_true(frames_next(&p->in, &got, ANSWER_MS));
        assert_int_not_equal(got.type, NGHTTP2_GOAWAY);
    } while (got.type != NGHTTP2_SETTINGS);
    for (size_t at = 0; at + 6 <= got.len; at += 6) {
        const uint8_t *entry = got.data + at;
        if (entry[1] == NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS)
            p->streams_max = (uint32_t)entry[2] << 24 | (uint32_t)entry[3] << 16 | (uint32_t)entry[4] << 8 | entry[5];
    }
    assert_in_range(p->streams_max, 1, STREAMS_MAX);
    bytes_free(&b);
}

static void close_peer(peer *p)
{
    raw_close(&p->r);
    frames_free(&p->in);
}

static const h2_call known = {.path = PATH_DECODE, .token = TARGET_ATTACKERS_TOKEN};

/* A call that is answered: the connection still serves. Frames of other streams are passed over. */
static void assert_served(peer *p, uint32_t id)
{
    bytes b = {0};
    frame got = {0};

    h2_put_call(&b, id, &known, 0);
    h2_put_message(&b, id, "\10\1", 2, false, NGHTTP2_FLAG_END_STREAM);
    assert_true(raw_send(&p->r, b.data, b.len));
    do {
        assert_true(frames_next(&p->in, &got, ANSWER_MS));
        assert_int_not_equal(got.type, NGHTTP2_GOAWAY);
    } while (got.id != id || (got.flags & NGHTTP2_FLAG_END_STREAM) == 0);
    bytes_free(&b);
}

static uint32_t send_cancelled(peer *p, uint32_t id, size_t n)
{
    bytes b = {0};

    for (size_t i = 0; i < n; i++, id += 2) {
        h2_put_call(&b, id, &known, 0);
        h2_put_frame(&b, NGHTTP2_RST_STREAM, 0, id, "\0\0\0\10", 4);
    }
    assert_true(raw_send(&p->r, b.data, b.len));
    bytes_free(&b);
    return id;
}

void honest_deadlines(void **state)
{
    size_t seconds = counts_of(2, 20), a_second = counts_of(190, 100);
    uint32_t id = 1;
    peer p;

    open_peer(&p, *(const wire *)*state);
    id = send_cancelled(&p, id, counts_of(900, 0)); /* the fast form begins with a full bucket */
    for (size_t i = 0; i < seconds * 10; i++) {
        poll(NULL, 0, 100); /* the rate is what is tested */
        id = send_cancelled(&p, id, a_second / 10);
    }
    assert_served(&p, id);
    close_peer(&p);
}

/* The others wait for their messages meanwhile. On a server with fewer streams: of those it has by default the bytes that
 * they hold are too many first. */
void honest_one_stream_too_many(void **state)
{
    static const char *const few_streams[] = {"--waiting-per-connection", "256", NULL};
    peer p;
    frame got = {0};
    bytes b = {0};

    assert_true(target_stop() && target_start(few_streams));
    open_peer(&p, *(const wire *)*state);
    uint32_t last = 2 * p.streams_max + 1;
    for (uint32_t id = 1; id <= last; id += 2)
        h2_put_call(&b, id, &known, 0);
    assert_true(raw_send(&p.r, b.data, b.len));
    do {
        assert_true(frames_next(&p.in, &got, ANSWER_MS));
        assert_int_not_equal(got.type, NGHTTP2_GOAWAY);
    } while (got.type != NGHTTP2_RST_STREAM);
    assert_int_equal(got.id, last);
    assert_memory_equal(got.data, "\0\0\0\7", 4); /* REFUSED_STREAM */
    b.len = 0;
    h2_put_message(&b, 1, "\10\1", 2, false, NGHTTP2_FLAG_END_STREAM);
    assert_true(raw_send(&p.r, b.data, b.len));
    do {
        assert_true(frames_next(&p.in, &got, ANSWER_MS));
        assert_int_not_equal(got.type, NGHTTP2_GOAWAY);
    } while (got.id != 1 || (got.flags & NGHTTP2_FLAG_END_STREAM) == 0);
    assert_served(&p, last + 2);
    bytes_free(&b);
    close_peer(&p);
}
