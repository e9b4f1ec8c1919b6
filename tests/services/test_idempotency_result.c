/* Results are replayed byte for byte, however odd or large; and what a record costs. */
#include "services/idempotency_script.h"

#include <stdio.h>

enum { BODY_MAX = 256 * 1024, HEADERS_MAX = 32 };

static uint8_t body[BODY_MAX];
static lks_result_header header[HEADERS_MAX];
static lks_result_header *headers[HEADERS_MAX];
static char keys[HEADERS_MAX][129], values[HEADERS_MAX][4097];

static void put(const char *key, int32_t code, size_t body_len, size_t n_headers)
{
    lks_complete_request request = message(complete_request, );
    char scope[] = "s", key_text[32];

    snprintf(key_text, sizeof key_text, "%s", key);
    request.scope = scope;
    request.key = key_text;
    request.fence = fence();
    request.code = code;
    request.body.data = body;
    request.body.len = body_len;
    request.n_headers = n_headers;
    request.headers = headers;
    says(call(&request), "OK");
}

static void expect(const lks_stored_result *result, int32_t code, size_t body_len, size_t n_headers)
{
    assert_non_null(result);
    assert_int_equal(result->code, code);
    assert_int_equal(result->body.len, body_len);
    assert_memory_equal(result->body.data, body, body_len);
    assert_int_equal(result->n_headers, n_headers);
    for (size_t i = 0; i < n_headers; i++) {
        assert_string_equal(result->headers[i]->key, header[i].key);
        assert_string_equal(result->headers[i]->value, header[i].value);
    }
}

static void set_header(size_t i, const char *key, const char *value)
{
    header[i] = message(result_header, .key = keys[i], .value = values[i]);
    snprintf(keys[i], sizeof keys[i], "%s", key);
    snprintf(values[i], sizeof values[i], "%s", value);
    headers[i] = &header[i];
}

/* begin says REPLAY only in words, so the response is asked for again. */
static const lks_stored_result *replayed(const char *key)
{
    char scope[] = "s", key_text[32], token[] = "another attempt's token";

    snprintf(key_text, sizeof key_text, "%s", key);
    lks_begin_request request =
        message(begin_request, .scope = scope, .key = key_text, .attempt_token = token, .lease_ms = LEASE_MS);
    const lks_begin_response *response = answer_to(&request);
    assert_non_null(response);
    assert_int_equal(response->outcome, LKS_BEGIN_OUTCOME_REPLAY);
    return response->result;
}

TEST(every_byte_comes_back)
{
    for (size_t i = 0; i < BODY_MAX; i++)
        body[i] = (uint8_t)i; /* zero bytes, no UTF-8, "\r\n" */
    begin("k", "T1");
    put("k", 200, 256, 0);
    expect(replayed("k"), 200, 256, 0);
    get("k");
    expect(got->result, 200, 256, 0);
}

TEST(headers_keep_their_order)
{
    set_header(0, "Set-Cookie", "b=2");
    set_header(1, "Location", "/orders/7");
    set_header(2, "Set-Cookie", "a=1");
    set_header(3, "set-cookie", "");
    set_header(4, "x", "\xc3\xa4 \r\n \x01");
    begin("k", "T1");
    put("k", 201, 0, 5);
    expect(replayed("k"), 201, 0, 5);
    get("k");
    expect(got->result, 201, 0, 5);
}

TEST(codes_are_the_callers)
{
    static const int32_t codes[] = {0, 1, -1, 200, 503, INT32_MAX, INT32_MIN};

    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        char key[8];
        snprintf(key, sizeof key, "k%zu", i);
        begin(key, "T1");
        put(key, codes[i], 1, 0);
        expect(replayed(key), codes[i], 1, 0);
    }
}

static int64_t bytes_of(const char *name, const char *key)
{
    char command[128];

    snprintf(command, sizeof command, "MEMORY USAGE ls:{default/s/%s}:%s SAMPLES 0", key, name);
    return atoll(harness_redis(h, command));
}

TEST(the_largest_result)
{
    char text[4097];

    for (size_t i = 0; i < BODY_MAX; i++)
        body[i] = (uint8_t)(i * 2654435761u >> 13);
    for (size_t i = 0; i < HEADERS_MAX; i++) {
        memset(text, 'a' + (int)(i % 26), 4096);
        text[4096] = '\0';
        set_header(i, text + 4096 - 128, text);
    }
    begin("k", "T1");
    put("k", 200, BODY_MAX, HEADERS_MAX);
    expect(replayed("k"), 200, BODY_MAX, HEADERS_MAX);
    pass_seconds(2000);
    get("k");
    expect(got->result, 200, BODY_MAX, HEADERS_MAX);
    print_message("largest record: %lld bytes\n", (long long)bytes_of("idem:r", "k"));
}

/* The figures of docs/idempotency.md. */
TEST(what_a_record_costs)
{
    char ticket[64], key[] = "order-0123456789";

    begin_of(key, "0123456789abcdef0123456789abcdef", "0123456789abcdef", LEASE_MS, 0);
    wait_of("S1", key, "T2", "0123456789abcdef", LEASE_MS, WAIT_MS);
    harness_redis(h, "SADD ls:{default/s/%s}:idem:w 0123456789abcdefghijklmnopqrstuv", key); /* a real id */
    int64_t running = bytes_of("idem:r", key);
    int64_t waiting = bytes_of("idem:w", key);
    memset(body, 'b', 1000);
    set_header(0, "Location", "/orders/7");
    put(key, 200, 30, 0);
    int64_t small = bytes_of("idem:r", key);
    forget(key);
    begin(key, "0123456789abcdef0123456789abcdef");
    put(key, 200, 1000, 1);
    int64_t large = bytes_of("idem:r", key);
    issue("s", "user-0123456789", 60000, ticket);
    consume("s", "user-0123456789", ticket, "0123456789abcdef0123456789abcdef");
    int64_t consumed = bytes_of("idem:t", ticket);
    print_message("running %lld, 30 bytes %lld, 1000 bytes %lld, waiting %lld, ticket %lld\n", (long long)running,
                  (long long)small, (long long)large, (long long)waiting, (long long)consumed);
    assert_true(running <= 350 && small <= 400 && large <= 2100 && waiting <= 350 && consumed <= 250);
}

TEST_MAIN(.setup_all = script_open, .teardown_all = servers_close, .setup = servers_reset)
