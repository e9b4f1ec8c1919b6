/* Called by dispatch.c. */
#include "calls/audit.h"

#include <stdio.h>
#include <string.h>

#include <lockstock/rpc/fields.h>

#include "base/clock.h"
#include "log.h"
#include "memory.h"

enum { NAME_BYTES = 129, REASON_BYTES = 301, REMOVED_BYTES = NAME_BYTES + 48 };

enum { BY_UNKNOWN_CALLER, BY_RIGHTS, BY_ROOM, BY_REQUEST };
_Static_assert((int)BY_REQUEST + 1 == (int)AUDIT_KINDS, "each kind has its rate");

/* Returns the name of the response's `outcome`, a field of the contract's responses; NULL: no such field. */
static const char *outcome_of(const ProtobufCMessage *response)
{
    const ProtobufCFieldDescriptor *field = lks_rpc_field_named(response->descriptor, "outcome", strlen("outcome"));

    if (!field || field->type != PROTOBUF_C_TYPE_ENUM || lks_rpc_field_count(response, field) != 1)
        return NULL;
    const int *number = lks_rpc_field_value(response, field, 0);
    const ProtobufCEnumValue *value = protobuf_c_enum_descriptor_get_value(field->descriptor, *number);
    return value ? value->name : NULL;
}

/* Returns a text field of the request; "": no such field. */
static const char *text_of(const ProtobufCMessage *request, const char *name)
{
    const ProtobufCFieldDescriptor *field = lks_rpc_field_named(request->descriptor, name, strlen(name));

    if (!field || field->type != PROTOBUF_C_TYPE_STRING || lks_rpc_field_count(request, field) != 1)
        return "";
    return *(const char *const *)lks_rpc_field_value(request, field, 0);
}

/* Returns the target of the call; "": it has none, or its names are keys. */
static const char *target_of(const ProtobufCMessage *request)
{
    static const char *const names[] = {"name", "sku", "resource"};
    const char *found = "";

    for (size_t i = 0; i < sizeof names / sizeof *names && !*found; i++)
        found = text_of(request, names[i]);
    return found;
}

/* Copies the text with ' in place of ", which would end the value in the log line. */
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

static const char *unquoted_text(const char *text, char *to, size_t size)
{
    return unquoted(text, strlen(text), to, size);
}

/* Writes " removed=1 owner="ann"" if the response lists removed holds: their number, and the owner of the first. */
static const char *removed_of(const ProtobufCMessage *response, char text[REMOVED_BYTES])
{
    const ProtobufCFieldDescriptor *field =
        response ? lks_rpc_field_named(response->descriptor, "removed", strlen("removed")) : NULL;
    char owner[NAME_BYTES];

    text[0] = '\0';
    if (!field || field->label != PROTOBUF_C_LABEL_REPEATED)
        return text;
    size_t n = lks_rpc_field_count(response, field);
    int len = snprintf(text, REMOVED_BYTES, " removed=%zu", n);
    if (n > 0) {
        const ProtobufCMessage *first = *(const ProtobufCMessage *const *)lks_rpc_field_value(response, field, 0);
        snprintf(text + len, REMOVED_BYTES - (size_t)len, " owner=\"%s\"",
                 unquoted_text(text_of(first, "owner"), owner, sizeof owner));
    }
    return text;
}

audit_origin *audit_origin_new(lks_rpc_arena *arena, const caller *from, const char *who)
{
    audit_origin *origin = memory_in(arena, sizeof *origin);

    *origin = (audit_origin){.principal = memory_text_in(arena, who ? who : ""),
                             .wire = memory_text_in(arena, caller_wire(from)),
                             .from = memory_text_in(arena, caller_from(from))};
    return origin;
}

void audit_call(const lks_rpc_method *method, const audit_origin *origin, lks_rpc_slice ns,
                const ProtobufCMessage *request, const ProtobufCMessage *response, const lks_error *error)
{
    const char *outcome = response ? outcome_of(response) : NULL;
    char ns_text[NAME_BYTES], group[NAME_BYTES], target[NAME_BYTES], reason[REASON_BYTES], removed[REMOVED_BYTES];

    log_audit("principal=\"%s\" namespace=\"%s\" method=%s group=\"%s\" name=\"%s\" outcome=%s%s reason=\"%s\" "
              "wire=%s from=%s",
              origin->principal, unquoted(ns.data, ns.len, ns_text, sizeof ns_text), method->path,
              unquoted_text(text_of(request, "group"), group, sizeof group),
              unquoted_text(target_of(request), target, sizeof target),
              outcome ? outcome : lks_code_name(response ? LKS_OK : error->code), removed_of(response, removed),
              unquoted_text(text_of(request, "reason"), reason, sizeof reason), origin->wire, origin->from);
}

static int kind_of(lks_code code)
{
    switch (code) {
    case LKS_UNAUTHENTICATED:
        return BY_UNKNOWN_CALLER;
    case LKS_PERMISSION_DENIED:
        return BY_RIGHTS;
    case LKS_RESOURCE_EXHAUSTED:
        return BY_ROOM;
    default:
        return BY_REQUEST;
    }
}

/* The texts of these refusals contain no data from a peer. */
void audit_refusal(audit *a, const lks_rpc_method *method, const caller *from, const char *who, const lks_error *error)
{
    int kind = kind_of(error->code);
    uint32_t left_out;
    char suffix[LOG_RATE_SUFFIX_BYTES];
    const char *field = error->field, *between = *field ? " field=" : "", *word = lks_reason_name(error->reason);

    const char *why = kind == BY_UNKNOWN_CALLER && who ? "its token has ended" : error->message;

    if (!log_rate_allows(&a->refusals[kind], clock_now_ns() / 1000000, &left_out))
        return;
    log_rate_suffix(left_out, suffix);
    if (kind == BY_UNKNOWN_CALLER || kind == BY_RIGHTS)
        log_warn("refused", "principal=\"%s\" method=%s wire=%s from=%s code=%s reason=\"%s\" reason_word=%s%s%s%s",
                 who ? who : "", method ? method->path : "unknown", caller_wire(from), caller_from(from),
                 lks_code_name(error->code), why, word, between, field, suffix);
    else
        log_debug("call-refused", "wire=%s from=%s code=%s reason=\"%s\" reason_word=%s%s%s%s", caller_wire(from),
                  caller_from(from), lks_code_name(error->code), error->message, word, between, field, suffix);
}
