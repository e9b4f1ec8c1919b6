/* Invariant: a span belongs to its call until tracing_end, and to the exporter afterwards. */
#include "tracing/tracing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <lockstock/rpc/utf8.h>

#include "base/address.h"
#include "memory.h"
#include "random.h"
#include "tracing/otlp.h"

enum { DELAY_MS = 5000 };

/* How the sampler decides about a call: by the decision of its caller, and by the id of its trace. */
typedef struct sampler {
    const char *name;
    bool follows_parent; /* follow the caller's decision, if there is one */
    bool by_ratio;       /* else keep the part OTEL_TRACES_SAMPLER_ARG of the calls; false: keep all or none */
    bool all;
} sampler;

static const sampler samplers[] = {
    {.name = "parentbased_always_off", .follows_parent = true},
    {.name = "parentbased_always_on", .follows_parent = true, .all = true},
    {.name = "parentbased_traceidratio", .follows_parent = true, .by_ratio = true},
    {.name = "always_on", .all = true},
    {.name = "always_off"},
    {.name = "traceidratio", .by_ratio = true},
};
enum { N_SAMPLERS = sizeof samplers / sizeof samplers[0] };

struct tracing {
    otlp *to;
    const sampler *sampler;
    double ratio;
};

/* ---- settings ---------------------------------------------------------------------------------- */

/* Returns NULL if the variable is not set, is empty, or is not UTF-8, which JSON requires. */
static const char *variable(const char *name)
{
    const char *value = getenv(name);

    return value && *value && lks_rpc_utf8_valid(value, strlen(value)) ? value : NULL;
}

static lks_code invalid(const char *name, const char *what, lks_error *error)
{
    return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "%s: %s", name, what);
}

static bool read_number(const char *text, double max, double *ret)
{
    char *end;
    double number = strtod(text, &end);

    if (*end != '\0' || !isfinite(number) || number < 0 || number > max)
        return false;
    *ret = number;
    return true;
}

static lks_code read_sampler(tracing *t, lks_error *error)
{
    const char *name = variable("OTEL_TRACES_SAMPLER"), *ratio = variable("OTEL_TRACES_SAMPLER_ARG");

    t->sampler = &samplers[0];
    t->ratio = 1;
    for (size_t i = 0; name && i < N_SAMPLERS; i++)
        if (strcmp(samplers[i].name, name) == 0) {
            t->sampler = &samplers[i];
            name = NULL;
        }
    if (name)
        return invalid("OTEL_TRACES_SAMPLER", "unknown sampler", error);
    if (t->sampler->by_ratio && ratio && !read_number(ratio, 1, &t->ratio))
        return invalid("OTEL_TRACES_SAMPLER_ARG", "must be a number from 0 to 1", error);
    return LKS_OK;
}

static const char traces_endpoint[] = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", endpoint[] = "OTEL_EXPORTER_OTLP_ENDPOINT";

/* Returns the URL to post to; NULL: none is set, or tracing is disabled. The caller frees it. */
static char *collector(void)
{
    const char *disabled = variable("OTEL_SDK_DISABLED"), *exporter = variable("OTEL_TRACES_EXPORTER");
    const char *exact = variable(traces_endpoint), *base = variable(endpoint);
    static const char path[] = "/v1/traces";

    if ((disabled && strcmp(disabled, "true") == 0) || (exporter && strcmp(exporter, "none") == 0))
        return NULL;
    if (exact || !base)
        return exact ? memory_copy(exact, strlen(exact)) : NULL;
    size_t len = strlen(base);
    while (len > 0 && base[len - 1] == '/')
        len--;
    char *url = memory_alloc(len + sizeof path);
    memcpy(url, base, len);
    memcpy(url + len, path, sizeof path);
    return url;
}

static char *resource_of(const char *instance)
{
    char *text = NULL;
    size_t len;
    FILE *to = open_memstream(&text, &len);

    if (!to)
        abort(); /* as memory_alloc */
    span_write_resource(to, variable("OTEL_SERVICE_NAME"), variable("OTEL_RESOURCE_ATTRIBUTES"), instance);
    if (fclose(to) != 0)
        abort();
    return text;
}

/* The variable with the collector's headers, and its name. */
static const char *headers_of(const char **name)
{
    static const char traces_headers[] = "OTEL_EXPORTER_OTLP_TRACES_HEADERS", headers[] = "OTEL_EXPORTER_OTLP_HEADERS";

    *name = variable(traces_headers) ? traces_headers : headers;
    return variable(*name);
}

/* "name=value,name=value" */
static bool are_pairs(const char *text)
{
    for (; *(text += strspn(text, " ,")); text += strcspn(text, ","))
        if (strcspn(text, "=") == 0 || strcspn(text, "=") >= strcspn(text, ","))
            return false;
    return true;
}

static lks_code read_settings(tracing *t, const char *url, double *delay_ms, lks_error *error)
{
    const char *delay = variable("OTEL_BSP_SCHEDULE_DELAY"), *name, *headers = headers_of(&name);
    lks_code code = read_sampler(t, error);

    *delay_ms = DELAY_MS;
    if (code != LKS_OK)
        return code;
    if (delay && !read_number(delay, 86400000, delay_ms))
        return invalid("OTEL_BSP_SCHEDULE_DELAY", "must be a number of milliseconds, at most 86400000", error);
    if (!url_after(url, "http://") && !url_after(url, "https://"))
        return invalid(variable(traces_endpoint) ? traces_endpoint : endpoint, "must be an http:// or https:// URL",
                       error);
    return headers && !are_pairs(headers) ? invalid(name, "must be name=value,name=value", error) : LKS_OK;
}

