/* Invariant: values are read and compared in the call's own copy, which ends with a NUL. Called by grpc_call.c. */
#include "net/grpc/grpc_headers.h"

#include <string.h>

#include <lockstock/rpc/exchange.h>

#include "net/grpc/grpc_text.h"

lks_rpc_slice grpc_headers_value(const grpc_stream *s, const char *name)
{
    return http_fields_value(&s->headers, name);
}

credentials grpc_headers_credentials(const grpc_stream *s)
{
    return http_fields_credentials(&s->headers, s->from->peer.certificate, s->from->peer.uid);
}

/* Fields of HTTP and gRPC. */
static bool is_reserved(const char *name)
{
    return name[0] == ':' || strncmp(name, "grpc-", 5) == 0 || strcmp(name, "content-type") == 0 ||
           strcmp(name, "te") == 0;
}

void grpc_headers_read_metadata(const void *metadata, sink_see_entry *see, void *arg)
{
    const grpc_stream *s = metadata;
    const http_field *field;

    TAILQ_FOREACH(field, &s->headers, next)
        if (!is_reserved(field->name))
            http_field_pass(field, s->arena, see, arg);
}

void grpc_headers_hint(grpc_stream *s, const ProtobufCMessage *response)
{
    http_fields_put_hints(&s->trailers, s->arena, lks_rpc_hints_of(response), NULL);
}

/* ---- what an answer sends ------------------------------------------------------------------ */

enum { STATUS_FIELDS = 4 };

void grpc_nv_put(grpc_nv *f, const char *name, const char *value, size_t len)
{
    if (f->n < GRPC_FIELDS_MAX)
        f->list[f->n++] = (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name), len,
                                       NGHTTP2_NV_FLAG_NONE};
}

void grpc_nv_put_all(grpc_nv *f, const http_fields *from)
{
    const http_field *field;

    TAILQ_FOREACH(field, from, next)
        if (f->n < GRPC_FIELDS_MAX - STATUS_FIELDS)
            grpc_nv_put(f, field->name, field->value, field->value_len);
}

void grpc_headers_head(const grpc_stream *s, grpc_nv *f)
{
    grpc_nv_put(f, ":status", "200", 3);
    grpc_nv_put(f, "content-type", "application/grpc", 16);
    grpc_nv_put(f, "grpc-accept-encoding", "identity,gzip", 13);
    if (s->gzip)
        grpc_nv_put(f, "grpc-encoding", "gzip", 4);
    grpc_nv_put_all(f, &s->reply_headers);
}

void grpc_headers_status(grpc_stream *s, grpc_nv *f)
{
    const lks_error *status = s->status;
    const lks_rpc_additions none = {.text = NULL}, *added = s->added ? s->added : &none;
    const char *message = added->text ? added->text : status ? status->message : "";
    char *text = lks_rpc_arena_alloc(s->arena, 3 * strlen(message) + 1);
    char *code = lks_rpc_arena_printf(s->arena, "%d", (int)s->code);

    grpc_nv_put(f, "grpc-status", code ? code : "8", code ? strlen(code) : 1);
    if (status && text) {
        size_t len;
        grpc_nv_put(f, "grpc-message", text, grpc_encode_message(message, text));
        const char *details = grpc_encode_details(status, &added->details, s->arena, &len);
        if (details)
            grpc_nv_put(f, "grpc-status-details-bin", details, len);
        http_fields hints = TAILQ_HEAD_INITIALIZER(hints);
        http_fields_put_hints(&hints, s->arena, (lks_rpc_hints){0}, status);
        grpc_nv_put_all(f, &hints);
    }
    grpc_nv_put_all(f, &s->trailers);
}
