#include "conformance/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

suite here;

server_fixture *suite_server(const char *const *args)
{
    return server_fixture_start(
        &(server_fixture_options){.store = redis_fixture_url(here.redis), .args = args, .scheme = here.wire->scheme});
}

void *suite_open(const server_fixture *server)
{
    void *caller = here.wire->driver->open(server_fixture_url(server), server_fixture_certificate(server));

    assert_non_null(caller);
    return caller;
}

void suite_close(void *caller)
{
    here.wire->driver->close(caller);
}

static uint8_t *packed(const void *request, size_t *len)
{
    *len = protobuf_c_message_get_packed_size(request);
    uint8_t *bytes = malloc(*len + 1);

    assert_non_null(bytes);
    protobuf_c_message_pack(request, bytes);
    return bytes;
}

unsigned suite_try(void *caller, const char *method, const void *request, uint32_t timeout_ms)
{
    call_spec spec = {.method = method, .timeout_ms = timeout_ms};
    uint8_t *payload = packed(request, &spec.len);

    spec.payload = payload;
    unsigned call = here.wire->driver->start(caller, &spec);
    free(payload);
    return call;
}

unsigned suite_start(void *caller, const char *method, const void *request, uint32_t timeout_ms)
{
    unsigned call = suite_try(caller, method, request, timeout_ms);

    assert_int_not_equal(call, 0);
    return call;
}

outcome suite_await(void *caller, unsigned call)
{
    outcome got = {0};

    assert_true(here.wire->driver->await(caller, &got));
    assert_int_equal(got.call, call);
    return got;
}

outcome suite_ask(void *caller, const char *method, const void *request, uint32_t timeout_ms)
{
    return suite_await(caller, suite_start(caller, method, request, timeout_ms));
}

void suite_expect(outcome got, lks_code code, lks_applied applied, const char *begins)
{
    if (got.code != code || (code != LKS_OK && got.applied != applied) ||
        strncmp(got.message, begins, strlen(begins)) != 0) {
        fail_msg("got %s, applied %s, \"%s\"; expected %s, %s, \"%s...\"", lks_code_name(got.code),
                 lks_applied_name(got.applied), got.message, lks_code_name(code), lks_applied_name(applied), begins);
    }
    free(got.payload);
}

void *suite_response(outcome got, const ProtobufCMessageDescriptor *type)
{
    if (got.code != LKS_OK)
        fail_msg("%s: %s", lks_code_name(got.code), got.message);
    void *response = protobuf_c_message_unpack(type, NULL, got.len, got.payload);
    assert_non_null(response);
    free(got.payload);
    return response;
}

/* ---- stock ------------------------------------------------------------------------- */

void suite_put(void *caller, const char *sku, int64_t on_hand)
{
    lks_put_item_request request = LKS_PUT_ITEM_REQUEST_INIT;

    request.group = request.sku = sku;
    request.on_hand = on_hand;
    suite_expect(suite_ask(caller, STOCK "PutItem", &request, PATIENCE_MS), LKS_OK, LKS_APPLIED_YES, "");
}

outcome suite_get(void *caller, const char *sku)
{
    lks_get_item_request request = LKS_GET_ITEM_REQUEST_INIT;

    request.group = request.sku = sku;
    return suite_ask(caller, STOCK "GetItem", &request, PATIENCE_MS);
}

void suite_expect_available(outcome got, const char *sku, int64_t available)
{
    lks_get_item_response *response = suite_response(got, &lockstock__v1__get_item_response__descriptor);

    assert_non_null(response->item);
    assert_string_equal(response->item->sku, sku);
    assert_int_equal(response->item->available, available);
    protobuf_c_message_free_unpacked(&response->base, NULL);
}

/* ---- locks -------------------------------------------------------------------------- */

unsigned suite_acquire(void *caller, const char *name, const char *token, int64_t wait_ms, uint32_t timeout_ms)
{
    lks_acquire_request request = LKS_ACQUIRE_REQUEST_INIT;
    lks_target target = LKS_TARGET_INIT, *targets[] = {&target};

    target.name = name;
    request.targets = targets;
    request.n_targets = 1;
    request.token = token;
    request.lease_ms = 60000;
    request.wait_ms = wait_ms;
    return suite_start(caller, LOCK "Acquire", &request, timeout_ms);
}

void suite_expect_acquired(outcome got, lks_acquire_outcome wanted)
{
    lks_acquire_response *response = suite_response(got, &lockstock__v1__acquire_response__descriptor);

    assert_int_equal(response->outcome, wanted);
    protobuf_c_message_free_unpacked(&response->base, NULL);
}

void suite_release(void *caller, const char *name, const char *token)
{
    lks_release_request request = LKS_RELEASE_REQUEST_INIT;

    request.names = &name;
    request.n_names = 1;
    request.token = token;
    suite_expect(suite_ask(caller, LOCK "Release", &request, PATIENCE_MS), LKS_OK, LKS_APPLIED_YES, "");
}

void suite_until_waiters(void *caller, const char *name, int64_t n)
{
    long long end = process_now_ms() + PATIENCE_MS;
    lks_inspect_request request = LKS_INSPECT_REQUEST_INIT;
    int64_t waiters;

    request.name = name;
    do {
        lks_inspect_response *response = suite_response(suite_ask(caller, LOCK "Inspect", &request, PATIENCE_MS),
                                                        &lockstock__v1__inspect_response__descriptor);
        waiters = response->waiters;
        protobuf_c_message_free_unpacked(&response->base, NULL);
        process_pause();
    } while (waiters != n && process_now_ms() < end);
    assert_int_equal(waiters, n);
}
