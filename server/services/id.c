/* IdService. Invariant: each id is unique: the store gives it (SEQUENCE), or this server out of what the store has
 * granted to it alone (SNOWFLAKE, SEQUENCE in blocks), or it has 62 random bits (UUID_V7).
 *
 *   SNOWFLAKE --has a range--> answered          SEQUENCE --has a block--> answered
 *        \--> id_grant --> answered                  \--> id_sequence --> answered
 *              ^   | used up meanwhile
 *              \---/ */
#include <stdlib.h>
#include <string.h>

#include "functions/arguments.h"
#include "lockstock/v1/id.lks.h"
#include "memory.h"
#include "services/id.h"
#include "services/service.h"

/* Maximum of rounds of a call: in each, other calls may use up its range. */
enum { ROUNDS_MAX = 8, GRANT_WEIGHT = 24 /* reads the ranges of all workers */ };

typedef struct id_state {
    snowflake snowflake;
    uint64_t uuid_tick;
    sequences *sequences;
    int64_t sequence_block;
} id_state;

static void id_close(void *state)
{
    id_state *s = state;

    sequences_free(s->sequences);
    free(s);
}

static void *id_open(const service_options *options)
{
    id_state *s = memory_alloc(sizeof *s);

    s->sequence_block = options->sequence_block;
    snowflake_init(&s->snowflake);
    s->sequences = sequences_new();
    return s;
}

static size_t count_of(const lks_next_request *request)
{
    return request->count > 0 ? (size_t)request->count : 1;
}

static void make_ids(answer *a, size_t count, lks_next_response *response)
{
    response->ids = memory_in(a->arena, count * sizeof *response->ids);
    response->n_ids = a->units = count;
}

/* ---- SNOWFLAKE ---- */

/* All namespaces share the workers. */
static void plan_grant(plan *p, const snowflake *s)
{
    plan_call(p, &fn_id_grant, "id", NULL, 0);
    plan_weighs(p, GRANT_WEIGHT);
    if (plan_failed(p))
        return;
    p->calls[p->n_calls - 1].base = lks_rpc_slice_of("ls:{meta}:");
    args_id_grant(p, .owner = s->owner, .had = s->worker, .unused = snowflake_unused_ms(s));
}

static void snowflake_prepare(const lks_next_request *request, plan *p)
{
    id_state *state = p->state;

    if (!snowflake_has(&state->snowflake, p->now_ns, count_of(request)))
        plan_grant(p, &state->snowflake);
}

/* Sets the error for an id_grant that grants nothing. */
static void refuse_grant(answer *a, const store_value *reply)
{
    static const struct {
        const char *word;
        lks_code code;
        lks_reason reason;
        const char *text;
    } refusals[] = {
        {"STARTING", LKS_UNAVAILABLE, LKS_REASON_STORE_FAILING_OVER,
         "kind: the store is new, lost its data or has another primary, and grants no worker yet"},
        {"AHEAD", LKS_RESOURCE_EXHAUSTED, LKS_REASON_NO_ROOM,
         "kind: this server has made more ids than its share of the time"},
        {"TAKEN", LKS_RESOURCE_EXHAUSTED, LKS_REASON_NO_ROOM, "kind: all 1024 workers are taken"},
    };
    const char *word = answer_text(a, reply, 0);
    int64_t after_ms = answer_int(a, reply, 1);

    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        if (strcmp(word, refusals[i].word) == 0) {
            lks_error_set_reason(&a->error, refusals[i].code, LKS_APPLIED_NO, refusals[i].reason, "%s",
                                 refusals[i].text);
            a->error.retry_after_ms = (uint32_t)after_ms;
            return;
        }
    }
    lks_error_set(&a->error, LKS_INTERNAL, LKS_APPLIED_MAYBE, "the store sent a reply of an unexpected form");
}

/* Takes a grant. Also returns true if the store grants nothing and the server's range is enough. */
static bool take_grant(answer *a, snowflake *s, size_t count)
{
    enum { WORKER = 1, FIRST, END, CLOCK, LENGTH };
    const store_value *reply = a->replies[0];

    if (answer_count(a, reply) != LENGTH) {
        /* The next range must wait for the clock; the server still has its worker. */
        if (strcmp(answer_text(a, reply, 0), "AHEAD") == 0 && snowflake_left(s, a->plan->now_ns, count))
            return true;
        refuse_grant(a, reply);
        return false;
    }
    snowflake_range range = {
        .worker = answer_int(a, reply, WORKER),
        .first_ms = answer_int(a, reply, FIRST),
        .end_ms = answer_int(a, reply, END),
        .clock_ms = answer_int(a, reply, CLOCK),
        .asked_ns = a->plan->now_ns,
    };
    if (a->error.code == LKS_OK)
        snowflake_grant(s, &range);
    return a->error.code == LKS_OK;
}

