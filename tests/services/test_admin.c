/* GetStatus: the state of a server and of its store. */
/* promise CL6: `doctor` reports what is wrong with a server, its store, durability, clocks and latency, what to do
 * about each, and a severity as its exit code; GetStatus answers without asking the store; log, GetStatus, `status`,
 * `doctor` and systemd report within two seconds, and once, a store that does not answer, is out of memory or cannot
 * write, and certificates that end within 14 days; servers of one store report differences; each primary's replicas
 * and their lag are shown */
#include "conditions.h"
#include "lockstock/v1/admin.lks.h"
#include "support/service_harness.h"
#include "test.h"

static harness *h;

static store_view told;

static void look(const store *of, store_view *ret)
{
    *ret = told;
}

static store_primary primaries[2];
static size_t n_primaries;

static bool look_primary(const store *of, size_t i, store_primary *ret)
{
    if (i < n_primaries)
        *ret = primaries[i];
    return i < n_primaries;
}

static conditions known;

static int with_a_view(void **state)
{
    harness_service_options(
        h, &(service_options){.sequence_block = 1, .look = look, .look_primary = look_primary, .conditions = &known});
    conditions_init(&known);
    conditions_set(&known, CONDITION_STORE, false, LKS_REASON_NONE, NULL);
    n_primaries = 0;
    told = (store_view){.ready = true,
                        .version = "7.0.15",
                        .known = true,
                        .appends = true,
                        .fsync = "always",
                        .round_trip_us = 70,
                        .at_ms = INT64_C(1704067200001)};
    harness_reset(h);
    return 0;
}

static int open_harness(void **state)
{
    h = harness_new();
    return h ? 0 : -1;
}

static int close_harness(void **state)
{
    harness_free(h);
    return 0;
}

static const lks_get_status_response *get_status(void)
{
    const lks_get_status_request request = LKS_GET_STATUS_REQUEST_INIT;
    lks_error error;
    const lks_get_status_response *response = harness_call(h, "Admin.GetStatus", &request, &error);

    assert_non_null(response);
    assert_non_null(response->store);
    return response;
}

TEST(the_store_is_not_asked)
{
    long before = harness_commands(h, "fcall");
    const lks_get_status_response *response = get_status();

    assert_int_equal(harness_commands(h, "fcall"), before);
    assert_int_equal(response->store->at_ms, INT64_C(1704067200001));
    assert_int_equal(response->store->round_trip_us, 70);
    assert_in_range(response->at_ms, INT64_C(1704067200000), INT64_C(9007199254740991));
    assert_true(response->store->ready);
    assert_string_equal(response->store->version, "7.0.15");
    assert_int_equal(response->store->kind, LKS_STORE_KIND_REDIS);
    assert_int_equal(response->n_conditions, 0);
    assert_null(response->lock_store);
    assert_string_equal(response->store->reason, "");
    assert_string_equal(response->store->reason_word, "");
}

TEST(what_is_wrong_is_reported_until_it_ends)
{
    assert_true(conditions_set(&known, CONDITION_STORE, true, LKS_REASON_STORE_SILENT, "the store does not answer"));
    assert_false(conditions_set(&known, CONDITION_STORE, true, LKS_REASON_STORE_SILENT, "the store does not answer"));
    assert_true(conditions_set(&known, CONDITION_CERTIFICATE, false, LKS_REASON_NONE, "it ends soon"));
    assert_false(conditions_ready(&known, NULL));
    const lks_get_status_response *response = get_status();
    assert_int_equal(response->n_conditions, 2);
    assert_string_equal(response->conditions[0]->about, "store");
    assert_string_equal(response->conditions[0]->text, "the store does not answer");
    assert_true(response->conditions[0]->blocks);
    assert_in_range(response->conditions[0]->since_ms, INT64_C(1704067200000), INT64_C(9007199254740991));
    assert_string_equal(response->conditions[1]->about, "certificate");
    assert_false(response->conditions[1]->blocks);
    conditions_set(&known, CONDITION_STORE, false, LKS_REASON_NONE, NULL);
    assert_true(conditions_ready(&known, NULL));
    response = get_status();
    assert_int_equal(response->n_conditions, 1);
    assert_string_equal(response->conditions[0]->text, "it ends soon");
}