lks_code tracing_check(lks_error *error)
{
    char *url = collector();
    tracing unused = {0};
    double delay_ms;
    lks_code code = url ? read_settings(&unused, url, &delay_ms, error) : LKS_OK;

    free(url);
    return code;
}

static lks_code open_exporter(tracing *t, const char *url, const char *instance, lks_error *error)
{
    const char *name, *headers = headers_of(&name);
    double delay_ms;
    lks_code code = read_settings(t, url, &delay_ms, error);

    if (code != LKS_OK)
        return code;
    char *resource = resource_of(instance);
    t->to = otlp_new(url, headers, resource, (uint64_t)delay_ms);
    free(resource);
    if (!t->to)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO,
                             "tracing: the system has no thread or no memory left");
    return LKS_OK;
}

lks_code tracing_open(const char *instance, tracing **ret, lks_error *error)
{
    char *url = collector();
    tracing *t = url ? memory_alloc(sizeof *t) : NULL;
    lks_code code = url ? open_exporter(t, url, instance, error) : LKS_OK;

    free(url);
    if (code == LKS_OK)
        *ret = t;
    else
        free(t);
    return code;
}

void tracing_close(tracing *t)
{
    if (t)
        otlp_close(t->to);
    free(t);
}

void tracing_counts(tracing *t, uint64_t *sent, uint64_t *lost)
{
    *sent = *lost = 0;
    if (t)
        otlp_counts(t->to, sent, lost);
}

/* ---- a call ------------------------------------------------------------------------------------ */

/* What a call's metadata says about traces. */
typedef struct headers {
    trace_context parent;
    int n_parents;
    char *copy; /* of tracestate: an entry is valid only inside read_header */
} headers;

/* A tracestate may have visible characters, spaces and tabs. */
static bool is_state(lks_rpc_slice text)
{
    for (size_t i = 0; i < text.len; i++)
        if ((text.data[i] < ' ' && text.data[i] != '\t') || text.data[i] > '~')
            return false;
    return text.len > 0 && text.len <= TRACE_STATE_BYTES_MAX;
}

static void read_header(void *arg, const char *key, lks_rpc_slice value)
{
    headers *h = arg;

    if (strcmp(key, "traceparent") == 0) {
        h->n_parents++;
        trace_context_read(value.data, value.len, &h->parent);
    } else if (strcmp(key, "tracestate") == 0 && !h->copy && is_state(value)) {
        h->copy = memory_copy(value.data, value.len);
    }
}

/* Decides by the part of the trace id that W3C asks to be random, so that all services keep the same traces. */
static bool is_sampled(const tracing *t, const trace_context *c)
{
    uint64_t number = 0;

    if (!t->sampler->by_ratio)
        return t->sampler->all;
    for (size_t i = TRACE_ID_BYTES / 2; i < TRACE_ID_BYTES; i++)
        number = number << 8 | c->trace[i];
    return (double)(number >> 1) < t->ratio * 0x1p63;
}

/* Random bytes cost more than the rest of a span, and most spans are not kept. So ids are made when they are
 * needed. */
static void make_ids(span *s)
{
    static const uint8_t none[TRACE_ID_BYTES];

    if (memcmp(s->own.trace, none, sizeof none) == 0)
        random_fill(s->own.trace, sizeof s->own.trace);
    random_fill(s->own.span, sizeof s->own.span);
}

span *tracing_begin(tracing *t, const sink_call *call, const lks_rpc_method *method)
{
    headers h = {0};

    if (!t || (!t->sampler->follows_parent && !t->sampler->by_ratio && !t->sampler->all))
        return NULL;
    if (call->read_metadata)
        call->read_metadata(call->metadata, read_header, &h);
    bool has_parent = h.n_parents == 1 && trace_context_exists(&h.parent);
    span *s = memory_alloc(sizeof *s);
    s->method = method;
    s->begin_ns = call->received_ns;
    if (has_parent) {
        s->own = h.parent;
        memcpy(s->parent, h.parent.span, sizeof s->parent);
        s->state = h.copy;
    } else {
        free(h.copy);
        if (t->sampler->by_ratio)
            random_fill(s->own.trace, sizeof s->own.trace);
    }
    if (!has_parent || !t->sampler->follows_parent)
        s->own.sampled = is_sampled(t, &s->own);
    if (s->own.sampled)
        make_ids(s);
    return s;
}

void tracing_stage(span *s, const char *name, uint64_t begin_ns, uint64_t end_ns)
{
    if (s->n_stages < SPAN_STAGES_MAX && end_ns > begin_ns)
        s->stages[s->n_stages++] = (span_stage){name, begin_ns, end_ns};
}

void tracing_end(tracing *t, span *s, const lks_error *error, uint64_t now_ns, bool slow)
{
    if (!s->own.sampled && !slow && s->waits == 0 && !span_is_error(error->code) &&
        error->applied != LKS_APPLIED_MAYBE) {
        span_free(s);
        return;
    }
    if (!s->own.sampled)
        make_ids(s);
    s->end_ns = now_ns;
    s->code = error->code;
    s->applied = error->applied;
    otlp_add(t->to, s);
}
