/* Bad input to LockService: its code, the field's name, and nothing changed. */
#include "services/lock_script.h"

#include <stdio.h>

#define LONG_128                                                                                                       \
    "1234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012" \
    "3456789012345678"
#define TOKEN "0123456789abcdef"

static int locks_are_there(void **state)
{
    script_reset(state);
    says(acquire("T1", "held p:P1/5"), "ACQUIRED");
    says(release("T2", ""), "NOT_HELD");
    remember();
    return 0;
}

/* ---- Acquire ---- */

static lks_target target;
static lks_target *targets[17];
static lks_acquire_request take;

/* A good request, for a test to spoil. */
static void good_acquire(void)
{
    target = message(target, .name = "a");
    for (size_t i = 0; i < 17; i++)
        targets[i] = &target;
    take = message(acquire_request, .group = "g", .n_targets = 1, .targets = targets, .token = TOKEN,
                   .lease_ms = LEASE_MS);
}

TEST(texts_of_acquire)
{
    static const struct {
        const char *group, *name, *token, *owner, *field;
    } row[] = {
        {LONG_128 "x", "a", TOKEN, "", "group"},
        {"g", "", TOKEN, "", "targets[0].name"},
        {"g", LONG_128 "x", TOKEN, "", "targets[0].name"},
        {"g", "a", "0123456789abcde", "", "token"},
        {"g", "a", "x", "", "token"},
        {"g", "a", "01234567890123456789012345678901234567890123456789012345678901234", "", "token"},
        {"g", "a", "0123456789 abcdef", "", "token"},
        {"g", "a", "0123456789abcdef\n", "", "token"},
        {"g", "a", "\x7f" TOKEN, "", "token"},
        {"g", "a", TOKEN, LONG_128 "x", "owner"},
    };

    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        good_acquire();
        take.group = row[i].group;
        target.name = row[i].name;
        take.token = row[i].token;
        take.owner = row[i].owner;
        refuses(&take, row[i].field);
    }
}

TEST(the_longest_texts_are_taken)
{
    good_acquire();
    take.group = LONG_128;
    target.name = LONG_128;
    take.owner = LONG_128;
    take.token = "0123456789012345678901234567890123456789012345678901234567890123";
    says(call(&take), "OK");
    good_acquire();
    target.name = "x";
    take.lease_ms = 86400000;
    says(call(&take), "OK");
}

TEST(numbers_of_acquire)
{
    const int64_t huge = INT64_C(9007199254740992); /* 2^53 */
    const struct {
        lks_lock_mode mode;
        int64_t permits, capacity, lease_ms, wait_ms;
        const char *field;
    } row[] = {
        {LKS_LOCK_MODE_EXCLUSIVE, 0, 0, 0, 0, "lease_ms"},
        {LKS_LOCK_MODE_EXCLUSIVE, 0, 0, 9, 0, "lease_ms"},
        {LKS_LOCK_MODE_EXCLUSIVE, 0, 0, -1, 0, "lease_ms"},
        {LKS_LOCK_MODE_EXCLUSIVE, 0, 0, 86400001, 0, "lease_ms"},
        {LKS_LOCK_MODE_EXCLUSIVE, 0, 0, INT64_MAX, 0, "lease_ms"},
        {LKS_LOCK_MODE_EXCLUSIVE, 0, 0, LEASE_MS, -1, "wait_ms"},
        {LKS_LOCK_MODE_UNSPECIFIED, 1, 0, LEASE_MS, 0, "targets[0].permits"},
        {LKS_LOCK_MODE_EXCLUSIVE, 1, 0, LEASE_MS, 0, "targets[0].permits"},
        {LKS_LOCK_MODE_EXCLUSIVE, 0, 1, LEASE_MS, 0, "targets[0].capacity"},
        {LKS_LOCK_MODE_SHARED, -1, 0, LEASE_MS, 0, "targets[0].permits"},
        {LKS_LOCK_MODE_SHARED, 0, 5, LEASE_MS, 0, "targets[0].capacity"},
        {LKS_LOCK_MODE_PERMIT, 0, 0, LEASE_MS, 0, "targets[0].capacity"},
        {LKS_LOCK_MODE_PERMIT, 1, -5, LEASE_MS, 0, "targets[0].capacity"},
        {LKS_LOCK_MODE_PERMIT, 1, huge, LEASE_MS, 0, "targets[0].capacity"},
        {LKS_LOCK_MODE_PERMIT, 6, 5, LEASE_MS, 0, "targets[0].permits"},
        {LKS_LOCK_MODE_PERMIT, -1, 5, LEASE_MS, 0, "targets[0].permits"},
        {LKS_LOCK_MODE_PERMIT, INT64_MAX, 5, LEASE_MS, 0, "targets[0].permits"},
    };

    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        good_acquire();
        target.mode = row[i].mode;
        target.permits = row[i].permits;
        target.capacity = row[i].capacity;
        take.lease_ms = row[i].lease_ms;
        take.wait_ms = row[i].wait_ms;
        refuses(&take, row[i].field);
    }
}

