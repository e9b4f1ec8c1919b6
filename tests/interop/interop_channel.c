/* promise GC12: a channel passes gRPC's unary interoperability cases against servers that are not ours */
/* interop_channel URL [CA_FILE]: writes a line for each case, and ends with 1 when one failed.
 *
 * What each case does: github.com/grpc/grpc, doc/interop-test-descriptions.md. A call with the metadata x-hold is not
 * answered. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockstock/lockstock.h>

#include "grpc/testing/unary.lks_client.h"

enum { REQUEST_BYTES = 271828, RESPONSE_BYTES = 314159, TIMEOUT_MS = 60000, BRIEF_MS = 1000 };

static lks_channel *channel;

static bool is_ended(const lks_error *error, lks_code code, lks_applied applied)
{
    if (error->code == code && error->applied == applied)
        return true;
    printf("  %s, applied %s: %s\n", lks_code_name(error->code), lks_applied_name(error->applied), error->message);
    return false;
}

static bool is_ok(const lks_error *error)
{
    return is_ended(error, LKS_OK, LKS_APPLIED_UNSPECIFIED);
}

static bool empty_unary(void)
{
    const grpc_testing_empty request = GRPC_TESTING_EMPTY_INIT;
    lks_error error;

    grpc_testing_test_empty_call(channel, &request, NULL, NULL, &error);
    return is_ok(&error);
}

static bool large_unary(void)
{
    grpc_testing_simple_request request = GRPC_TESTING_SIMPLE_REQUEST_INIT;
    grpc_testing_payload payload = GRPC_TESTING_PAYLOAD_INIT;
    grpc_testing_simple_response *response = NULL;
    lks_error error;

    payload.body = (ProtobufCBinaryData){.len = REQUEST_BYTES, .data = calloc(1, REQUEST_BYTES)};
    request.payload = &payload;
    request.response_size = RESPONSE_BYTES;
    grpc_testing_test_unary_call(channel, &request, NULL, &response, &error);
    bool passed = is_ok(&error) && response->payload && response->payload->body.len == RESPONSE_BYTES;
    grpc_testing_simple_response_free(response);
    free(payload.body.data);
    return passed;
}

static bool cacheable_unary(void)
{
    const lks_metadata metadata = {"x-user-ip", "1.2.3.4", 7};
    const lks_call_options options = {.metadata = &metadata, .n_metadata = 1};
    const grpc_testing_simple_request request = GRPC_TESTING_SIMPLE_REQUEST_INIT;
    lks_error error;

    for (int i = 0; i < 2; i++) {
        grpc_testing_test_cacheable_unary_call(channel, &request, &options, NULL, &error);
        if (!is_ok(&error))
            return false;
    }
    return true;
}

typedef bool item_of(const lks_call *call, size_t i, lks_metadata *ret);

static bool has(item_of *of, const lks_call *call, const lks_metadata *wanted)
{
    lks_metadata item;

    for (size_t i = 0; of(call, i, &item); i++)
        if (strcmp(item.key, wanted->key) == 0)
            return item.len == wanted->len && memcmp(item.value, wanted->value, item.len) == 0;
    return false;
}

/* The server answers with INVALID_ARGUMENT when they do not arrive, and sends the first two back. */
static bool custom_metadata(void)
{
    const lks_metadata metadata[] = {{"x-grpc-test-echo-initial", "test_initial_metadata_value", 27},
                                     {"x-grpc-test-echo-trailing-bin", "\xAB\xAB\xAB", 3},
                                     {"x-expect-both", "1", 1}};
    const lks_call_options options = {.metadata = metadata, .n_metadata = 3};
    const grpc_testing_simple_request request = GRPC_TESTING_SIMPLE_REQUEST_INIT;
    lks_call *call = NULL;
    lks_error error;

    grpc_testing_test_unary_call_start(channel, &request, &options, NULL, NULL, &call, &error);
    if (!call || lks_call_wait(call, &error) != LKS_OK)
        return is_ok(&error);
    bool both = has(lks_call_header, call, &metadata[0]) && has(lks_call_trailer, call, &metadata[1]);
    lks_call_free(call);
    return both;
}

