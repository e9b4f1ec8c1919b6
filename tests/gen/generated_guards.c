/* The guards of golden/guard/v1/guard.proto, as the skeleton's bindings hold them; and
 * that guards which say something wrong are refused. Cases of test_generated. */
#include "guard/v1/guard.lks_server.h"
#include "shop/v1/shop.lks.h"
#include "test.h"

static const lks_rpc_binding *binding_of(const lks_rpc_method *method)
{
    static const guard_v1_guard_handlers none;
    lks_rpc_service service = guard_v1_guard_service(&none, NULL);
    for (size_t i = 0; i < service.n_bindings; i++)
        if (service.bindings[i].method == method)
            return &service.bindings[i];
    fail();
    return NULL;
}

static const lks_rpc_guard *guard_of(const lks_rpc_method *method)
{
    return binding_of(method)->guard;
}

static void assert_paths(const char *const *paths, const char *expected)
{
    char all[256] = "";
    for (; *paths; paths++) {
        size_t len = strlen(all);
        snprintf(all + len, sizeof all - len, "%s ", *paths);
    }
    assert_string_equal(all, expected);
}

/* promise GN1 */
TEST(a_binding_holds_all_that_its_guard_says)
{
    const lks_rpc_guard *guard = guard_of(&guard_v1_guard_buy_method);
    const lks_rpc_guard_limit *limit = guard->rate_limit;
    const lks_rpc_guard_idempotency *idempotency = guard->idempotency;
    const lks_rpc_guard_lock *lock = guard->lock;

    assert_paths(limit->key, "order.buyer_id ");
    assert_string_equal(limit->group, "buyers");
    assert_string_equal(limit->policy, "");
    assert_int_equal(limit->limit, 5);
    assert_int_equal(limit->period_ms, 1000);
    assert_string_equal(limit->name, "calls");
    assert_int_equal(limit->algorithm, LOCKSTOCK__RPC__V1__LIMIT_ALGORITHM__LIMIT_ALGORITHM_TOKEN_BUCKET);
    assert_int_equal(limit->burst, 9);
    assert_true(limit->fail_open);
    assert_int_equal(limit->denied, GUARD_V1_OUTCOME_LIMITED);

    assert_string_equal(idempotency->scope, "buy");
    assert_paths(idempotency->key, "order.id ");
    assert_string_equal(idempotency->group, "orders");
    assert_int_equal(idempotency->lease_ms, 10);
    assert_int_equal(idempotency->retain_ms, 1000);
    assert_int_equal(idempotency->wait_ms, 86400000);
    assert_true(idempotency->key_alone);
    assert_int_equal(idempotency->in_progress, GUARD_V1_OUTCOME_RUNS);
    assert_int_equal(idempotency->mismatch, GUARD_V1_OUTCOME_OTHER);

    assert_string_equal(lock->prefix, "goods");
    assert_paths(lock->keys, "order.lines.sku ");
    assert_string_equal(lock->group, "stock");
    assert_int_equal(lock->wait_ms, 2000);
    assert_int_equal(lock->lease_ms, 86400000);
    assert_int_equal(lock->busy, GUARD_V1_OUTCOME_BUSY);

    assert_string_equal(guard->outcome, "outcome");
    assert_string_equal(guard->retry_after, "retry_after_ms");
}

TEST(a_method_without_a_guard_has_none)
{
    assert_null(guard_of(&guard_v1_guard_plain_method));
}

TEST(unset_part_is_absent)
{
    const lks_rpc_guard *guard = guard_of(&guard_v1_guard_alone_method);

    assert_null(guard->rate_limit);
    assert_null(guard->idempotency);
    assert_paths(guard->lock->keys, "order.id ");
    assert_string_equal(guard->lock->group, "");
    assert_int_equal(guard->lock->busy, 0);
    assert_string_equal(guard->outcome, "");
    assert_string_equal(guard->retry_after, "");
    assert_null(guard_of(&guard_v1_guard_text_method)->lock);
}

/* promise GN1 */
TEST(options_that_are_set_apart_are_one_guard)
{
    const lks_rpc_guard *guard = guard_of(&guard_v1_guard_apart_method);

    assert_paths(guard->rate_limit->key, "text ");
    assert_int_equal(guard->rate_limit->limit, 1000000000000);
    assert_int_equal(guard->rate_limit->period_ms, 31622400000);
    assert_int_equal(guard->rate_limit->denied, GUARD_V1_OUTCOME_LIMITED);
    assert_null(guard->idempotency);
    assert_paths(guard->lock->keys, "text blob ");
    assert_string_equal(guard->lock->group, "apart");
    assert_int_equal(guard->lock->wait_ms, 3);
    assert_int_equal(guard->lock->lease_ms, 40);
    assert_string_equal(guard->outcome, "outcome");
}

/* promise GN1: a binding contains exactly what its guard says, however the options are written */
TEST(a_string_is_as_it_was_written)
{
    assert_string_equal(guard_of(&guard_v1_guard_text_method)->idempotency->scope, "a \x22"
                                                                                   "b\x22 \x5c \x0a \x3f\x3f\x2f \x01"
                                                                                   "1 \xc3\xbc");
}

/* By the names that descriptors know at run time. */
static void assert_leads_somewhere(const ProtobufCMessageDescriptor *type, const char *path)
{
    char name[64];
    size_t len = strcspn(path, ".");
    snprintf(name, sizeof name, "%.*s", (int)len, path);
    const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field_by_name(type, name);
    assert_non_null(field);
    if (path[len] != '\0')
        assert_leads_somewhere(field->descriptor, path + len + 1);
}

TEST(each_path_leads_through_the_request)
{
    const lks_rpc_method *method = &guard_v1_guard_paths_method;
    const lks_rpc_guard *guard = guard_of(method);
    const char *const *const all[] = {guard->rate_limit->key, guard->idempotency->key, guard->lock->keys};

    assert_paths(all[0], "text blob kind small big unsigned signed fixed ");
    assert_paths(all[1], "names numbers kinds quantities.key quantities.value ");
    assert_paths(all[2], "orders.lines.sku by_name.key by_name.value.lines.sku order.buyer_id ");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (const char *const *path = all[i]; *path; path++)
            assert_leads_somewhere(method->request, *path);
    assert_int_equal(guard->lock->busy, SHOP_V1_ORDER_STATE_PAID); /* an enum of another file */
    assert_int_equal(guard->lock->wait_ms, 86400000);
    assert_int_equal(guard->idempotency->retain_ms, 2592000000);
    assert_string_equal(guard->rate_limit->policy, "calls");
}

/* promise GN2: a part of a guard that only a later version knows is an error */
/* promise GN3: a guard that no server would accept, or that guards nothing, is an error at generation: empty guards,
 * missing keys, numbers and lengths out of range, several locks without a group */
/* promise GN4: a path that does not exist, leads through a oneof or to a type that cannot be a key, or is given twice
 * is an error */
/* promise GN9 */
/* promise GN5: an outcome that the response cannot hold, or that no field holds, is an error */
TEST(errors_are_reported_line_by_line)
{
    assert_int_equal(system(ERRORS_COMMAND), 0);
}
