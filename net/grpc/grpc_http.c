/* Requests on a connection with a site that are not gRPC: they are exchanges (http/exchange.h). Called by
 * grpc_call.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/grpc/grpc_call.h"
#include "net/grpc/grpc_headers.h"

static void on_answer(void *arg, const http_answer *a)
{
    grpc_stream *s = arg;
    bool has_body = a->len > 0 && !a->is_head;
    uint8_t *body = has_body ? malloc(a->len) : NULL;
    const char status[] = {(char)('0' + a->status / 100), (char)('0' + a->status / 10 % 10),
                           (char)('0' + a->status % 10)};
    char length[24];
    grpc_nv f = {.n = 0};

    if (body)
        memcpy(body, a->body, a->len);
    grpc_nv_put(&f, ":status", has_body && !body ? "503" : status, sizeof status);
    if (a->is_head) /* otherwise the DATA frames give the length */
        grpc_nv_put(&f, "content-length", length, (size_t)snprintf(length, sizeof length, "%zu", a->len));
    grpc_nv_put_all(&f, a->fields);
    grpc_call_answer_http(s, f.list, f.n, body, a->len);
}

void grpc_http_refuse(grpc_stream *s, const char *status)
{
    grpc_nv f = {.n = 0};

    grpc_nv_put(&f, ":status", status, strlen(status));
    grpc_call_answer_http(s, f.list, f.n, NULL, 0);
}

/* All header fields have arrived. */
static void begin(grpc_stream *s)
{
    lks_rpc_arena *arena = s->arena;
    const char *method = grpc_headers_value(s, ":method").data, *target = grpc_headers_value(s, ":path").data;
    const char *host = grpc_headers_value(s, ":authority").data;

    if (host[0] == '\0')
        host = grpc_headers_value(s, "host").data;
    s->arena = NULL; /* the exchange owns it, and holds its bytes */
    budget_claim_only(&s->held, 0);
    s->http = http_exchange_new(s->from->site, &s->from->peer, arena, &s->headers, method, target, host, on_answer, s);
    if (s->http)
        http_exchange_begin(s->http);
    else
        grpc_http_refuse(s, "503");
}

void grpc_http_begin(grpc_stream *s)
{
    if (s->too_much || s->header_bytes > GRPC_HEADER_BYTES_MAX)
        grpc_http_refuse(s, s->too_much ? "503" : "431");
    else
        begin(s);
}

void grpc_http_late(grpc_stream *s)
{
    lks_error error;

    lks_error_set_reason(&error, LKS_DEADLINE_EXCEEDED, LKS_APPLIED_NO, LKS_REASON_DEADLINE_BEFORE_START,
                         "the deadline passed before the request was complete");
    http_exchange_fail(s->http, 408, &error);
}