static bool has_status(lks_code code, const char *message)
{
    grpc_testing_simple_request request = GRPC_TESTING_SIMPLE_REQUEST_INIT;
    grpc_testing_echo_status status = GRPC_TESTING_ECHO_STATUS_INIT;
    lks_error error;

    status.code = (int32_t)code;
    status.message = (char *)(uintptr_t)message;
    request.response_status = &status;
    grpc_testing_test_unary_call(channel, &request, NULL, NULL, &error);
    if (strcmp(error.message, message) != 0)
        printf("  \"%s\"\n", error.message);
    return is_ended(&error, code, LKS_APPLIED_MAYBE) && strcmp(error.message, message) == 0;
}

static bool status_code_and_message(void)
{
    return has_status(LKS_UNKNOWN, "test status message");
}

static bool special_status_message(void)
{
    return has_status(LKS_UNKNOWN, "\t\ntest with whitespace\r\nand Unicode BMP \xE2\x98\xBA and non-BMP "
                                   "\xF0\x9F\x98\x88\t\n");
}

static bool unimplemented_method(void)
{
    const grpc_testing_empty request = GRPC_TESTING_EMPTY_INIT;
    lks_error error;

    grpc_testing_test_unimplemented_call(channel, &request, NULL, NULL, &error);
    return is_ended(&error, LKS_UNIMPLEMENTED, LKS_APPLIED_MAYBE);
}

static bool unimplemented_service(void)
{
    const grpc_testing_empty request = GRPC_TESTING_EMPTY_INIT;
    lks_error error;

    grpc_testing_unimplemented_unimplemented_call(channel, &request, NULL, NULL, &error);
    return is_ended(&error, LKS_UNIMPLEMENTED, LKS_APPLIED_MAYBE);
}

static const lks_metadata hold = {"x-hold", "1", 1};

static bool timeout_on_sleeping_server(void)
{
    const lks_call_options options = {.timeout_ms = BRIEF_MS, .metadata = &hold, .n_metadata = 1};
    const grpc_testing_empty request = GRPC_TESTING_EMPTY_INIT;
    lks_error error;

    grpc_testing_test_empty_call(channel, &request, &options, NULL, &error);
    return is_ended(&error, LKS_DEADLINE_EXCEEDED, LKS_APPLIED_MAYBE);
}

static bool cancel_after_begin(void)
{
    const lks_call_options options = {.metadata = &hold, .n_metadata = 1};
    const grpc_testing_empty request = GRPC_TESTING_EMPTY_INIT;
    lks_call *call = NULL;
    lks_error error;

    if (grpc_testing_test_empty_call_start(channel, &request, &options, NULL, NULL, &call, &error) != LKS_OK)
        return false;
    lks_call_cancel(call);
    lks_code code = lks_call_wait(call, &error);
    lks_call_free(call);
    return code == LKS_CANCELLED;
}

#define CASE(name)  \
    {               \
#name, name \
    }

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        bool (*run)(void);
    } cases[] = {CASE(empty_unary),
                 CASE(large_unary),
                 CASE(cacheable_unary),
                 CASE(custom_metadata),
                 CASE(status_code_and_message),
                 CASE(special_status_message),
                 CASE(unimplemented_method),
                 CASE(unimplemented_service),
                 CASE(timeout_on_sleeping_server),
                 CASE(cancel_after_begin)};
    const lks_channel_options options = {
        .timeout_ms = TIMEOUT_MS, .ca_file = argc > 2 ? argv[2] : NULL, .server_name = argc > 2 ? "localhost" : NULL};
    lks_error error;
    int failed = 0;

    if (argc < 2 || lks_channel_open(argv[1], &options, &channel, &error) != LKS_OK)
        return 2;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool passed = cases[i].run();
        printf("%s: %s\n", cases[i].name, passed ? "passed" : "FAILED");
        failed |= !passed;
    }
    lks_channel_close(channel);
    return failed;
}
