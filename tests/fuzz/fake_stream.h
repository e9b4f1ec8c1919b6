/* Stands in for stream.c: one connection at a time, without a loop. What the protocol
 * writes goes to `output` and counts as waiting until fake_stream_take. */
#ifndef LOCKSTOCK_TESTS_FUZZ_FAKE_STREAM_H
#define LOCKSTOCK_TESTS_FUZZ_FAKE_STREAM_H

#include "net/stream/stream.h"

struct stream {
    void *connection;
    void (*output)(const uint8_t *data, size_t len);
    size_t waiting;
    bool wants_produce, closing, paused, idle, ready, unfinished;
    budget_share *share;
};

/* A connection to what listens. False: it was refused. */
bool fake_stream_open(stream *s, void (*output)(const uint8_t *data, size_t len));

/* Bytes come, unless it is closing. */
void fake_stream_bytes(stream *s, const uint8_t *data, size_t len);

/* The same piece by piece, each in memory of exactly its size. */
void fake_stream_pieces(stream *s, const uint8_t *data, size_t len, size_t piece);

/* The turn of the loop ends. */
void fake_stream_turn(stream *s);

/* The peer takes waiting output, and the protocol its kept bytes. Returns false if there were none of either. */
bool fake_stream_take(stream *s);

/* It is gone. */
void fake_stream_closed(stream *s);

#endif
