/* Requests on a connection with a site that are not gRPC: they are exchanges (http/exchange.h). Called by
 * grpc_call.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/grpc/grpc_call.h"
#include "net/grpc/grpc_headers.h"
#include "net/http/connect.h"

static void put(grpc_nv *f, const char *name, const char *value, size_t len)
{
    if (f->n < GRPC_FIELDS_MAX)
        f->list[f->n++] = (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name), len,
                                       NGHTTP2_NV_FLAG_NONE};
}

static void on_answer(void *arg, const http_answer *a)
{
    grpc_stream *s = arg;
    bool has_body = a->len > 0 && !a->is_head;
    uint8_t *body = has_body ? malloc(a->len) : NULL;
    const char status[] = {(char)('0' + a->status / 100), (char)('0' + a->status / 10 % 10),
                           (char)('0' + a->status % 10)};
    char length[24];
    const http_field *field;
    grpc_nv f = {.n = 0};

    s->http = NULL;
    if (body)
        memcpy(body, a->body, a->len);
    put(&f, ":status", has_body && !body ? "503" : status, sizeof status);
    if (a->is_head) /* else the frames tell */
        put(&f, "content-length", length, (size_t)snprintf(length, sizeof length, "%zu", a->len));
    TAILQ_FOREACH(field, a->fields, next)
        put(&f, field->name, field->value, field->value_len);
    grpc_call_answer_http(s, f.list, f.n, body, a->len);
}

void grpc_http_begin(grpc_stream *s)
{
    lks_rpc_arena *arena = s->arena;
    const char *method = grpc_headers_value(s, ":method").data, *target = grpc_headers_value(s, ":path").data;
    const char *host = grpc_headers_value(s, ":authority").data;

    if (host[0] == '\0')
        host = grpc_headers_value(s, "host").data;
    s->arena = NULL; /* the exchange has it */
    s->phase = GRPC_HTTP;
    s->http = http_exchange_new(s->from->site, &s->from->from, arena, &s->headers, method, target, host, on_answer, s);
    if (s->http)
        http_exchange_begin(s->http);
    else
        grpc_call_answer_http(
            s,
            &(nghttp2_nv){(uint8_t *)(uintptr_t) ":status", (uint8_t *)(uintptr_t) "503", 7, 3, NGHTTP2_NV_FLAG_NONE},
            1, NULL, 0);
}

void grpc_http_data(grpc_stream *s, const uint8_t *data, size_t len)
{
    http_exchange_body(s->http, data, len);
}

void grpc_http_half_close(grpc_stream *s)
{
    http_exchange_run(s->http);
}

void grpc_http_late(grpc_stream *s)
{
    lks_error error;

    if (http_exchange_runs(s->http))
        return;
    lks_error_set_reason(&error, LKS_DEADLINE_EXCEEDED, LKS_APPLIED_NO, LKS_REASON_DEADLINE_BEFORE_START,
                         "the deadline was over before the request was whole");
    http_exchange_fail(s->http, 408, &error);
}

void grpc_http_detach(grpc_stream *s)
{
    if (s->http)
        http_exchange_leave(s->http);
    s->http = NULL;
}
