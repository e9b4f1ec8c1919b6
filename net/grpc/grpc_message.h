/* gRPC's length-prefixed messages, and gzip. No I/O.
 *
 *   compressed (1)  length (4, big-endian)  message
 */
#ifndef LOCKSTOCK_NET_GRPC_MESSAGE_H
#define LOCKSTOCK_NET_GRPC_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/rpc/arena.h>
#include <lockstock/status.h>

enum { GRPC_PREFIX_BYTES = 5 };

/* Collects the messages of a stream from pieces of DATA. */
typedef struct grpc_reader {
    size_t bytes_max; /* of a message, also once decompressed */
    bool gzip;        /* messages may be compressed */
    bool other;       /* with an unknown encoding */
    uint8_t prefix[GRPC_PREFIX_BYTES];
    size_t prefix_len;
    uint8_t *data;
    size_t len, room, wanted;
} grpc_reader;

/* Sets how messages may be compressed, from "grpc-encoding"; empty: the header was not given. */
void grpc_reader_encoding(grpc_reader *r, lks_rpc_slice encoding);

/* Reads bytes until a message is complete. *used is how many it read. *message gets the complete message, which the
 * caller frees; not NULL even when the message is empty, and NULL while it is incomplete. Memory grows with the bytes
 * that arrive. Errors are final. RESOURCE_EXHAUSTED: too long, or out of memory. UNIMPLEMENTED: an unknown compression.
 * INTERNAL: a compression that was not announced, or bad gzip. */
lks_code grpc_read(grpc_reader *r, const uint8_t *data, size_t len, size_t *used, uint8_t **message,
                   size_t *message_len, lks_error *error);

/* Whether no message is partly read. */
bool grpc_reader_idle(const grpc_reader *r);

/* Frees a partly read message. */
void grpc_reader_end(grpc_reader *r);

/* The prefix of a message of len bytes that is not compressed. */
void grpc_write_prefix(size_t len, uint8_t prefix[GRPC_PREFIX_BYTES]);

/* Returns the message with its prefix, which the caller frees; compressed if `gzip` and that makes it smaller. NULL
 * when out of memory. */
uint8_t *grpc_write(const void *message, size_t len, bool gzip, size_t *ret_len);

#endif
