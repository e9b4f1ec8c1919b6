/* The state of a stream, for stream.c (life and timers), stream_output.c and stream_input.c only. */
#ifndef LOCKSTOCK_NET_STREAM_STATE_H
#define LOCKSTOCK_NET_STREAM_STATE_H

#include <uv.h>

#include "net/admission/admission.h"
#include "net/close_barrier.h"
#include "net/stream/closings.h"
#include "net/stream/hangups.h"
#include "net/stream/listeners.h"
#include "net/stream/remote.h"
#include "net/stream/stream_types.h"

enum { READ_BYTES = 64 * 1024, RECORD_BYTES = 16 * 1024 /* of TLS */ };

typedef union any_handle {
    uv_handle_t handle;
    uv_stream_t stream;
    uv_tcp_t tcp;
    uv_pipe_t pipe;
} any_handle;

/*   ACCEPTED, perhaps put off --> WATCHED <--> QUEUED    WATCHED: libuv reads it
 *                                    ^           ^      QUEUED: it is heavy and has bytes, and waits for its turn
 *                                    +-> PAUSED <+
 *
 * From any state to CLOSING. Moved by stream_move. */
typedef enum stream_state { ACCEPTED, WATCHED, QUEUED, PAUSED, CLOSING } stream_state;

/*   GREETING --stream_ready--> BUSY <--stream_idle--> IDLE */
typedef enum activity { GREETING, BUSY, IDLE } activity;

struct stream {
    any_handle on;
    uv_timer_t timer;
    uv_write_t write;
    streams *all;
    const stream_protocol *protocol;
    void *arg, *connection;       /* connection NULL: not opened yet */
    struct stream_counts *counts; /* its wire's */
    remote from;
    guest guest;
    tls_context *const *tls_of; /* NULL: without TLS */
    tls *tls;                   /* NULL: without TLS, or put off */
    TAILQ_HEAD(, stream_block) output;
    size_t waiting;         /* bytes of output */
    size_t first_done;      /* bytes of its first block that the kernel took */
    size_t write_len;       /* bytes of the write in progress */
    size_t taken;           /* bytes that the kernel took, without those of the write in progress */
    size_t taken_before;    /* taken_bytes when the timer was set for a write */
    bool stalls;            /* the timer is set for the write */
    stream_reason expected; /* the reason when the timer fires, except during a write */
    bool dirty;             /* on the list `dirty` */
    bool wants_produce;
    bool writing;
    stream_state state;
    activity activity;
    uint64_t read_ns;         /* when the current read began */
    bool hung_up;             /* the peer has closed; what it sent may still be read */
    uint64_t request_end_ms;  /* uv_now; 0: no message is partly received */
    uint64_t greeting_end_ms; /* uv_now; bytes that arrive do not extend it */
    unsigned open_handles;
    TAILQ_ENTRY(stream) next, next_dirty;
};

enum { WIRES_MAX = 12 };

/* The counts of a wire. */
typedef struct stream_counts {
    const char *wire; /* NULL: not used yet */
    uint64_t open, opened, received, sent;
} stream_counts;

struct streams {
    streams_options options;
    stream_counts counts[WIRES_MAX]; /* further wires share the last */
    uv_prepare_t turn_end;
    listeners *listeners;
    hangups *hangups;
    admission admission;
    closings closings;
    TAILQ_HEAD(, stream) open, dirty;
    close_barrier closing; /* of handles, and of the modules above */
    char *read_buffer;
    uint8_t *plain_buffer; /* decrypted bytes */
};

/* ---- stream.c --------------------------------------------------------------------- */

/* Sets the timer for what the stream is waiting for now. */
void stream_arm(stream *s);

/* A partly received message may take request_ms from now on. */
void stream_arm_request(stream *s);

/* ---- stream_output.c -------------------------------------------------------------- */

/* Offers the output to the kernel, unless a write is in progress. */
void stream_flush(stream *s);

/* Marks that the stream, or its TLS, has output to write at the end of the turn. */
void stream_mark_dirty(stream *s);

void stream_drop_output(stream *s);

/* Runs once per turn, before the loop waits. */
void streams_turn_end(uv_prepare_t *prepare);

/* ---- stream_input.c --------------------------------------------------------------- */

/* Opens the protocol's side. */
void stream_open(stream *s);

/* Begins to read. */
void stream_begin_reading(stream *s);

/* Starts, queues or stops reading, as the new state requires. */
void stream_move(stream *s, stream_state to);

/* Stops watching for the peer's close. */
void stream_forget_hangup(stream *s);

/* Callbacks of hangups.h and turns.h. */
void stream_hung_up(void *owner);
void stream_take_turn(turn_taker *t);

#endif
