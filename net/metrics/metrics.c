#include "net/metrics/metrics.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define METRICS_ROW(id, type, name, labels, help) [id] = {name, type, labels, help},
const metrics_family metrics_families[METRICS_FAMILIES] = {METRICS_TABLE(METRICS_ROW)};

void metrics_observe(metrics_histogram *h, uint64_t ns)
{
    uint64_t firsts =
        ns / METRICS_FIRST_NS + (ns % METRICS_FIRST_NS != 0); /* in widths of the first bucket, rounded up */
    unsigned i = firsts > 1 ? 64 - (unsigned)__builtin_clzll(firsts - 1) : 0;

    h->bucket[i < METRICS_BUCKETS ? i : METRICS_BUCKETS]++;
    h->sum_ns += ns;
}

static bool make_room(metrics_text *t, size_t more)
{
    size_t room = 2 * (t->len + more);

    if (t->len + more <= t->room)
        return true;
    char *grown = t->failed ? NULL : lks_rpc_arena_alloc(t->arena, room);
    if (!grown) {
        t->failed = true;
        return false;
    }
    if (t->len > 0)
        memcpy(grown, t->data, t->len);
    t->data = grown;
    t->room = room;
    return true;
}

__attribute__((format(printf, 2, 3))) static void put(metrics_text *t, const char *format, ...)
{
    enum { LINE_BYTES = 512 };
    va_list list;

    if (!make_room(t, LINE_BYTES))
        return;
    va_start(list, format);
    int n = vsnprintf(t->data + t->len, LINE_BYTES, format, list);
    va_end(list);
    if (n > 0)
        t->len += (size_t)n < LINE_BYTES ? (size_t)n : LINE_BYTES - 1;
}

/* In Prometheus' format, the name of a counter's family includes "_total", like its samples. */
static const char *suffix(const metrics_text *t, metrics_type type)
{
    return type == METRICS_COUNTER && !t->openmetrics ? "_total" : "";
}

void metrics_begin(metrics_text *t, metrics_id family)
{
    static const char *const types[] = {
        [METRICS_COUNTER] = "counter", [METRICS_GAUGE] = "gauge", [METRICS_HISTOGRAM] = "histogram"};
    const metrics_family *f = &metrics_families[family];

    t->family = family;
    put(t, "# HELP %s%s %s\n", f->name, suffix(t, f->type), f->help);
    put(t, "# TYPE %s%s %s\n", f->name, suffix(t, f->type), types[f->type]);
}

static void put_sample(metrics_text *t, const char *end, const char *labels, double value)
{
    bool whole = value > -9007199254740992.0 && value < 9007199254740992.0 && value == (double)(int64_t)value;

    put(t, labels[0] ? "%s%s{%s} " : "%s%s%s ", metrics_families[t->family].name, end, labels);
    put(t, whole ? "%.0f\n" : "%.9g\n", value);
}

void metrics_sample(metrics_text *t, const char *labels, double value)
{
    put_sample(t, metrics_families[t->family].type == METRICS_COUNTER ? "_total" : "", labels, value);
}

void metrics_single(metrics_text *t, metrics_id family, double value)
{
    metrics_begin(t, family);
    metrics_sample(t, "", value);
}

void metrics_durations(metrics_text *t, const char *labels, const metrics_histogram *h)
{
    char with_bound[256];
    const char *comma = labels[0] ? "," : "";
    uint64_t n = 0;
    double bound = METRICS_FIRST_NS / 1e9;

    for (unsigned i = 0; i < METRICS_BUCKETS; i++, bound *= 2) {
        n += h->bucket[i];
        snprintf(with_bound, sizeof with_bound, "%s%sle=\"%.9g\"", labels, comma, bound);
        put_sample(t, "_bucket", with_bound, (double)n);
    }
    n += h->bucket[METRICS_BUCKETS];
    snprintf(with_bound, sizeof with_bound, "%s%sle=\"+Inf\"", labels, comma);
    put_sample(t, "_bucket", with_bound, (double)n);
    put_sample(t, "_sum", labels, (double)h->sum_ns / 1e9);
    put_sample(t, "_count", labels, (double)n);
}

lks_rpc_slice metrics_end(metrics_text *t)
{
    if (t->openmetrics)
        put(t, "# EOF\n");
    return t->failed ? (lks_rpc_slice){.data = NULL} : (lks_rpc_slice){.data = t->data, .len = t->len};
}

bool metrics_wants_openmetrics(const char *accept)
{
    return strstr(accept, "application/openmetrics-text");
}

const char *metrics_content_type(bool openmetrics)
{
    return openmetrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                       : "text/plain; version=0.0.4; charset=utf-8";
}
