#include "net/metrics/rpc_meter.h"

#include <stdlib.h>
#include <string.h>

#include <lockstock/rpc/fields.h>

enum { CODES = LKS_UNAUTHENTICATED + 1, OUTCOMES_MAX = 16, APPLIED = LKS_APPLIED_MAYBE + 1, REASONS = 64 };

typedef struct counts {
    const lks_rpc_method *method;                          /* NULL: unknown paths */
    const ProtobufCFieldDescriptor *outcome, *is_replayed; /* of the response; NULL: it has none */
    uint64_t started, replayed;
    uint64_t handled[CODES], outcomes[OUTCOMES_MAX], applied[APPLIED], more[RPC_METER_COUNTS];
    bool has_guards;
    metrics_histogram seconds;
} counts;

struct rpc_meter {
    size_t n;
    uint64_t refused[REASONS];
    counts of[]; /* n + 1, by the address of the method; the last: unknown paths */
};

static const ProtobufCFieldDescriptor *field_of(const lks_rpc_method *method, const char *name, ProtobufCType type)
{
    const ProtobufCFieldDescriptor *field = lks_rpc_field_named(method->response, name, strlen(name));
    bool is_one = field && field->type == type && field->label != PROTOBUF_C_LABEL_REPEATED;

    return is_one && !(field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) ? field : NULL;
}

static int by_address(const void *a, const void *b)
{
    uintptr_t one = (uintptr_t)((const counts *)a)->method, other = (uintptr_t)((const counts *)b)->method;

    return one < other ? -1 : one > other;
}

rpc_meter *rpc_meter_new(const lks_rpc_route *routes, size_t n)
{
    rpc_meter *m = calloc(1, sizeof *m + (n + 1) * sizeof m->of[0]);

    if (!m)
        return NULL;
    m->n = n;
    for (size_t i = 0; i < n; i++) {
        m->of[i].method = routes[i].method;
        m->of[i].outcome = field_of(routes[i].method, "outcome", PROTOBUF_C_TYPE_ENUM);
        m->of[i].is_replayed = field_of(routes[i].method, "replayed", PROTOBUF_C_TYPE_BOOL);
    }
    qsort(m->of, n, sizeof m->of[0], by_address);
    return m;
}

void rpc_meter_free(rpc_meter *m)
{
    free(m);
}

static counts *counts_of(rpc_meter *m, const lks_rpc_method *method)
{
    const counts wanted = {.method = method};
    counts *found = method ? bsearch(&wanted, m->of, m->n, sizeof m->of[0], by_address) : NULL;

    return found ? found : &m->of[m->n];
}

void rpc_meter_guards(rpc_meter *m, const lks_rpc_method *method)
{
    counts_of(m, method)->has_guards = true;
}

void rpc_meter_started(rpc_meter *m, const lks_rpc_method *method)
{
    counts_of(m, method)->started++;
}

static void count_response(counts *c, const ProtobufCMessage *response)
{
    if (c->outcome) {
        int value = *(const int *)lks_rpc_field_value(response, c->outcome, 0);
        if (value >= 0 && value < OUTCOMES_MAX)
            c->outcomes[value]++;
    }
    if (c->is_replayed)
        c->replayed += *(const protobuf_c_boolean *)lks_rpc_field_value(response, c->is_replayed, 0) != 0;
}

uint64_t *rpc_meter_handled(rpc_meter *m, const lks_rpc_method *method, const ProtobufCMessage *response,
                            const lks_error *error, uint64_t ns)
{
    counts *c = counts_of(m, method);

    c->handled[(size_t)error->code < CODES ? error->code : LKS_UNKNOWN]++;
    metrics_observe(&c->seconds, ns);
    if (error->code == LKS_OK && response) {
        count_response(c, response);
        return c->more;
    }
    c->applied[error->applied == LKS_APPLIED_UNSPECIFIED ? LKS_APPLIED_MAYBE : error->applied]++;
    m->refused[(size_t)error->reason < REASONS ? error->reason : LKS_REASON_NONE]++;
    return c->more;
}

/* ---- the text ------------------------------------------------------------------------------------- */

/* grpc_service="lockstock.v1.StockService",grpc_method="Deduct", in the arena. */
static const char *labels(const counts *c, const char *before, metrics_text *t)
{
    const char *path = c->method ? c->method->path + 1 : "unknown/unknown", *slash = strchr(path, '/');
    const char *text = lks_rpc_arena_printf(t->arena, "%sgrpc_service=\"%.*s\",grpc_method=\"%s\"", before,
                                            (int)(slash - path), path, slash + 1);

    return text ? text : "";
}

