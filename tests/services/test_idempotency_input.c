/* Bad input to IdempotencyService: its code, the field's name, and nothing changed. */
#include "services/idempotency_script.h"

#include <stdio.h>

#define TOKEN "0123456789abcdef"

enum { LONG = 300 * 1024 };

static char text[LONG + 1]; /* 'x' repeated; cut where a test needs it */
static const char *state_before;

static int a_record_is_there(void **state)
{
    idempotency_reset(state);
    memset(text, 'x', LONG);
    says(begin("k", "T1"), "EXECUTE 1");
    state_before = harness_snapshot(script_harness);
    return 0;
}

/* Text of so many bytes. Several may be in use at a time. */
static char *of_bytes(size_t n)
{
    return text + LONG - n;
}

/* INVALID_ARGUMENT, applied NO, the text beginning with the field's path. */
static void refuses(const char *method, const void *request, const char *field)
{
    char expected[128];

    snprintf(expected, sizeof expected, "INVALID_ARGUMENT NO %s:", field);
    says_begin(call(method, request), expected);
    says(harness_snapshot(script_harness), state_before);
}

/* ---- Begin ---- */

static lks_begin_request good_begin(void)
{
    lks_begin_request request = LKS_BEGIN_REQUEST_INIT;

    request.scope = "s";
    request.key = "k";
    request.attempt_token = TOKEN;
    request.lease_ms = LEASE_MS;
    return request;
}

static void refuses_begin(lks_begin_request request, const char *field)
{
    refuses("Begin", &request, field);
}

TEST(texts_of_begin)
{
    lks_begin_request r;

    r = good_begin(), r.scope = "", refuses_begin(r, "scope");
    r = good_begin(), r.scope = of_bytes(129), refuses_begin(r, "scope");
    r = good_begin(), r.key = "", refuses_begin(r, "key");
    r = good_begin(), r.key = of_bytes(256), refuses_begin(r, "key");
    r = good_begin(), r.attempt_token = of_bytes(15), refuses_begin(r, "attempt_token");
    r = good_begin(), r.attempt_token = of_bytes(65), refuses_begin(r, "attempt_token");
    r = good_begin(), r.fingerprint.data = (uint8_t *)text, r.fingerprint.len = 65, refuses_begin(r, "fingerprint");
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
        refuses_begin(r, row[i].field);
    }
}

TEST(the_bounds_themselves_are_taken)
{
    lks_begin_request r = good_begin();
    lks_error error;

    r.scope = of_bytes(128);
    r.key = of_bytes(255);
    r.attempt_token = of_bytes(64);
    r.fingerprint.data = (uint8_t *)text;
    r.fingerprint.len = 64;
    r.lease_ms = 86400000;
    r.retain_ms = INT64_C(2592000000);
    r.wait_ms = 86400000;
    const lks_begin_response *response = harness_call(script_harness, &idempotency_service, "Begin", &r, &error);
    assert_non_null(response);
    assert_int_equal(response->outcome, LKS_BEGIN_OUTCOME_EXECUTE);
    r = good_begin();
    r.key = "other";
    r.lease_ms = 10;
    r.retain_ms = 1000;
    says(call("Begin", &r), "OK");
}

/* ---- Extend, Complete, Fail ---- */

static lks_extend_request good_extend(void)
{
    lks_extend_request request = LKS_EXTEND_REQUEST_INIT;

    request.scope = "s";
    request.key = "k";
    request.fence = fence();
    request.lease_ms = LEASE_MS;
    return request;
}

TEST(extend_is_checked)
{
    lks_extend_request r;

    r = good_extend(), r.scope = "", refuses("Extend", &r, "scope");
    r = good_extend(), r.key = of_bytes(256), refuses("Extend", &r, "key");
    r = good_extend(), r.fence = 0, refuses("Extend", &r, "fence");
    r = good_extend(), r.fence = UINT64_C(9007199254740992), refuses("Extend", &r, "fence");
    r = good_extend(), r.fence = UINT64_MAX, refuses("Extend", &r, "fence");
    r = good_extend(), r.lease_ms = 9, refuses("Extend", &r, "lease_ms");
    r = good_extend(), r.lease_ms = 86400001, refuses("Extend", &r, "lease_ms");
    r = good_extend(), says(call("Extend", &r), "OK");
}

static lks_result_header header;
static lks_result_header *headers[33];