TEST(targets_of_acquire)
{
    lks_target other = message(target, );

    good_acquire();
    take.n_targets = 0;
    refuses(&take, "targets");
    take.n_targets = 17;
    refuses(&take, "targets");
    take.n_targets = 2;
    refuses(&take, "targets[1].name"); /* the same name twice */
    other.name = "b";
    targets[1] = &other;
    take.group = "";
    refuses(&take, "group"); /* compulsory with two names */
    other.mode = LKS_LOCK_MODE_PERMIT;
    refuses(&take, "targets[1].capacity");
}

TEST(wait_ms_is_at_most_a_day)
{
    good_acquire();
    take.wait_ms = 86400000;
    says(call(&take), "OK");
    script_reset(state);
    take.wait_ms++;
    says_begin(call(&take), "INVALID_ARGUMENT NO wait_ms:");
    assert_string_equal(harness_snapshot(h), "");
}

/* ---- Renew, Release ---- */

static const char *names[65];

static void good_names(size_t n)
{
    static char text[65][24];

    for (size_t i = 0; i < n; i++) {
        snprintf(text[i], sizeof text[i], "n%zu", i);
        names[i] = text[i];
    }
}

static lks_lease lease;
static lks_lease good;
static lks_lease *leases[257];
static lks_renew_request keep;

static void good_renew(void)
{
    good_names(1);
    good = message(lease, .group = "g", .n_names = 1, .names = names, .token = TOKEN, .lease_ms = LEASE_MS);
    lease = good;
    for (size_t i = 0; i < 257; i++)
        leases[i] = &good;
    leases[1] = &lease;
    keep = message(renew_request, .n_leases = 2, .leases = leases);
}

TEST(renew_names_the_lease_and_its_field)
{
    good_renew();
    says(call(&keep), "OK");
    keep.n_leases = 256;
    says(call(&keep), "OK");
    keep.n_leases = 0;
    refuses(&keep, "leases");
    keep.n_leases = 257;
    refuses(&keep, "leases");
    good_renew();
    lease.group = LONG_128 "x";
    refuses(&keep, "leases[1].group");
    good_renew();
    lease.group = "";
    lease.n_names = 0;
    refuses(&keep, "leases[1].group");
    good_renew();
    good_names(2);
    lease.group = "";
    lease.n_names = 2;
    refuses(&keep, "leases[1].group");
    good_renew();
    lease.token = "";
    refuses(&keep, "leases[1].token");
    lease.token = "short";
    refuses(&keep, "leases[1].token");
    good_renew();
    lease.lease_ms = 0;
    refuses(&keep, "leases[1].lease_ms");
    lease.lease_ms = 86400001;
    refuses(&keep, "leases[1].lease_ms");
    good_renew();
    good_names(17);
    lease.n_names = 17;
    refuses(&keep, "leases[1].names");
    lease.n_names = 2;
    names[1] = "n0";
    refuses(&keep, "leases[1].names[1]");
    names[1] = "";
    refuses(&keep, "leases[1].names[1]");
}