static void snowflake_finish(const lks_next_request *request, answer *a, lks_next_response *response)
{
    id_state *state = a->plan->state;
    size_t count = count_of(request);

    if (a->n_replies > 0 && !take_grant(a, &state->snowflake, count))
        return;
    make_ids(a, count, response);
    response->order_scope = LKS_ORDER_SCOPE_SERVER;
    if (snowflake_take(&state->snowflake, a->plan->now_ns, count, response->ids))
        return;
    if (a->plan->round < ROUNDS_MAX)
        answer_next_round(a, plan_again);
    else
        lks_error_set(&a->error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO,
                      "kind: fewer ids are left than the request asks for");
}

/* ---- UUID_V7 ---- */

static void uuid_finish(const lks_next_request *request, answer *a, lks_next_response *response)
{
    id_state *state = a->plan->state;
    size_t count = count_of(request);

    response->order_scope = LKS_ORDER_SCOPE_SERVER;
    response->uuids = memory_in(a->arena, count * sizeof *response->uuids);
    response->n_uuids = a->units = count;
    uuid_make(&state->uuid_tick, a->arena, count, response->uuids);
}

/* ---- SEQUENCE ---- */

static sequence_name name_of(const plan *p, const lks_next_request *request)
{
    return (sequence_name){.ns = p->ns, .name = lks_rpc_slice_of(request->name)};
}

static bool keeps_blocks(const id_state *state)
{
    return state->sequence_block > 1;
}

/* Returns how many numbers to take from the store at once. */
static int64_t taken_for(const id_state *state, int64_t count)
{
    return count > state->sequence_block ? count : state->sequence_block;
}

static void sequence_prepare(const lks_next_request *request, plan *p)
{
    const id_state *state = p->state;
    int64_t count = (int64_t)count_of(request);

    plan_check_name(p, "name", request->name);
    if (plan_failed(p) || (keeps_blocks(state) && sequences_left(state->sequences, name_of(p, request)) >= count))
        return;
    plan_call(p, &fn_id_sequence, "", request->name, 0);
    args_id_sequence(p, .how_many = taken_for(state, count));
}

static void sequence_finish(const lks_next_request *request, answer *a, lks_next_response *response)
{
    id_state *state = a->plan->state;
    sequence_name of = name_of(a->plan, request);
    size_t count = count_of(request);
    int64_t last = a->n_replies > 0 ? answer_int(a, a->replies[0], 1) : 0;
    int64_t first = last - (int64_t)count + 1;

    if (a->error.code != LKS_OK)
        return;
    make_ids(a, count, response);
    if (keeps_blocks(state)) {
        if (a->n_replies > 0)
            sequences_add(state->sequences, of, last - taken_for(state, (int64_t)count) + 1, last);
        if (sequences_left(state->sequences, of) < (int64_t)count) {
            answer_next_round(a, plan_again); /* other calls took the numbers after this one was planned */
            return;
        }
        first = sequences_take(state->sequences, of, (int64_t)count);
    }
    response->order_scope = keeps_blocks(state) ? LKS_ORDER_SCOPE_SERVER : LKS_ORDER_SCOPE_GLOBAL;
    for (size_t i = 0; i < count; i++)
        response->ids[i] = first + (int64_t)i;
}

/* ---- Next ---- */

static void next_prepare(const lks_next_request *request, plan *p)
{
    if (request->kind == LKS_ID_KIND_UNSPECIFIED)
        plan_invalid(p, "kind: must be set");
    if (request->kind != LKS_ID_KIND_SEQUENCE && request->name[0] != '\0')
        plan_invalid(p, "name: only a SEQUENCE has one");
    plan_check_range(p, "count", request->count, 0, ID_COUNT_MAX);
    if (plan_failed(p))
        return;
    if (request->kind == LKS_ID_KIND_SNOWFLAKE)
        snowflake_prepare(request, p);
    else if (request->kind == LKS_ID_KIND_SEQUENCE)
        sequence_prepare(request, p);
}

static void next_finish(const lks_next_request *request, answer *a, lks_next_response *response)
{
    if (request->kind == LKS_ID_KIND_SNOWFLAKE)
        snowflake_finish(request, a, response);
    else if (request->kind == LKS_ID_KIND_UUID_V7)
        uuid_finish(request, a, response);
    else
        sequence_finish(request, a, response);
}

/* ---- Decode ---- */

static void decode_prepare(const lks_decode_request *request, plan *p)
{
    plan_check_range(p, "id", request->id, 1, INT64_MAX);
}

static void decode_finish(const lks_decode_request *request, answer *a, lks_decode_response *response)
{
    snowflake_parts parts = snowflake_parts_of(request->id);
    (void)a;

    response->at_ms = parts.at_ms;
    response->worker = parts.worker;
    response->sequence = parts.sequence;
}

/* ---- the table ---- */

LKS_ID_METHODS(SERVICE_PAIR)

static const service_method methods[] = {LKS_ID_METHODS(SERVICE_ROW)};

const service id_service = {
    .n_methods = sizeof methods / sizeof methods[0],
    .methods = methods,
    .open = id_open,
    .close = id_close,
};
