#include "host/answer.h"

#include <string.h>

#include <lockstock/rpc/exchange.h>
#include <lockstock/rpc/fields.h>
#include <lockstock/rpc/utf8.h>

static bool is_text(const char *text)
{
    return !text || lks_rpc_utf8_valid(text, strlen(text));
}

/* The first string field that is not UTF-8; NULL: all are. */
static const char *find_bytes(const ProtobufCMessage *message)
{
    const ProtobufCMessageDescriptor *type = message->descriptor;
    const char *found = NULL;

    for (unsigned f = 0; f < type->n_fields && !found; f++) {
        const ProtobufCFieldDescriptor *field = &type->fields[f];
        if (field->type != PROTOBUF_C_TYPE_STRING && field->type != PROTOBUF_C_TYPE_MESSAGE)
            continue;
        size_t n = lks_rpc_field_count(message, field);
        for (size_t i = 0; i < n && !found; i++) {
            const void *value = lks_rpc_field_value(message, field, i);
            if (field->type == PROTOBUF_C_TYPE_MESSAGE)
                found = find_bytes(*(const ProtobufCMessage *const *)value);
            else if (!is_text(*(const char *const *)value))
                found = field->name;
        }
    }
    return found;
}

const char *answer_check(const lks_rpc_method *method, const ProtobufCMessage *response, lks_error *error)
{
    const char *wrong = NULL, *field = NULL;
    lks_applied applied = error->applied;

    if ((int)error->code < LKS_OK || (int)error->code > LKS_UNAUTHENTICATED) {
        wrong = "the handler returned a code that does not exist";
        applied = LKS_APPLIED_MAYBE;
    } else if (error->code != LKS_OK && !(is_text(error->message) && is_text(error->field))) {
        wrong = "the text of the handler's error is not UTF-8";
    } else if (error->code == LKS_OK && response && (field = find_bytes(response))) {
        wrong = "a string of the handler's response is not UTF-8";
        applied = lks_rpc_applied_of(method);
    }
    if (wrong)
        lks_error_set(error, LKS_INTERNAL, applied, field ? "%s: %s" : "%s%s", field ? field : "", wrong);
    return wrong;
}
