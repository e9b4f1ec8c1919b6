/* Called by dispatch.c. */
#include "calls/audit.h"

#include <string.h>

#include <lockstock/rpc/exchange.h>
#include <lockstock/rpc/fields.h>

#include "log.h"

enum { NAME_BYTES = 129, REASON_BYTES = 301 };

enum { BY_NOBODY_KNOWN, BY_RIGHTS, BY_ROOM, BY_REQUEST };
_Static_assert((int)BY_REQUEST + 1 == (int)AUDIT_KINDS, "each kind has its rate");

/* The name of the response's `outcome`, which the contract's responses have; NULL: it has none. */
static const char *outcome_of(const ProtobufCMessage *response)
{
    const ProtobufCFieldDescriptor *field = lks_rpc_field_named(response->descriptor, "outcome", strlen("outcome"));

    if (!field || field->type != PROTOBUF_C_TYPE_ENUM || lks_rpc_field_count(response, field) != 1)
        return NULL;
    const int *number = lks_rpc_field_value(response, field, 0);
    const ProtobufCEnumValue *value = protobuf_c_enum_descriptor_get_value(field->descriptor, *number);
    return value ? value->name : NULL;
}

/* The request's `reason`; "": it has none. */
static const char *reason_of(const ProtobufCMessage *request)
{
    const ProtobufCFieldDescriptor *field = lks_rpc_field_named(request->descriptor, "reason", strlen("reason"));

    if (!field || field->type != PROTOBUF_C_TYPE_STRING || lks_rpc_field_count(request, field) != 1)
        return "";
    return *(const char *const *)lks_rpc_field_value(request, field, 0);
}

/* A copy without quotes, which would end its place in the line. */
static const char *unquoted(const char *text, size_t len, char *to, size_t size)
{
    size_t n = len < size - 1 ? len : size - 1;

    for (size_t i = 0; i < n; i++)
        to[i] = text[i];
    to[n] = '\0';
    for (char *quote = to; (quote = strchr(quote, '"'));)
        *quote = '\'';
    return to;
}

void audit_call(const lks_rpc_method *method, const caller *from, const char *who, lks_rpc_slice ns,
                const ProtobufCMessage *request, const ProtobufCMessage *response, const lks_error *error)
{
    const char *outcome = response ? outcome_of(response) : NULL, *reason = reason_of(request);
    char ns_text[NAME_BYTES], reason_text[REASON_BYTES];

    log_info("audit", "principal=\"%s\" namespace=\"%s\" method=%s outcome=%s reason=\"%s\" wire=%s from=%s",
             who ? who : "", unquoted(ns.data, ns.len, ns_text, sizeof ns_text), method->path,
             outcome ? outcome : lks_code_name(response ? LKS_OK : error->code),
             unquoted(reason, strlen(reason), reason_text, sizeof reason_text), caller_wire(from), caller_from(from));
}

static int kind_of(lks_code code)
{
    switch (code) {
    case LKS_UNAUTHENTICATED:
        return BY_NOBODY_KNOWN;
    case LKS_PERMISSION_DENIED:
        return BY_RIGHTS;
    case LKS_RESOURCE_EXHAUSTED:
        return BY_ROOM;
    default:
        return BY_REQUEST;
    }
}

/* What a peer sent is not in the texts of these refusals. */
void audit_refusal(audit *a, const lks_rpc_method *method, const caller *from, const char *who, const lks_error *error)
{
    int kind = kind_of(error->code);
    uint32_t left_out;
    char suffix[LOG_RATE_SUFFIX_BYTES];

    if (!log_rate_allows(&a->refusals[kind], lks_rpc_now_ns() / 1000000, &left_out))
        return;
    log_rate_suffix(left_out, suffix);
    if (kind == BY_NOBODY_KNOWN || kind == BY_RIGHTS)
        log_warn("refused", "principal=\"%s\" method=%s wire=%s from=%s code=%s reason=\"%s\"%s", who ? who : "",
                 method ? method->path : "unknown", caller_wire(from), caller_from(from), lks_code_name(error->code),
                 error->message, suffix);
    else
        log_debug("call-refused", "wire=%s from=%s code=%s reason=\"%s\"%s", caller_wire(from), caller_from(from),
                  lks_code_name(error->code), error->message, suffix);
}