TEST(release_names_its_field)
{
    lks_release_request give = message(release_request, );

    good_names(17);
    give.token = TOKEN;
    give.names = names;
    refuses(&give, "group");
    give.n_names = 2;
    refuses(&give, "group");
    give.group = LONG_128 "x";
    refuses(&give, "group");
    give.group = "g";
    give.n_names = 17;
    refuses(&give, "names");
    give.n_names = 2;
    names[0] = names[1];
    refuses(&give, "names[1]");
    names[0] = LONG_128 "x";
    refuses(&give, "names[0]");
    give.n_names = 0;
    give.token = "";
    refuses(&give, "token");
    give.token = "0123456789abcde\t";
    refuses(&give, "token");
}

/* ---- the others ---- */

TEST(names_of_inspect_and_force_release)
{
    lks_inspect_request look = message(inspect_request, );
    lks_force_release_request force = message(force_release_request, );

    refuses(&look, "name");
    refuses(&force, "name");
    look.name = LONG_128 "x";
    force.name = LONG_128 "x";
    refuses(&look, "name");
    refuses(&force, "name");
    look.group = LONG_128 "x";
    force.group = LONG_128 "x";
    refuses(&look, "group");
    refuses(&force, "group");
}

TEST(pages_of_list)
{
    static const char *const tokens[] = {
        "x",
        "-1",
        "1 ",
        "0.",
        "0.123",
        "0.12345678901g",
        "0.123456789012x",
        "18446744073709551616",
        "99999999999999999999999",
        "0\x01",
        ".123456789012",
        "0*",
    };
    lks_list_request list = message(list_request, );

    list.page_size = -1;
    refuses(&list, "page_size");
    list.page_size = 1001;
    refuses(&list, "page_size");
    list.page_size = 0;
    list.prefix = LONG_128 "x";
    refuses(&list, "prefix");
    list.prefix = "";
    for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++) {
        list.page_token = tokens[i];
        refuses(&list, "page_token");
    }
    char long_token[2000] = "0";
    for (size_t i = 1; i + 13 < sizeof long_token; i += 13)
        memcpy(long_token + i, ".123456789012", 14);
    list.page_token = long_token;
    refuses(&list, "page_token");
    list.page_token = "18446744073709551615.0123456789ab";
    says(call(&list), "OK");
}

TEST(fences_of_check_fence)
{
    lks_check_fence_request check = message(check_fence_request, );

    check.fence = 1;
    refuses(&check, "resource");
    check.resource = LONG_128 "x";
    refuses(&check, "resource");
    check.resource = "r";
    check.fence = 0;
    refuses(&check, "fence");
    check.fence = UINT64_C(9007199254740992);
    refuses(&check, "fence");
    check.fence = UINT64_MAX;
    refuses(&check, "fence");
}

TEST(bytes_that_are_no_request)
{
    static const struct {
        const char *bytes;
        size_t len;
        const char *field;
    } row[] = {
        {"\x0a\x02g\xff", 4, "group"}, /* not UTF-8 */
        {"\x0a\x02g\x00", 4, "group"}, /* a NUL */
        {"\x12\x04\x0a\x02\xc0\x80", 6, "targets[0].name"},
        {"\x12\x05\x0a\x01x\x10\x09", 7, "targets[0].mode"}, /* an unknown mode */
        {"\x0a\x05g", 3, ""},                                /* cut short */
    };

    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++)
        refuses_bytes(&lock_service, "Acquire", row[i].bytes, row[i].len, row[i].field);
}

TEST_MAIN(.setup_all = script_open, .teardown_all = script_close, .setup = locks_are_there)