static const char *unary(const counts *c, metrics_text *t)
{
    return labels(c, "grpc_type=\"unary\",", t);
}

static void write_one_of(metrics_text *t, const char *most, const char *name, const char *value, uint64_t n)
{
    const char *text =
        n > 0 ? lks_rpc_arena_printf(t->arena, "%s%s%s=\"%s\"", most, most[0] ? "," : "", name, value) : NULL;

    if (text)
        metrics_sample(t, text, (double)n);
}

static const char *outcome_name(const counts *c, unsigned value)
{
    const ProtobufCEnumDescriptor *type = c->outcome->descriptor;
    const ProtobufCEnumValue *found = protobuf_c_enum_descriptor_get_value(type, (int)value);

    return found ? found->name : "UNKNOWN";
}

static void write_outcomes(const rpc_meter *m, metrics_text *t)
{
    metrics_begin(t, METRICS_OUTCOMES);
    for (size_t i = 0; i < m->n; i++)
        for (unsigned o = 0; m->of[i].outcome && o < OUTCOMES_MAX; o++)
            if (m->of[i].outcomes[o] > 0)
                write_one_of(t, labels(&m->of[i], "", t), "outcome", outcome_name(&m->of[i], o), m->of[i].outcomes[o]);
    metrics_begin(t, METRICS_REPLAYED);
    for (size_t i = 0; i < m->n; i++)
        if (m->of[i].replayed > 0)
            metrics_sample(t, labels(&m->of[i], "", t), (double)m->of[i].replayed);
}

static void write_errors(const rpc_meter *m, metrics_text *t)
{
    metrics_begin(t, METRICS_APPLIED);
    for (size_t i = 0; i <= m->n; i++)
        for (unsigned a = 0; a < APPLIED; a++)
            write_one_of(t, labels(&m->of[i], "", t), "applied", lks_applied_name((lks_applied)a), m->of[i].applied[a]);
    metrics_begin(t, METRICS_REFUSED);
    for (unsigned r = 0; r < REASONS; r++)
        write_one_of(t, "", "reason", r == LKS_REASON_NONE ? "none" : lks_reason_name((lks_reason)r), m->refused[r]);
}

static void write_counts(const rpc_meter *m, metrics_text *t)
{
    static const struct {
        metrics_id family;
        const char *outcome; /* what guards did; NULL: it is another count */
    } columns[RPC_METER_COUNTS] = {
        [RPC_METER_UNITS] = {METRICS_UNITS, NULL},
        [RPC_METER_STORE_CALLS] = {METRICS_STORE_CALLS, NULL},
        [RPC_METER_WITHOUT_STORE] = {METRICS_WITHOUT_STORE, NULL},
        [RPC_METER_RAN] = {METRICS_GUARDED, "ran"},
        [RPC_METER_ANSWERED] = {METRICS_GUARDED, "answered"},
        [RPC_METER_REFUSED] = {METRICS_GUARDED, "refused"},
    };
    metrics_id begun = METRICS_FAMILIES;

    for (int n = 0; n < RPC_METER_COUNTS; n++)
        for (size_t i = 0; i < m->n; i++) {
            const counts *c = &m->of[i];
            if (c->more[n] == 0 && !(columns[n].outcome && c->has_guards))
                continue;
            if (begun != columns[n].family)
                metrics_begin(t, begun = columns[n].family);
            const char *text = columns[n].outcome ? lks_rpc_arena_printf(t->arena, "%s,outcome=\"%s\"",
                                                                         labels(c, "", t), columns[n].outcome)
                                                  : labels(c, "", t);
            metrics_sample(t, text ? text : "", (double)c->more[n]);
        }
}

void rpc_meter_write(const rpc_meter *m, metrics_text *t)
{
    metrics_begin(t, METRICS_STARTED);
    for (size_t i = 0; i <= m->n; i++)
        metrics_sample(t, unary(&m->of[i], t), (double)m->of[i].started);
    metrics_begin(t, METRICS_HANDLED);
    for (size_t i = 0; i <= m->n; i++)
        for (unsigned code = 0; code < CODES; code++)
            write_one_of(t, unary(&m->of[i], t), "grpc_code", lks_code_name((lks_code)code), m->of[i].handled[code]);
    metrics_begin(t, METRICS_HANDLING);
    for (size_t i = 0; i <= m->n; i++)
        if (m->of[i].started > 0)
            metrics_durations(t, unary(&m->of[i], t), &m->of[i].seconds);
    write_outcomes(m, t);
    write_errors(m, t);
    write_counts(m, t);
}
