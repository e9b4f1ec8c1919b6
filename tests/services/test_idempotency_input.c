/* Bad input to IdempotencyService: its code, the field's name, and nothing changed. */
#include "services/idempotency_script.h"

#include <stdio.h>

#define TOKEN "0123456789abcdef"

enum { LONG = 300 * 1024 };

static char text[LONG + 1]; /* 'x' repeated; cut where a test needs it */

static int a_record_is_there(void **state)
{
    servers_reset(state);
    memset(text, 'x', LONG);
    says(begin("k", "T1"), "EXECUTE 1");
    remember();
    return 0;
}

/* Text of so many bytes. Several may be in use at a time. */
static char *of_bytes(size_t n)
{
    return text + LONG - n;
}

/* ---- Begin ---- */

static lks_begin_request good_begin(void)
{
    lks_begin_request request =
        message(begin_request, .scope = "s", .key = "k", .attempt_token = TOKEN, .lease_ms = LEASE_MS);

    return request;
}

TEST(texts_of_begin)
{
    lks_begin_request r;

    REFUSES(r, good_begin(), scope, "", "scope");
    REFUSES(r, good_begin(), scope, of_bytes(129), "scope");
    REFUSES(r, good_begin(), key, "", "key");
    REFUSES(r, good_begin(), key, of_bytes(256), "key");
    REFUSES(r, good_begin(), attempt_token, of_bytes(15), "attempt_token");
    REFUSES(r, good_begin(), attempt_token, of_bytes(65), "attempt_token");
    r = good_begin(), r.fingerprint.data = (uint8_t *)text, r.fingerprint.len = 65, refuses(&r, "fingerprint");
}

