/* HTTP/1.1 requests (RFC 9112), without I/O. The reader is strict: where two readers of the same bytes could disagree
 * about where a request ends, it refuses. It refuses line ends without CR, folded lines, a space before a colon,
 * Content-Length with Transfer-Encoding, two of either, codings other than chunked, chunk extensions, trailer fields,
 * targets that do not begin with "/", and requests without exactly one Host. */
#ifndef LOCKSTOCK_NET_HTTP_HTTP1_H
#define LOCKSTOCK_NET_HTTP_HTTP1_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/http/fields.h"

enum { HTTP1_HEAD_BYTES_MAX = 16 * 1024, HTTP1_FIELDS_MAX = 100 };

typedef struct http1_head {
    const char *method, *target; /* in the arena */
    bool has_version;            /* 1.0 or 1.1; other requests are refused */
    bool is_10;                  /* HTTP/1.0 */
    bool closes;                 /* the client wants the connection to end after the answer */
    bool expects;                /* the client waits for "100 Continue" before it sends the body */
    bool chunked;
    uint64_t length; /* of the body, unless chunked */
} http1_head;

/* Why a request is refused. status 0: it is not refused. */
typedef struct http1_verdict {
    unsigned status;
    const char *why; /* static */
} http1_verdict;

/* Looks for the end of the head in `len` bytes, of which the first `seen` were looked at before. *head_len gets the
 * head's length including the empty line; 0: it is incomplete. */
http1_verdict http1_find_head(const char *bytes, size_t len, size_t seen, size_t *head_len);

/* Reads a complete head. Adds the fields to `fields`; copies everything into the arena. */
http1_verdict http1_read_head(const char *bytes, size_t len, lks_rpc_arena *arena, http1_head *head,
                              http_fields *fields);

typedef enum http1_body_state {
    HTTP1_BODY_BYTES, /* `left` bytes of the body, or of a chunk */
    HTTP1_CHUNK_SIZE,
    HTTP1_CHUNK_END,
    HTTP1_LAST_END, /* the empty line after the last chunk */
    HTTP1_BODY_WHOLE
} http1_body_state;

typedef struct http1_body {
    http1_body_state state;
    bool chunked;
    uint64_t left;
    unsigned line; /* characters of the current line that were read */
} http1_body;

/* The body that follows a head. */
http1_body http1_body_of(const http1_head *head);

/* Reads until it has a piece of the body, or has used all bytes. *used: how many it read. *piece, *piece_len: bytes of
 * the body within `data`. */
http1_verdict http1_read_body(http1_body *b, const char *data, size_t len, size_t *used, const char **piece,
                              size_t *piece_len);

/* The most bytes that http1_write_head writes. */
size_t http1_head_bytes_max(const http_fields *fields);

/* Writes the head of an answer; returns its length. `date` is an IMF-fixdate. closes: the connection ends after it. */
size_t http1_write_head(char *out, unsigned status, const http_fields *fields, size_t body_len, const char *date,
                        bool closes);

/* "Not Found"; "" for a status that this server does not use. */
const char *http1_reason(unsigned status);

#endif
