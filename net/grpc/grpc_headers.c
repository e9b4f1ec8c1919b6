/* Invariant: values are read and compared in the call's own copy, which ends with a NUL. Called by grpc_call.c. */
#include "net/grpc/grpc_headers.h"

#include <string.h>

#include "base/base64.h"
#include "net/grpc/grpc_text.h"

void grpc_headers_add(grpc_stream *s, grpc_fields *to, const char *name, size_t name_len, const char *value,
                      size_t value_len)
{
    grpc_field *field = lks_rpc_arena_alloc(s->arena, sizeof *field);
    char *name_copy = lks_rpc_arena_copy(s->arena, name, name_len);
    char *value_copy = lks_rpc_arena_copy(s->arena, value, value_len);

    if (!field || !name_copy || !value_copy)
        return;
    *field = (grpc_field){.name = name_copy, .value = value_copy, .value_len = value_len};
    TAILQ_INSERT_TAIL(to, field, next);
}

lks_rpc_slice grpc_headers_value(const grpc_stream *s, const char *name)
{
    const grpc_field *field;

    TAILQ_FOREACH(field, &s->headers, next)
        if (strcmp(field->name, name) == 0)
            return (lks_rpc_slice){.data = field->value, .len = field->value_len};
    return (lks_rpc_slice){.data = "", .len = 0};
}

bool grpc_headers_are(const grpc_stream *s, const char *name, const char *value)
{
    return strcmp(grpc_headers_value(s, name).data, value) == 0;
}

credentials grpc_headers_credentials(const grpc_stream *s)
{
    credentials who = {.certificate = s->from->certificate, .uid = s->from->has_uid ? &s->from->uid : NULL};
    const grpc_field *field;

    TAILQ_FOREACH(field, &s->headers, next)
        credentials_read(&who, field->name, (lks_rpc_slice){field->value, field->value_len});
    return who;
}

static bool is_binary(const char *name)
{
    size_t len = strlen(name);

    return len > 4 && strcmp(name + len - 4, "-bin") == 0;
}

static void put(grpc_stream *s, grpc_fields *to, const lks_rpc_metadata *entry)
{
    const lks_rpc_slice *value = &entry->value;
    size_t len = BASE64_ENCODED_BYTES(value->len);
    char *text = is_binary(entry->key) ? lks_rpc_arena_alloc(s->arena, len + 1) : NULL;

    if (text)
        base64_encode((const uint8_t *)value->data, value->len, text);
    if (text || !is_binary(entry->key))
        grpc_headers_add(s, to, entry->key, strlen(entry->key), text ? text : value->data, text ? len : value->len);
}

void grpc_headers_put(grpc_stream *s, grpc_fields *to, const lks_rpc_list *entries)
{
    for (size_t i = 0; i < entries->n; i++)
        put(s, to, &entries->items[i]);
}

/* Fields of HTTP and gRPC. */
static bool is_reserved(const char *name)
{
    return name[0] == ':' || strncmp(name, "grpc-", 5) == 0 || strcmp(name, "content-type") == 0 ||
           strcmp(name, "te") == 0;
}

/* Passes the bytes of a binary value, or the text when it cannot be decoded. */
static void tell_binary(const grpc_stream *s, const grpc_field *field, sink_see_entry *see, void *arg)
{
    uint8_t *bytes = lks_rpc_arena_alloc(s->arena, field->value_len + 1);
    size_t len;

    if (bytes && base64_decode(field->value, field->value_len, bytes, &len))
        see(arg, field->name, (lks_rpc_slice){(const char *)bytes, len});
    else
        see(arg, field->name, (lks_rpc_slice){field->value, field->value_len});
}

void grpc_headers_tell(const void *metadata, sink_see_entry *see, void *arg)
{
    const grpc_stream *s = metadata;
    const grpc_field *field;

    TAILQ_FOREACH(field, &s->headers, next) {
        if (is_reserved(field->name))
            continue;
        if (is_binary(field->name))
            tell_binary(s, field, see, arg);
        else
            see(arg, field->name, (lks_rpc_slice){field->value, field->value_len});
    }
}

/* ---- what an answer sends ------------------------------------------------------------------ */

enum { STATUS_FIELDS = 4 };

static void put_field(grpc_nv *f, const char *name, const char *value, size_t len)
{
    if (f->n < GRPC_FIELDS_MAX)
        f->list[f->n++] = (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name), len,
                                       NGHTTP2_NV_FLAG_NONE};
}

static void put_all(grpc_nv *f, const grpc_fields *from)
{
    const grpc_field *field;

    TAILQ_FOREACH(field, from, next)
        if (f->n < GRPC_FIELDS_MAX - STATUS_FIELDS)
            put_field(f, field->name, field->value, field->value_len);
}

void grpc_headers_head(const grpc_stream *s, grpc_nv *f)
{
    put_field(f, ":status", "200", 3);
    put_field(f, "content-type", "application/grpc", 16);
    put_field(f, "grpc-accept-encoding", "identity,gzip", 13);
    if (s->gzip)
        put_field(f, "grpc-encoding", "gzip", 4);
    put_all(f, &s->reply_headers);
}

void grpc_headers_status(grpc_stream *s, grpc_nv *f)
{
    const lks_error *status = s->status;
    const lks_rpc_additions none = {.text = NULL}, *added = s->added ? s->added : &none;
    const char *message = added->text ? added->text : status ? status->message : "";
    char *text = lks_rpc_arena_alloc(s->arena, 3 * strlen(message) + 1);
    char *code = lks_rpc_arena_printf(s->arena, "%d", (int)s->code);

    put_field(f, "grpc-status", code ? code : "8", code ? strlen(code) : 1);
    if (status && text) {
        size_t len;
        put_field(f, "grpc-message", text, grpc_encode_message(message, text));
        const char *details = grpc_encode_details(status, &added->details, s->arena, &len);
        if (details)
            put_field(f, "grpc-status-details-bin", details, len);
        const char *applied = lks_applied_name(status->applied);
        put_field(f, "lockstock-applied", applied, strlen(applied));
    }
    put_all(f, &s->trailers);
}
