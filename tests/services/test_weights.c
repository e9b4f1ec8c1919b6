/* How many calls of each method an FCALL may carry: none holds Redis for long, however large
 * what is asked. What a unit of weight takes is measured by bench/fcall_time.py. */

#include "lockstock/v1/id.lks.h"
#include "lockstock/v1/idempotency.lks.h"
#include "lockstock/v1/lock.lks.h"
#include "lockstock/v1/ratelimit.lks.h"
#include "lockstock/v1/stock.lks.h"
#include "services/script.h"

enum { MANY = 64 };

#define TOKEN "token-of-a-holder"

static char names[MANY][16];
static const char *name_list[MANY];

/* Sub-calls that one FCALL carries of the first call that the request plans. */
static unsigned carried(const void *given)
{
    const service_options options = {.sequence_block = 1};
    const service *s;
    const service_method *m = method_for(given, &s);
    lks_rpc_arena *arena = lks_rpc_arena_new();
    const size_t len = protobuf_c_message_get_packed_size(given);
    uint8_t *bytes = lks_rpc_arena_alloc(arena, len + 1);
    plan p = {.arena = arena,
              .method = m->method,
              .ns = lks_rpc_slice_of("default"),
              .server = "server",
              .state = s->open ? s->open(&options) : NULL};

    protobuf_c_message_pack(given, bytes);
    ProtobufCMessage *request = protobuf_c_message_unpack(m->method->request, NULL, len, bytes);
    m->prepare(request, &p);
    if (plan_failed(&p) || p.n_calls == 0)
        fail_msg("%s: %s", m->method->path, p.error.message);
    assert_in_range(p.calls[0].weight, 1, STORE_WEIGHT_MAX);
    const unsigned n = STORE_WEIGHT_MAX / p.calls[0].weight;
    if (s->close)
        s->close(p.state);
    protobuf_c_message_free_unpacked(request, NULL);
    lks_rpc_arena_free(arena);
    return n;
}

#define carries(n, method, ...) assert_int_equal(carried(&message(method##_request, __VA_ARGS__)), n)

/* A list of n messages, each with these members; `i` is its place. */
#define list_of(type, n, ...)                  \
    static lks_##type items[MANY];             \
    static lks_##type *list[MANY];             \
    for (size_t i = 0; i < (n); i++) {         \
        items[i] = message(type, __VA_ARGS__); \
        list[i] = &items[i];                   \
    }

TEST(weights_of_lock_calls)
{
    list_of(target, 16, .name = names[i]);
    carries(32, acquire, .group = "g", .targets = list, .n_targets = 1, .token = TOKEN, .lease_ms = 1000);
    carries(6, acquire, .group = "g", .targets = list, .n_targets = 16, .token = TOKEN, .lease_ms = 1000);
    static const size_t n[] = {1, 16, 0};
    static const unsigned expected[] = {64, 32, 32};
    for (size_t i = 0; i < 3; i++) {
        lks_lease lease =
            message(lease, .group = "g", .names = name_list, .n_names = n[i], .token = TOKEN, .lease_ms = 1000);
        lks_lease *leases[] = {&lease};
        carries(expected[i], renew, .leases = leases, .n_leases = 1);
        carries(expected[i], release, .group = "g", .names = name_list, .n_names = n[i], .token = TOKEN);
    }
    carries(1, inspect, .name = "name");
    carries(1, force_release, .name = "name");
    carries(1, list, );
    carries(64, check_fence, .resource = "name", .fence = 1);
}

/* The order may have 64 lines. */
TEST(weights_of_order_calls)
{
    list_of(line, MANY, .sku = names[i], .quantity = 1);
    carries(64, deduct, .group = "g", .order_id = "o", .lines = list, .n_lines = 1);
    carries(7, deduct, .group = "g", .order_id = "o", .lines = list, .n_lines = MANY);
    carries(64, reserve, .group = "g", .order_id = "o", .lines = list, .n_lines = 1, .hold_ms = 1000);
    carries(7, reserve, .group = "g", .order_id = "o", .lines = list, .n_lines = MANY, .hold_ms = 1000);
    carries(10, confirm, .group = "g", .order_id = "o");
    carries(10, cancel, .group = "g", .order_id = "o");
    carries(10, return, .group = "g", .order_id = "o", .return_id = "r");
    carries(64, get_order, .group = "g", .order_id = "o");
}

TEST(weights_of_item_and_ledger_calls)
{
    carries(64, get_item, .sku = "name");
    carries(12, batch_get_items, .group = "g", .skus = name_list, .n_skus = MANY);
    carries(64, batch_get_items, .skus = name_list, .n_skus = MANY);
    carries(64, list_items, .group = "g", .page_size = 10);
    carries(9, list_items, .group = "g");
    carries(4, list_items, .group = "g", .page_size = 1000);
    carries(1, list_items, .page_size = 1000);
    carries(64, read_ledger, .group = "g", .limit = 1);
    carries(21, read_ledger, .group = "g");
    carries(3, read_ledger, .group = "g", .limit = 1000);
    carries(3, read_ledger, .group = "g", .limit = 1000, .wait_ms = 1000);
    carries(1, trim_ledger, .group = "g", .up_to = "1-0");
}

TEST(weights_of_limit_calls)
{
    lks_limit limit = message(limit, .algorithm = LKS_ALGORITHM_FIXED_WINDOW, .limit = 5, .period_ms = 1000);
    list_of(rule, 8, .key = names[i], .spec_case = LKS_RULE_SPEC_LIMIT, .limit = &limit);

    carries(64, check, .group = "g", .rules = list, .n_rules = 1);
    carries(8, check, .group = "g", .rules = list, .n_rules = 8);
    carries(8, refund, .group = "g", .request_id = "name");
    carries(8, reset, .group = "g", .key = "name");
    carries(1, list_policies, .page_size = 1000);
}

TEST(weights_of_result_and_id_calls)
{
    carries(16, begin, .scope = "s", .key = "name", .attempt_token = TOKEN, .lease_ms = 1000);
    carries(16, get, .scope = "s", .key = "name");
    carries(2, next, .kind = LKS_ID_KIND_SNOWFLAKE);
}

int main(void)
{
    for (int i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "n%02d", i);
        name_list[i] = names[i];
    }
    return TEST_RUN();
}
