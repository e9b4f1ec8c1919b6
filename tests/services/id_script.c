/* Every word sends one request or checks one thing. */
#include "services/id_script.h"

int empty_store(void **state)
{
    static const service_options options = {.sequence_block = 1};

    harness_service_options(h, &options);
    harness_reset(h);
    return 0;
}

int started_store(void **state)
{
    empty_store(state);
    if (next(LKS_ID_KIND_SNOWFLAKE, "", 1))
        return -1;
    harness_advance_ms(h, LEASE_MS);
    harness_server_ends(h, "harness");
    return 0;
}

const lks_next_response *next(lks_id_kind kind, const char *name, int32_t count)
{
    lks_next_request request = LKS_NEXT_REQUEST_INIT;

    request.kind = kind;
    request.name = harness_unconst(name);
    request.count = count;
    return harness_call(h, &id_service, "Next", &request, &err);
}

const int64_t *next_snowflakes(int32_t count)
{
    const lks_next_response *response = next(LKS_ID_KIND_SNOWFLAKE, "", count);

    if (!response)
        fail_msg("no id: %s: %s", lks_code_name(err.code), err.message);
    assert_int_equal(response->n_ids, count);
    assert_int_equal(response->order_scope, LKS_ORDER_SCOPE_SERVER);
    for (size_t i = 1; i < response->n_ids; i++)
        if (response->ids[i] <= response->ids[i - 1])
            fail_msg("id %zu is not greater than the one before", i);
    return response->ids;
}

int64_t next_snowflake(void)
{
    return next_snowflakes(1)[0];
}

int64_t next_of(const char *sequence)
{
    const lks_next_response *response = next(LKS_ID_KIND_SEQUENCE, sequence, 0);

    if (!response)
        fail_msg("no number: %s: %s", lks_code_name(err.code), err.message);
    assert_int_equal(response->n_ids, 1);
    return response->ids[0];
}

lks_decode_response decode(int64_t id)
{
    lks_decode_request request = LKS_DECODE_REQUEST_INIT;

    request.id = id;
    const lks_decode_response *response = harness_call(h, &id_service, "Decode", &request, &err);
    return response ? *response : (lks_decode_response)LKS_DECODE_RESPONSE_INIT;
}

void expect_refused(lks_code code, const char *text)
{
    if (err.code != code || err.applied != LKS_APPLIED_NO || strncmp(err.message, text, strlen(text)) != 0)
        fail_msg("expected %s, NO, \"%s...\"; got %s, %s, \"%s\"", lks_code_name(code), text, lks_code_name(err.code),
                 lks_applied_name(err.applied), err.message);
}

int64_t clock_ms(void)
{
    static const char script[] =
        "local t = redis.call('TIME')\n"
        "local us = t[1] * 1000000 + t[2] + (redis.call('GET', 'ls:test:clock_offset_us') or 0)\n"
        "return string.format('%.0f', math.floor(us / 1000))";

    return strtoll(harness_redis(h, "EVAL %s 0", script), NULL, 10);
}

long store_calls(void)
{
    return harness_commands(h, "fcall");
}