TEST(numbers_of_begin)
{
    static const struct {
        int64_t lease_ms, retain_ms, wait_ms;
        const char *field;
    } row[] = {
        {0, 0, 0, "lease_ms"},         {9, 0, 0, "lease_ms"},
        {-1, 0, 0, "lease_ms"},        {86400001, 0, 0, "lease_ms"},
        {INT64_MAX, 0, 0, "lease_ms"}, {10, -1, 0, "retain_ms"},
        {10, 999, 0, "retain_ms"},     {10, INT64_C(2592000001), 0, "retain_ms"},
        {10, 0, -1, "wait_ms"},        {10, 0, 86400001, "wait_ms"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        lks_begin_request r = good_begin();
        r.lease_ms = row[i].lease_ms;
        r.retain_ms = row[i].retain_ms;
        r.wait_ms = row[i].wait_ms;
        refuses(&r, row[i].field);
    }
}

TEST(the_bounds_themselves_are_taken)
{
    lks_begin_request r = good_begin();

    r.scope = of_bytes(128);
    r.key = of_bytes(255);
    r.attempt_token = of_bytes(64);
    r.fingerprint.data = (uint8_t *)text;
    r.fingerprint.len = 64;
    r.lease_ms = 86400000;
    r.retain_ms = INT64_C(2592000000);
    r.wait_ms = 86400000;
    const lks_begin_response *response = answer_to(&r);
    assert_non_null(response);
    assert_int_equal(response->outcome, LKS_BEGIN_OUTCOME_EXECUTE);
    r = good_begin();
    r.key = "other";
    r.lease_ms = 10;
    r.retain_ms = 1000;
    says(call(&r), "OK");
}

/* ---- Extend, Complete, Fail ---- */

static lks_extend_request good_extend(void)
{
    lks_extend_request request =
        message(extend_request, .scope = "s", .key = "k", .fence = fence(), .lease_ms = LEASE_MS);

    return request;
}

TEST(extend_is_checked)
{
    lks_extend_request r;

    REFUSES(r, good_extend(), scope, "", "scope");
    REFUSES(r, good_extend(), key, of_bytes(256), "key");
    REFUSES(r, good_extend(), fence, 0, "fence");
    REFUSES(r, good_extend(), fence, UINT64_C(9007199254740992), "fence");
    REFUSES(r, good_extend(), fence, UINT64_MAX, "fence");
    REFUSES(r, good_extend(), lease_ms, 9, "lease_ms");
    REFUSES(r, good_extend(), lease_ms, 86400001, "lease_ms");
    r = good_extend(), says(call(&r), "OK");
}

static lks_result_header header;
static lks_result_header *headers[33];

static lks_complete_request good_complete(void)
{
    lks_complete_request request = message(complete_request, );

    header = message(result_header, .key = "Location");
    for (size_t i = 0; i < 33; i++)
        headers[i] = &header;
    request.scope = "s";
    request.key = "k";
    request.fence = fence();
    request.n_headers = 1;
    request.headers = headers;
    return request;
}

TEST(complete_is_checked)
{
    static const char *const not_for_callers[] = {"lockstock-failure", "lockstock-", "LOCKSTOCK-Failure"};
    lks_complete_request r;

    REFUSES(r, good_complete(), scope, of_bytes(129), "scope");
    REFUSES(r, good_complete(), key, "", "key");
    REFUSES(r, good_complete(), fence, 0, "fence");
    r = good_complete(), r.body.data = (uint8_t *)text, r.body.len = 256 * 1024 + 1, refuses(&r, "body");
    REFUSES(r, good_complete(), n_headers, 33, "headers");
    r = good_complete(), header.key = "", refuses(&r, "headers[0].key");
    r = good_complete(), header.key = of_bytes(129), refuses(&r, "headers[0].key");
    r = good_complete(), header.value = of_bytes(4097), refuses(&r, "headers[0].value");
    for (size_t i = 0; i < sizeof not_for_callers / sizeof *not_for_callers; i++) {
        r = good_complete();
        header.key = not_for_callers[i];
        refuses(&r, "headers[0].key");
    }
    r = good_complete();
    lks_result_header bad = message(result_header, );
    headers[31] = &bad;
    r.n_headers = 32;
    refuses(&r, "headers[31].key");
}

static lks_fail_request good_fail(void)
{
    lks_fail_request request =
        message(fail_request, .scope = "s", .key = "k", .fence = fence(), .kind = LKS_FAIL_KIND_FINAL);

    return request;
}

TEST(fail_is_checked)
{
    lks_fail_request r;

    REFUSES(r, good_fail(), scope, "", "scope");
    REFUSES(r, good_fail(), key, "", "key");
    REFUSES(r, good_fail(), fence, 0, "fence");
    REFUSES(r, good_fail(), kind, LKS_FAIL_KIND_UNSPECIFIED, "kind");
    REFUSES(r, good_fail(), kind, (lks_fail_kind)3, "kind");
    REFUSES(r, good_fail(), detail, of_bytes(1025), "detail");
    r = good_fail(), r.detail = of_bytes(1024), says(call(&r), "OK");
    says_begin(get("k"), "FAILED_FINAL 1 -1 lockstock-failure=xxx");
    assert_int_equal(strlen(got->detail), 1024);
}

/* ---- Get, Delete, tickets ---- */

TEST(get_and_delete_are_checked)
{
    lks_get_request g = message(get_request, );
    lks_delete_request d = message(delete_request, );

    g.key = d.key = "k";
    refuses(&g, "scope");
    refuses(&d, "scope");
    g.scope = d.scope = "s";
    g.key = d.key = of_bytes(256);
    refuses(&g, "key");
    refuses(&d, "key");
}

static lks_issue_ticket_request good_issue(void)
{
    lks_issue_ticket_request request = message(issue_ticket_request, .scope = "s", .subject = "me", .ttl_ms = 1000);

    return request;
}

static lks_consume_ticket_request good_consume(void)
{
    lks_consume_ticket_request request =
        message(consume_ticket_request, .scope = "s", .subject = "me", .ticket = "t", .consumer_id = TOKEN);

    return request;
}

TEST(tickets_are_checked)
{
    lks_issue_ticket_request i;
    lks_consume_ticket_request c;

    REFUSES(i, good_issue(), scope, "", "scope");
    REFUSES(i, good_issue(), subject, "", "subject");
    REFUSES(i, good_issue(), subject, of_bytes(129), "subject");
    REFUSES(i, good_issue(), ttl_ms, 999, "ttl_ms");
    REFUSES(i, good_issue(), ttl_ms, 86400001, "ttl_ms");
    REFUSES(c, good_consume(), scope, "", "scope");
    REFUSES(c, good_consume(), subject, "", "subject");
    REFUSES(c, good_consume(), ticket, "", "ticket");
    REFUSES(c, good_consume(), ticket, of_bytes(129), "ticket");
    REFUSES(c, good_consume(), consumer_id, of_bytes(15), "consumer_id");
    REFUSES(c, good_consume(), consumer_id, of_bytes(65), "consumer_id");
    i = good_issue(), says(call(&i), "OK");
    i = good_issue(), i.ttl_ms = 86400000, says(call(&i), "OK");
}

/* ---- the wire ---- */

TEST(bytes_that_are_no_request)
{
    static const struct {
        const char *bytes;
        size_t len;
    } row[] = {
        {"\x0a\x05s", 3},            /* cut short */
        {"\x0a\x01\xff", 3},         /* scope: not UTF-8 */
        {"\x0a\x02s\0", 4},          /* scope: NUL */
        {"\x0a\x01s\x12\x02k\0", 7}, /* key: NUL */
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        refuses_bytes(&idempotency_service, "Begin", row[i].bytes, row[i].len, "");
}

TEST_MAIN(.setup_all = script_open, .teardown_all = servers_close, .setup = a_record_is_there)
