/* One HTTP request and its answer, in any version of HTTP. The request is a call of the Connect protocol
 * (connect.h) or of gRPC-Web (grpc_web.h), which goes to the sink, or a request for a page (page.h). Loop thread only.
 *
 *   READING --begin: refused--> answered
 *      |body... --run--> RUNNING --done--> answered
 *      \--leave--> freed    \--leave--> ABANDONED --done--> freed
 */
#ifndef LOCKSTOCK_NET_HTTP_EXCHANGE_H
#define LOCKSTOCK_NET_HTTP_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <lockstock/status.h>

#include "net/http/exchange_types.h"

/* Takes ownership of the arena, which contains the fields, method, target ("/path?query") and host ("" without one).
 * NULL: out of memory; the arena is freed. */
http_exchange *http_exchange_new(const http_site *site, const http_peer *from, lks_rpc_arena *arena,
                                 http_fields *fields, const char *method, const char *target, const char *host,
                                 http_exchange_done *done, void *arg);

/* Decides what the request asks for. May answer; then the body need not be read. */
void http_exchange_begin(http_exchange *e);

/* Bytes of the body. May answer. */
void http_exchange_body(http_exchange *e, const void *data, size_t len);

/* The request is complete. May answer. */
void http_exchange_run(http_exchange *e);

/* Answers with an error before http_exchange_run, for example after a timeout or malformed bytes. */
void http_exchange_fail(http_exchange *e, unsigned status, const lks_error *error);

/* Call it when the connection is gone. Frees the exchange, now or when the sink is done. */
void http_exchange_leave(http_exchange *e);

#endif
