/* Every word sends one request or checks one thing. */
#include "services/id_script.h"

int empty_store(void **state)
{
    static const service_options options = {.sequence_block = 1};

    harness_service_options(h, &options);
    return script_reset(state);
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
    return ask(next, .kind = kind, .name = name, .count = count);
}

const int64_t *next_snowflakes(int32_t count)
{
    const lks_next_response *response = next(LKS_ID_KIND_SNOWFLAKE, "", count);

    if (!response)
        fail_msg("no id: %s", line_of(NULL));
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
        fail_msg("no number: %s", line_of(NULL));
    assert_int_equal(response->n_ids, 1);
    return response->ids[0];
}

lks_decode_response decode(int64_t id)
{
    const lks_decode_response *response = ask(decode, .id = id);

    return response ? *response : (lks_decode_response)LKS_DECODE_RESPONSE_INIT;
}

void expect_refused(lks_code code, const char *why)
{
    char expected[256];

    snprintf(expected, sizeof expected, "%s NO %s", lks_code_name(code), why);
    says_begin(line_of(NULL), expected);
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