TEST(status_has_the_reason_of_a_store_that_is_not_ready)
{
    told.ready = false;
    told.embedded = true;
    told.fault = (store_fault){LKS_REASON_STORE_UNREACHABLE, "connecting"};
    const lks_get_status_response *response = get_status();
    assert_false(response->store->ready);
    assert_string_equal(response->store->reason, "connecting");
    assert_string_equal(response->store->reason_word, "store_unreachable");
    assert_int_equal(response->store->at_ms, 0);
    assert_int_equal(response->store->round_trip_us, 0);
    assert_int_equal(response->store->kind, LKS_STORE_KIND_EMBEDDED);
}

TEST(status_has_the_store_settings_as_enums)
{
    assert_int_equal(get_status()->store->persistence, LKS_PERSISTENCE_APPEND_ONLY);
    assert_int_equal(get_status()->store->fsync, LKS_FSYNC_ALWAYS);
    told.fsync = "everysec";
    assert_int_equal(get_status()->store->fsync, LKS_FSYNC_EVERYSEC);
    told.fsync = "no";
    assert_int_equal(get_status()->store->fsync, LKS_FSYNC_NO);
    told.fsync = "";
    told.appends = false;
    assert_int_equal(get_status()->store->persistence, LKS_PERSISTENCE_NONE);
    assert_int_equal(get_status()->store->fsync, LKS_FSYNC_UNSPECIFIED);
    told.snapshots = told.evicts = told.cluster = true;
    assert_int_equal(get_status()->store->persistence, LKS_PERSISTENCE_SNAPSHOTS);
    assert_true(get_status()->store->evicts);
    assert_true(get_status()->store->cluster);
    told.fails_over = true;
    told.wait_replicas = 2;
    assert_true(get_status()->store->fails_over);
    assert_int_equal(get_status()->store->wait_replicas, 2);
    told.sentinels = 3;
    told.sentinels_answering = 2;
    assert_int_equal(get_status()->store->sentinels, 3);
    assert_int_equal(get_status()->store->sentinels_answering, 2);
    told.known = false;
    assert_int_equal(get_status()->store->persistence, LKS_PERSISTENCE_UNSPECIFIED);
}

TEST(status_has_each_primary_and_its_replicas)
{
    const store_replica replicas[] = {{"b:2", 70, 3}, {"c:3", 0, -1}};

    primaries[0] = (store_primary){.address = "a:1",
                                   .tells_replicas = true,
                                   .n_replicas = 2,
                                   .replicas = replicas,
                                   .min_replicas = 1,
                                   .min_replicas_max_lag_s = 10};
    primaries[1] = (store_primary){.address = "d:4", .min_replicas = -1, .min_replicas_max_lag_s = -1};
    n_primaries = 2;
    const lks_store_status *status = get_status()->store;
    assert_int_equal(status->n_primaries, 2);
    const lks_primary_status *a = status->primaries[0], *d = status->primaries[1];
    assert_string_equal(a->address, "a:1");
    assert_true(a->tells_replicas);
    assert_int_equal(a->min_replicas_to_write, 1);
    assert_int_equal(a->min_replicas_max_lag_ms, 10000);
    assert_int_equal(a->n_replicas, 2);
    assert_string_equal(a->replicas[0]->address, "b:2");
    assert_int_equal(a->replicas[0]->behind_bytes, 70);
    assert_int_equal(a->replicas[0]->silent_ms, 3000);
    assert_int_equal(a->replicas[1]->silent_ms, -1);
    assert_false(d->tells_replicas);
    assert_int_equal(d->n_replicas, 0);
    assert_int_equal(d->min_replicas_to_write, -1);
    assert_int_equal(d->min_replicas_max_lag_ms, -1);
}

TEST_MAIN(.setup_all = open_harness, .setup = with_a_view, .teardown_all = close_harness)
