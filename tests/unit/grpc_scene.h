/* gRPC on a real loop, over raw HTTP/2: the server, its clients, and a sink of the test's own. Main thread only. */
#ifndef LOCKSTOCK_TESTS_GRPC_SCENE_H
#define LOCKSTOCK_TESTS_GRPC_SCENE_H

#include <sys/socket.h>
#include <unistd.h>

#include <lockstock/rpc/v1/envelope.pb-c.h>
#include <nghttp2/nghttp2.h>
#include <uv.h>

#include "support/fake_sink.h"
#include "support/h2_peer.h"
#include "support/sp_peer.h"
#include "net/grpc/grpc.h"
#include "test.h"

enum {
    CALLS_MAX = 2048,
    PEERS_MAX = 4,
    LIMIT_S = 60,
    MESSAGE_MAX = 256 * 1024,
    RUNNING = 6,
    WAITING = 10,
    CONCURRENT = RUNNING + WAITING
};
#define PATH "/test.v1.Test/Do"
#define STREAMED "/test.v1.Test/Stream"
#define GUARDED "/test.v1.Test/Guarded"
#define EMPTY "\0\0\0\0\0"

typedef struct running taken;
struct running {
    sink_done *done; /* NULL: ended */
    void *arg;
    sink_call call;
    char first, payload[8]; /* the beginning of the message */
};

extern struct grpc_scene {
    uv_loop_t loop;
    streams *streams;
    grpc_server *server;
    sink sink;
    uint16_t port;
    h2_peer *peers[PEERS_MAX];
    size_t n_peers;
    taken taken[CALLS_MAX];
    size_t n, lost, wanted;
    const taken *last_lost;
    bool closed, refuses;
    size_t answer_len; /* not 0: every call is answered at once, with so many bytes */
    grpc_stream *streamed;
    size_t n_opened, n_messages, n_half_closed, n_closed;
    uint64_t ahead_ns; /* of the clock */
    char last_message[64];
    size_t last_message_len;
} here;

extern const lks_rpc_method scene_method;

/* Options of the next server; zeros again after stop. */
extern grpc_life_options scene_life;

typedef struct frames_seen {
    size_t n_refused, n_goaways, n_other_resets;
    uint32_t error; /* of the GOAWAY */
    bool over;
} frames_seen;

/* The call is over; what tells so. */
sink_done *end_of(taken *t);
void succeed(size_t i, size_t len);
void fail_with(size_t i, const lks_error *error);
void turn(void);
void turns(int n);
void run_until(bool (*condition)(void));
void run_until_taken(size_t n);
/* The first peer's call has ended. */
const h2_answer *run_until_answered(size_t call);
void run_until_lost(size_t n);
bool is_over(void);
bool no_call_is_open(void);
void start_with(const streams_options *given, size_t answer_len);
h2_peer *open_peer(uint32_t window);
h2_peer *start(void);
void stop(void);
/* A message of one byte. */
size_t call_text(h2_peer *p, char text);
void expect_header(size_t call, const char *name, const char *value);
/* Answered by trailers only. */
void expect_refused(size_t call, const char *status, const char *message);
/* The connection ended; what arrived of its GOAWAYs said why. */
void expect_ended(uint32_t error);
bool has_some(void);
void run_until_messages(size_t n);
/* A raw client that ignores limits: its socket, after the greeting. */
int open_raw(void);
/* POST PATH, and more to come. */
size_t put_raw_call(uint8_t *out, size_t n);
/* Reads the frames that come within some turns of the loop. */
frames_seen read_frames(int fd);
/* It is told ENHANCE_YOUR_CALM and closed; ends the test's server. */
void expect_calmed(int fd);
void pass_ms(uint64_t ms);

#endif
