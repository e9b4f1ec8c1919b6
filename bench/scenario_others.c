/* begin, check-*, ids*, decode. */
#include <inttypes.h>
#include <stdio.h>

#include "scenario.h"

enum { LEASE_MS = 60000, PERIOD_MS = 1000, LIMIT = 100000, LOG_LIMIT = 1000, DENIED_PERIOD_MS = 3600000 };
enum { BEGIN = 0, COMPLETE = 1, BODY_BYTES = 100 };

/* ---- begin, complete ----------------------------------------------------------- */

static void on_begin(op *o, lks_code code, const void *message, const lks_error *error)
{
    const lks_begin_response *response = message;

    o->fence = response ? response->fence : 0;
    drive_ended(o, code, response ? (int)response->outcome : 0,
                response && response->outcome == LKS_BEGIN_OUTCOME_EXECUTE, error);
}

static void on_complete(op *o, lks_code code, const void *message, const lks_error *error)
{
    const lks_complete_response *response = message;

    drive_ended(o, code, response ? (int)response->outcome : 0, false, error);
}

lks_code start_begin(op *o, lks_error *error)
{
    static uint8_t body[BODY_BYTES];

    if (o->step == BEGIN) {
        lks_begin_request request = LKS_BEGIN_REQUEST_INIT;

        request.scope = scenario_thing(o);
        request.key = request.attempt_token = o->id;
        request.lease_ms = LEASE_MS;
        request.retain_ms = LEASE_MS;
        return drive_call(o, &lks_idempotency_begin_method, &request, o->call_options, on_begin, error);
    }
    lks_complete_request request = LKS_COMPLETE_REQUEST_INIT;

    request.scope = scenario_thing(o);
    request.key = o->id;
    request.fence = o->fence;
    request.code = 200;
    request.body = (ProtobufCBinaryData){.data = body, .len = sizeof body};
    return drive_call(o, &lks_idempotency_complete_method, &request, o->call_options, on_complete, error);
}

/* All keys are new: every Begin may execute, and every Complete is stored. */
bool check_begin(world *w, const tally *all, char text[CHECK_BYTES])
{
    uint64_t begun = tally_of(all, w->scenario, BEGIN, LKS_BEGIN_OUTCOME_EXECUTE);
    uint64_t stored = tally_of(all, w->scenario, COMPLETE, LKS_COMPLETE_OUTCOME_STORED);

    snprintf(text, CHECK_BYTES, "executed %" PRIu64 ", stored %" PRIu64, begun, stored);
    return stored <= begun && stored + all->not_ok >= begun;
}

/* ---- check --------------------------------------------------------------------- */

static void on_check(op *o, lks_code code, const void *message, const lks_error *error)
{
    const lks_check_response *response = message;

    drive_ended(o, code, response ? (int)response->outcome : 0, false, error);
}

static lks_code check(op *o, int64_t limit, int64_t period_ms, lks_error *error)
{
    lks_check_request request = LKS_CHECK_REQUEST_INIT;
    lks_limit exact = LKS_LIMIT_INIT;
    lks_rule rule = LKS_RULE_INIT, *rules[] = {&rule};

    exact.algorithm = (lks_algorithm)o->scenario->variant;
    exact.limit = limit;
    exact.period_ms = period_ms;
    rule.key = scenario_thing(o);
    lks_rule_set_limit(&rule, &exact);
    request.rules = rules;
    request.n_rules = 1;
    return drive_call(o, &lks_rate_limit_check_method, &request, o->call_options, on_check, error);
}

lks_code start_check(op *o, lks_error *error)
{
    bool log = o->scenario->variant == LKS_ALGORITHM_SLIDING_LOG;

    return check(o, log ? LOG_LIMIT : LIMIT, PERIOD_MS, error);
}

lks_code start_check_denied(op *o, lks_error *error)
{
    return check(o, 1, DENIED_PERIOD_MS, error);
}

/* One try an hour: the first may have come before the end of an hour, another after. */
bool check_denied(world *w, const tally *all, char text[CHECK_BYTES])
{
    uint64_t allowed = tally_of(all, w->scenario, 0, LKS_CHECK_OUTCOME_ALLOWED);
    uint64_t denied = tally_of(all, w->scenario, 0, LKS_CHECK_OUTCOME_DENIED);

    snprintf(text, CHECK_BYTES, "allowed %" PRIu64 ", denied %" PRIu64, allowed, denied);
    return allowed <= 2;
}

/* ---- ids ----------------------------------------------------------------------- */

static void on_next(op *o, lks_code code, const void *message, const lks_error *error)
{
    const lks_next_response *response = message;

    if (response)
        atomic_fetch_add_explicit(&o->world->ids, response->n_ids + response->n_uuids, memory_order_relaxed);
    drive_ended(o, code, 0, false, error);
}

static lks_next_request next_of(const world *w, char *name)
{
    lks_next_request request = LKS_NEXT_REQUEST_INIT;

    request.kind = (lks_id_kind)w->scenario->variant;
    if (request.kind == LKS_ID_KIND_SEQUENCE)
        request.name = name;
    return request;
}

lks_code start_next(op *o, lks_error *error)
{
    lks_next_request request = next_of(o->world, scenario_thing(o));

    return drive_call(o, &lks_id_next_method, &request, o->call_options, on_next, error);
}

/* A new store gives no worker for 3 s; a server says how long. */
bool prepare_ids(world *w, lks_error *error)
{
    lks_next_request request = next_of(w, w->things[0]);

    do {
        if (lks_id_next(w->channel, &request, NULL, NULL, error) == LKS_OK)
            return true;
    } while (error->code == LKS_UNAVAILABLE && error->retry_after_ms > 0 &&
             measure_pause((double)error->retry_after_ms / 1e3));
    return false;
}

bool check_ids(world *w, const tally *all, char text[CHECK_BYTES])
{
    uint64_t ok = tally_of(all, w->scenario, 0, 0), ids = atomic_load(&w->ids);

    snprintf(text, CHECK_BYTES, "answers %" PRIu64 ", ids %" PRIu64, ok, ids);
    return ok == ids;
}

static void on_decode(op *o, lks_code code, const void *message, const lks_error *error)
{
    (void)message;
    drive_ended(o, code, 0, false, error);
}

lks_code start_decode(op *o, lks_error *error)
{
    lks_decode_request request = LKS_DECODE_REQUEST_INIT;

    request.id = (int64_t)(o->serial | 1) << 22;
    return drive_call(o, &lks_id_decode_method, &request, o->call_options, on_decode, error);
}
