/* What a stream is made of, for stream.c (life and time), stream_output.c and
 * stream_input.c only. */
#ifndef LOCKSTOCK_NET_STREAM_STATE_H
#define LOCKSTOCK_NET_STREAM_STATE_H

#include <uv.h>

#include "net/admission/admission.h"
#include "net/close_barrier.h"
#include "net/stream/closings.h"
#include "net/stream/hangups.h"
#include "net/stream/listeners.h"
#include "net/stream/remote.h"
#include "net/stream/stream.h"

enum { READ_BYTES = 64 * 1024, RECORD_BYTES = 16 * 1024 /* of TLS */ };

typedef union any_handle {
    uv_handle_t handle;
    uv_stream_t stream;
    uv_tcp_t tcp;
    uv_pipe_t pipe;
} any_handle;

typedef enum reading {
    NOT_READING,
    WATCHED, /* by libuv */
    QUEUED,  /* for its turn: it is heavy, and bytes came */
} reading;

struct stream {
    any_handle on;
    uv_timer_t timer;
    uv_write_t write;
    streams *all;
    const stream_protocol *protocol;
    void *arg, *connection; /* connection NULL: not open yet */
    const char *wire;       /* its name */
    remote from;
    guest guest;
    tls_context *const *tls_of; /* NULL: in plain */
    tls *tls;                   /* NULL: in plain, or put off */
    TAILQ_HEAD(, stream_block) output;
    size_t waiting;         /* bytes of output */
    size_t first_done;      /* bytes of its first block that were taken */
    size_t write_len;       /* bytes of the write under way */
    size_t unwritten;       /* of these, when the timer was set */
    bool stalls;            /* the timer is set for the write */
    stream_reason expected; /* why the timer would end it, but for a write */
    bool ready, idle, paused, dirty, wants_produce, writing, closing;
    reading reading;          /* NOT_READING while it is paused, or closing */
    uint64_t read_ns;         /* when the reading under way began */
    bool hung_up;             /* the peer sends no more: what it sent may be read, if it is being read */
    uint64_t request_end_ms;  /* uv_now; 0: no message is half there */
    uint64_t greeting_end_ms; /* uv_now: nothing that comes before it is over moves it */
    unsigned open_handles;
    TAILQ_ENTRY(stream) next, next_dirty;
};

struct streams {
    streams_options options;
    uv_prepare_t turn_end;
    listeners *listeners;
    hangups *hangups;
    admission admission;
    closings closings;
    TAILQ_HEAD(, stream) open, dirty;
    close_barrier closing; /* of handles, and of the modules above */
    char *read_buffer;
    uint8_t *plain_buffer; /* what TLS makes of it */
};

/* ---- stream.c --------------------------------------------------------------------- */

/* Sets the timer for what the stream is waiting for now. */
void stream_arm(stream *s);

/* A message that is half there may take request_ms from now. */
void stream_arm_request(stream *s);

/* ---- stream_output.c -------------------------------------------------------------- */

/* Offers what there is to the kernel, unless a write is under way. */
void stream_flush(stream *s);

/* It has, or TLS has, something to say when the turn ends. */
void stream_mark_dirty(stream *s);

void stream_drop_output(stream *s);

/* Once a turn, before the loop waits. */
void streams_turn_end(uv_prepare_t *prepare);

/* ---- stream_input.c --------------------------------------------------------------- */

/* The connection is the protocol's from now on. */
void stream_open(stream *s);

/* Begins to read. */
void stream_begin_reading(stream *s);

/* Reads no more, and is not told of an end. */
void stream_end_reading(stream *s);

/* As hangups.h and turns.h want them. */
void stream_hung_up(void *who);
void stream_take_turn(turn_taker *t);

#endif
