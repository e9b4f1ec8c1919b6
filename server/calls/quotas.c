/* Called by server.c and dispatch.c. */
#include "calls/quotas.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "hashed.h"
#include "calls/pass.h"
#include "functions/arguments.h"
#include "log.h"
#include "memory.h"
#include "services/service.h"

enum { INTERVAL_MS = 1000, ROW = 3 };

/* The usage of a namespace: counted so far by the current pass, and by the last complete one. */
typedef struct usage {
    UT_hash_handle hh;               /* by ns */
    int64_t counting[2], counted[2]; /* keys, bytes */
    char ns[];                       /* percent-encoded */
} usage;

struct quotas {
    quotas_limits limits;
    pass *pass;
    usage *all; /* uthash */
    named_set waiting;
    bool failed;   /* a step of the current pass failed */
    bool reported; /* the log has a line about failed passes */
};

static usage *usage_of(const quotas *q, lks_rpc_slice ns)
{
    usage *u;

    HASH_FIND(hh, q->all, ns.data, ns.len, u);
    return u;
}

static usage *usage_new(quotas *q, lks_rpc_slice ns)
{
    usage *u = memory_alloc(sizeof *u + ns.len + 1);

    memcpy(u->ns, ns.data, ns.len);
    HASH_ADD_KEYPTR(hh, q->all, u->ns, ns.len, u);
    return u;
}

static void usage_free(quotas *q, usage *u)
{
    HASH_DELETE(hh, q->all, u);
    free(u);
}

static bool is_over(const quotas *q, const int64_t has[2])
{
    return (q->limits.keys > 0 && has[0] >= q->limits.keys) || (q->limits.bytes > 0 && has[1] >= q->limits.bytes);
}

/* ---- counting ------------------------------------------------------------------- */

static bool is_row(const store_value *row)
{
    return row->type == STORE_ARRAY && row->n == ROW && row->element[0].type == STORE_STRING &&
           row->element[1].type == STORE_INTEGER && row->element[2].type == STORE_INTEGER;
}

static void add(int64_t *sum, int64_t more)
{
    if (__builtin_add_overflow(*sum, more, sum))
        *sum = INT64_MAX;
}

/* Each element of the reply is {namespace, keys, bytes}. */
static void on_step(void *arg, const store_value *reply)
{
    quotas *q = arg;

    q->failed = q->failed || !reply;
    for (size_t i = 2; reply && i < reply->n; i++) {
        const store_value *row = &reply->element[i];
        if (!is_row(row)) {
            q->failed = true;
            continue;
        }
        usage *u = usage_of(q, row->element[0].string);
        if (!u)
            u = usage_new(q, row->element[0].string);
        add(&u->counting[0], row->element[1].integer);
        add(&u->counting[1], row->element[2].integer);
    }
    pass_continue(q->pass);
}

static void log_change(const quotas *q, const usage *u)
{
    bool over = is_over(q, u->counting);

    if (over == is_over(q, u->counted))
        return;
    if (over)
        log_warn("over-quota", "namespace=\"%s\" keys=%" PRId64 " bytes=%" PRId64, u->ns, u->counting[0],
                 u->counting[1]);
    else
        log_info("within-quota", "namespace=\"%s\"", u->ns);
}

/* The counts of a pass with a failed step are incomplete and dropped. */
static void on_end(void *arg)
{
    quotas *q = arg;
    usage *u, *next;

    if (q->failed && !q->reported)
        log_warn("quotas-not-counted", "reason=\"%s\"",
                 "the keys of the store cannot be counted; the quotas use the last counts");
    q->reported = q->failed;
    HASH_ITER(hh, q->all, u, next)
    {
        if (!q->failed) {
            log_change(q, u);
            memcpy(u->counted, u->counting, sizeof u->counted);
        }
        memset(u->counting, 0, sizeof u->counting);
        if (u->counted[0] == 0)
            usage_free(q, u);
    }
    q->failed = false;
}

/* ---- for the server ---------------------------------------------------------------- */

quotas *quotas_new(struct uv_loop_s *loop, store *backing, const quotas_limits *limits)
{
    quotas *q = memory_alloc(sizeof *q);
    const pass_options options = {.loop = loop,
                                  .store = backing,
                                  .function = limits->bytes > 0 ? fn_quota_count_bytes.name : fn_quota_count_keys.name,
                                  .interval_ms = INTERVAL_MS,
                                  .on_step = on_step,
                                  .on_end = on_end,
                                  .arg = q};

    *q = (quotas){.limits = *limits, .pass = pass_new(&options)};
    return q;
}

void quotas_begin(quotas *q)
{
    if (q->limits.keys > 0 || q->limits.bytes > 0)
        pass_begin(q->pass);
}

static lks_rpc_slice namespace_of(lks_rpc_slice base)
{
    size_t from = strlen("ls:{"), end = from;

    while (end < base.len && base.data[end] != '/')
        end++;
    return (lks_rpc_slice){base.data + from, end - from};
}

lks_code quotas_check(const quotas *q, lks_rpc_slice base, lks_rpc_slice ns, lks_error *error)
{
    const usage *u = q->all ? usage_of(q, namespace_of(base)) : NULL;

    if (!u || !is_over(q, u->counted))
        return LKS_OK;
    bool by_keys = q->limits.keys > 0 && u->counted[0] >= q->limits.keys;
    return lks_error_set_reason(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, LKS_REASON_QUOTA_EXCEEDED,
                                "the namespace \"%.*s\" has stored %" PRId64 " %s; its quota is %" PRId64, (int)ns.len,
                                ns.data, u->counted[!by_keys], by_keys ? "keys" : "bytes",
                                by_keys ? q->limits.keys : q->limits.bytes);
}

lks_code quotas_wait(quotas *q, lks_rpc_slice ns, named_entry **ret, lks_error *error)
{
    char name[SERVICE_NAME_BYTES_MAX + 1];

    *ret = NULL;
    if (q->limits.waiters == 0)
        return LKS_OK;
    snprintf(name, sizeof name, "%.*s", (int)ns.len, ns.data);
    named_entry *sum = named_enter(&q->waiting, name, sizeof *sum);
    if (sum && (int64_t)sum->members <= q->limits.waiters) {
        *ret = sum;
        return LKS_OK;
    }
    named_leave(&q->waiting, sum);
    if (!sum)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    return lks_error_set_reason(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, LKS_REASON_QUOTA_EXCEEDED,
                                "the waiting calls of the namespace \"%s\" have reached its quota of %" PRId64, name,
                                q->limits.waiters);
}

void quotas_leave(quotas *q, named_entry *sum)
{
    if (sum)
        named_leave(&q->waiting, sum);
}

void quotas_stop(quotas *q)
{
    if (q)
        pass_stop(q->pass);
}

void quotas_close(quotas *q)
{
    if (!q)
        return;
    pass_close(q->pass);
    while (q->all)
        usage_free(q, q->all);
    free(q);
}
