/* OTLP in JSON: https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding. Ids are in hex, enums are numbers,
 * and 64-bit integers are strings. */
#include "tracing/span.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <lockstock/rpc/utf8.h>
#include <lockstock/version.h>

#include "base/hex.h"
#include "base/quote_json.h"
#include "memory.h"
#include "random.h"

enum { KIND_INTERNAL = 1, KIND_SERVER = 2 };

void span_free(span *s)
{
    free(s->state);
    free(s);
}

/* ---- pieces ---------------------------------------------------------------------------------- */

static void write_text(FILE *to, const char *text)
{
    char *quoted = memory_alloc(QUOTE_JSON_BYTES(strlen(text)));

    fwrite(quoted, 1, quote_json(text, quoted), to);
    free(quoted);
}

static void write_id(FILE *to, const char *member, const uint8_t *id, size_t len)
{
    char text[2 * TRACE_ID_BYTES + 1] = "";

    hex_encode(id, len, text);
    fprintf(to, "\"%s\":\"%s\",", member, text);
}

static void write_number(FILE *to, const char *key, uint64_t number)
{
    fprintf(to, ",{\"key\":\"%s\",\"value\":{\"intValue\":\"%" PRIu64 "\"}}", key, number);
}

static void write_head(FILE *to, const uint8_t *trace, const uint8_t *id, const uint8_t *parent)
{
    static const uint8_t none[TRACE_SPAN_BYTES];

    fputc('{', to);
    write_id(to, "traceId", trace, TRACE_ID_BYTES);
    write_id(to, "spanId", id, TRACE_SPAN_BYTES);
    if (memcmp(parent, none, sizeof none) != 0)
        write_id(to, "parentSpanId", parent, TRACE_SPAN_BYTES);
}

static void write_times(FILE *to, uint64_t begin_ns, uint64_t end_ns)
{
    fprintf(to, "\"startTimeUnixNano\":\"%" PRIu64 "\",\"endTimeUnixNano\":\"%" PRIu64 "\"", begin_ns, end_ns);
}

/* ---- spans ----------------------------------------------------------------------------------- */

bool span_is_error(lks_code code)
{
    return code == LKS_UNKNOWN || code == LKS_DEADLINE_EXCEEDED || code == LKS_UNIMPLEMENTED || code == LKS_INTERNAL ||
           code == LKS_UNAVAILABLE || code == LKS_DATA_LOSS;
}

static void write_attributes(FILE *to, const span *s)
{
    const char *service = s->method->path + 1, *method = strchr(service, '/');

    fprintf(to,
            ",\"attributes\":[{\"key\":\"rpc.system\",\"value\":{\"stringValue\":\"grpc\"}},"
            "{\"key\":\"rpc.service\",\"value\":{\"stringValue\":\"%.*s\"}},"
            "{\"key\":\"rpc.method\",\"value\":{\"stringValue\":\"%s\"}}",
            (int)(method - service), service, method + 1);
    write_number(to, "rpc.grpc.status_code", (uint64_t)s->code);
    if (s->code != LKS_OK)
        fprintf(to, ",{\"key\":\"lockstock.applied\",\"value\":{\"stringValue\":\"%s\"}}",
                lks_applied_name(s->applied));
    write_number(to, "lockstock.store_calls", s->store_calls);
    write_number(to, "lockstock.waits", s->waits);
    fputc(']', to);
}

static void write_stage(FILE *to, const span *s, const span_stage *stage, uint64_t to_unix_ns)
{
    uint8_t id[TRACE_SPAN_BYTES];

    random_fill(id, sizeof id);
    fputc(',', to);
    write_head(to, s->own.trace, id, s->own.span);
    fprintf(to, "\"name\":\"%s\",\"kind\":%d,", stage->name, KIND_INTERNAL);
    write_times(to, stage->begin_ns + to_unix_ns, stage->end_ns + to_unix_ns);
    fputc('}', to);
}

static void write_link(FILE *to, const trace_context *c)
{
    char trace[2 * TRACE_ID_BYTES + 1] = "", id[2 * TRACE_SPAN_BYTES + 1] = "";

    hex_encode(c->trace, sizeof c->trace, trace);
    hex_encode(c->span, sizeof c->span, id);
    fprintf(to, ",\"links\":[{\"traceId\":\"%s\",\"spanId\":\"%s\"}]", trace, id);
}

void span_write(FILE *to, const span *s, uint64_t to_unix_ns)
{
    write_head(to, s->own.trace, s->own.span, s->parent);
    if (s->state) {
        fputs("\"traceState\":", to);
        write_text(to, s->state);
        fputc(',', to);
    }
    fprintf(to, "\"name\":\"%s\",\"kind\":%d,", s->method->path + 1, KIND_SERVER);
    write_times(to, s->begin_ns + to_unix_ns, s->end_ns + to_unix_ns);
    write_attributes(to, s);
    if (trace_context_exists(&s->released_by))
        write_link(to, &s->released_by);
    fprintf(to, ",\"status\":{%s}}", span_is_error(s->code) ? "\"code\":2" : "");
    for (size_t i = 0; i < s->n_stages; i++)
        write_stage(to, s, &s->stages[i], to_unix_ns);
}

/* ---- the resource ---------------------------------------------------------------------------- */

static void write_attribute(FILE *to, const char *key, const char *value)
{
    fputs("{\"key\":", to);
    write_text(to, key);
    fputs(",\"value\":{\"stringValue\":", to);
    write_text(to, value);
    fputs("}}", to);
}

char *span_next_pair(char **rest, char **value)
{
    for (char *pair; (pair = strtok_r(NULL, ",", rest));) {
        pair += strspn(pair, " ");
        *value = strchr(pair, '=');
        if (!*value || *value == pair)
            continue;
        *(*value)++ = '\0';
        size_t len = percent_decode(*value, strlen(*value), *value);
        if (len == SIZE_MAX)
            continue;
        (*value)[len] = '\0';
        return pair;
    }
    return NULL;
}

/* Writes the pairs. Leaves out service.name if there is one already (has_name). Returns whether there is one now. */
static bool write_pairs(FILE *to, char *pairs, bool has_name)
{
    for (char *name, *value; (name = span_next_pair(&pairs, &value));) {
        bool is_name = strcmp(name, "service.name") == 0;
        if (!lks_rpc_utf8_valid(value, strlen(value)) || (is_name && has_name))
            continue;
        has_name = has_name || is_name;
        write_attribute(to, name, value);
        fputc(',', to);
    }
    return has_name;
}

void span_write_resource(FILE *to, const char *service, const char *attributes, const char *instance)
{
    char *pairs = memory_copy(attributes ? attributes : "", attributes ? strlen(attributes) : 0);

    fputs("\"resource\":{\"attributes\":[", to);
    if (!write_pairs(to, pairs, service) || service) {
        write_attribute(to, "service.name", service ? service : "lockstockd");
        fputc(',', to);
    }
    write_attribute(to, "service.version", LOCKSTOCK_VERSION);
    fputc(',', to);
    write_attribute(to, "service.instance.id", instance);
    fputs("]}", to);
    free(pairs);
}