static lks_complete_request good_complete(void)
{
    lks_complete_request request = LKS_COMPLETE_REQUEST_INIT;

    header = (lks_result_header)LKS_RESULT_HEADER_INIT;
    header.key = "Location";
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

    r = good_complete(), r.scope = of_bytes(129), refuses("Complete", &r, "scope");
    r = good_complete(), r.key = "", refuses("Complete", &r, "key");
    r = good_complete(), r.fence = 0, refuses("Complete", &r, "fence");
    r = good_complete(), r.body.data = (uint8_t *)text, r.body.len = 256 * 1024 + 1, refuses("Complete", &r, "body");
    r = good_complete(), r.n_headers = 33, refuses("Complete", &r, "headers");
    r = good_complete(), header.key = "", refuses("Complete", &r, "headers[0].key");
    r = good_complete(), header.key = of_bytes(129), refuses("Complete", &r, "headers[0].key");
    r = good_complete(), header.value = of_bytes(4097), refuses("Complete", &r, "headers[0].value");
    for (size_t i = 0; i < sizeof not_for_callers / sizeof *not_for_callers; i++) {
        r = good_complete();
        header.key = (char *)(uintptr_t)not_for_callers[i];
        refuses("Complete", &r, "headers[0].key");
    }
    r = good_complete();
    lks_result_header bad = LKS_RESULT_HEADER_INIT;
    headers[31] = &bad;
    r.n_headers = 32;
    refuses("Complete", &r, "headers[31].key");
}

static lks_fail_request good_fail(void)
{
    lks_fail_request request = LKS_FAIL_REQUEST_INIT;

    request.scope = "s";
    request.key = "k";
    request.fence = fence();
    request.kind = LKS_FAIL_KIND_FINAL;
    return request;
}

TEST(fail_is_checked)
{
    lks_fail_request r;

    r = good_fail(), r.scope = "", refuses("Fail", &r, "scope");
    r = good_fail(), r.key = "", refuses("Fail", &r, "key");
    r = good_fail(), r.fence = 0, refuses("Fail", &r, "fence");
    r = good_fail(), r.kind = LKS_FAIL_KIND_UNSPECIFIED, refuses("Fail", &r, "kind");
    r = good_fail(), r.kind = (lks_fail_kind)3, refuses("Fail", &r, "kind");
    r = good_fail(), r.detail = of_bytes(1025), refuses("Fail", &r, "detail");
    r = good_fail(), r.detail = of_bytes(1024), says(call("Fail", &r), "OK");
    says_begin(get("k"), "FAILED_FINAL 1 -1 lockstock-failure=xxx");
    assert_int_equal(strlen(got->detail), 1024);
}

/* ---- Get, Delete, tickets ---- */

TEST(get_and_delete_are_checked)
{
    lks_get_request g = LKS_GET_REQUEST_INIT;
    lks_delete_request d = LKS_DELETE_REQUEST_INIT;

    g.key = d.key = "k";
    refuses("Get", &g, "scope");
    refuses("Delete", &d, "scope");
    g.scope = d.scope = "s";
    g.key = d.key = of_bytes(256);
    refuses("Get", &g, "key");
    refuses("Delete", &d, "key");
}

static lks_issue_ticket_request good_issue(void)
{
    lks_issue_ticket_request request = LKS_ISSUE_TICKET_REQUEST_INIT;

    request.scope = "s";
    request.subject = "me";
    request.ttl_ms = 1000;
    return request;
}

static lks_consume_ticket_request good_consume(void)
{
    lks_consume_ticket_request request = LKS_CONSUME_TICKET_REQUEST_INIT;

    request.scope = "s";
    request.subject = "me";
    request.ticket = "t";
    request.consumer_id = TOKEN;
    return request;
}

TEST(tickets_are_checked)
{
    lks_issue_ticket_request i;
    lks_consume_ticket_request c;

    i = good_issue(), i.scope = "", refuses("IssueTicket", &i, "scope");
    i = good_issue(), i.subject = "", refuses("IssueTicket", &i, "subject");
    i = good_issue(), i.subject = of_bytes(129), refuses("IssueTicket", &i, "subject");
    i = good_issue(), i.ttl_ms = 999, refuses("IssueTicket", &i, "ttl_ms");
    i = good_issue(), i.ttl_ms = 86400001, refuses("IssueTicket", &i, "ttl_ms");
    c = good_consume(), c.scope = "", refuses("ConsumeTicket", &c, "scope");
    c = good_consume(), c.subject = "", refuses("ConsumeTicket", &c, "subject");
    c = good_consume(), c.ticket = "", refuses("ConsumeTicket", &c, "ticket");
    c = good_consume(), c.ticket = of_bytes(129), refuses("ConsumeTicket", &c, "ticket");
    c = good_consume(), c.consumer_id = of_bytes(15), refuses("ConsumeTicket", &c, "consumer_id");
    c = good_consume(), c.consumer_id = of_bytes(65), refuses("ConsumeTicket", &c, "consumer_id");
    i = good_issue(), says(call("IssueTicket", &i), "OK");
    i = good_issue(), i.ttl_ms = 86400000, says(call("IssueTicket", &i), "OK");
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
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        lks_error error;
        assert_null(
            harness_call_bytes(script_harness, &idempotency_service, "Begin", row[i].bytes, row[i].len, &error));
        assert_int_equal(error.code, LKS_INVALID_ARGUMENT);
        assert_int_equal(error.applied, LKS_APPLIED_NO);
        says(harness_snapshot(script_harness), state_before);
    }
}

TEST_MAIN(.setup_all = script_open, .teardown_all = servers_close, .setup = a_record_is_there)
