/* The findings of doctor for answers of servers and stores. */
/* promise CL6 */
#include "cli/diagnosis.h"

#include "test.h"

static lks_store_status store;
static lks_get_status_response status;
static diagnosis_facts facts;
static diagnosis_finding *found;
static size_t n;

/* Nothing is wrong. */
static int well(void **state)
{
    store = (lks_store_status){
        .base = PROTOBUF_C_MESSAGE_INIT(&lockstock__v1__store_status__descriptor),
        .kind = LKS_STORE_KIND_EMBEDDED,
        .ready = true,
        .reason = "",
        .reason_word = "",
        .version = "7.0.15",
        .persistence = LKS_PERSISTENCE_APPEND_ONLY,
        .fsync = LKS_FSYNC_ALWAYS,
        .round_trip_us = 100,
        .at_ms = 1000000,
    };
    status = (lks_get_status_response){
        .base = PROTOBUF_C_MESSAGE_INIT(&lockstock__v1__get_status_response__descriptor),
        .version = "1.0",
        .commit = "",
        .up_ms = 90000,
        .at_ms = 1000000,
        .store = &store,
    };
    facts = (diagnosis_facts){
        .version = "1.0",
        .server = {.took_ns = 100000},
        .store = {.took_ns = 200000},
        .status = &status,
        .here_ms = 1000000,
        .within_ms = 1,
    };
    return 0;
}

static lks_error failed(lks_code code, const char *message)
{
    lks_error error = {.code = code};

    snprintf(error.message, sizeof error.message, "%s", message);
    return error;
}

/* The findings that are not ok: "problem store, note persistence". */
static const char *findings(void)
{
    static char text[2048];
    size_t at = 0;

    text[0] = '\0';
    free(found);
    found = diagnosis_of(&facts, &n);
    assert_non_null(found);
    assert_in_range(n, 1, 100);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(found[i].level == DIAGNOSIS_OK, !found[i].remedy);
        if (found[i].level != DIAGNOSIS_OK)
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%s %s", at ? ", " : "",
                                   diagnosis_word(found[i].level), found[i].about);
    }
    return text;
}

static const diagnosis_finding *find(const char *about, bool is_ok)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(found[i].about, about) == 0 && (found[i].level == DIAGNOSIS_OK) == is_ok)
            return &found[i];
    fail_msg("no finding about %s", about);
    return NULL;
}

#define expect(list) assert_string_equal(findings(), list)
#define has(text, part)                               \
    do {                                              \
        if (!strstr(text, part))                      \
            fail_msg("no \"%s\" in: %s", part, text); \
    } while (0)
#define text_has(about, part) has(find(about, false)->text, part)
#define ok_text_has(about, part) has(find(about, true)->text, part)
#define remedy_has(about, part) has(find(about, false)->remedy, part)

TEST(nothing_is_wrong)
{
    expect("");
    assert_int_equal(n, 5);
    ok_text_has("server", "lockstockd 1.0, up for 1m30s");
    ok_text_has("store", "lockstockd's own redis-server, Redis 7.0.15");
    ok_text_has("latency", "0.1 ms a call, 0.2 ms with the store");
}

TEST(without_an_answer_of_the_server_there_is_one_finding)
{
    static const struct {
        lks_error error;
        diagnosis_level level;
        const char *text, *remedy;
    } cases[] = {{{.code = LKS_UNAVAILABLE}, DIAGNOSIS_DOWN, "does not answer: \x1b[2J", "--print-config"},
                 {{.code = LKS_UNAVAILABLE, .reason = LKS_REASON_SHUTTING_DOWN}, DIAGNOSIS_DOWN, "", "runs again"},
                 {{.code = LKS_UNAUTHENTICATED}, DIAGNOSIS_PROBLEM, "credentials", "--token-file"},
                 {{.code = LKS_RESOURCE_EXHAUSTED}, DIAGNOSIS_PROBLEM, "no room for calls", "more servers"},
                 {{.code = LKS_INTERNAL}, DIAGNOSIS_PROBLEM, "(INTERNAL)", "log"}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        facts.server.error = cases[i].error;
        strcpy(facts.server.error.message, "\x1b[2J");
        expect("problem server");
        assert_int_equal(n, 1);
        assert_int_equal(found[0].level, cases[i].level);
        assert_null(strchr(found[0].text, '\x1b')); /* a terminal must not see it */
        has(found[0].text, i > 0 ? cases[i].text : "does not answer: ?[2J");
        remedy_has("server", cases[i].remedy);
    }
}

TEST(another_version_is_a_note)
{
    facts.version = "2.0";
    expect("note server");
    text_has("server", "lockstockd 1.0, up for 1m30s; this lockstock is 2.0");
}

TEST(missing_permissions_are_a_note)
{
    facts.status = NULL;
    facts.status_error = failed(LKS_PERMISSION_DENIED, "no");
    expect("note rights");
    remedy_has("rights", "ADMIN of AdminService");
    facts.status_error = failed(LKS_UNIMPLEMENTED, "no");
    expect("note rights");
    remedy_has("rights", "upgrade");
    facts.server.error = facts.store.error = failed(LKS_PERMISSION_DENIED, "no");
    expect("note rights");
}

static void expect_remedies(const char *text)
{
    static const char *const rows[][2] = {
        {"store_login_refused", "requirepass"},
        {"store_no_database", "databases"},
        {"store_permission_denied", "ACL"},
        {"store_too_few_replicas", "replicas"},
        {"store_is_replica", "primary"},
        {"store_failing_over", "sentinels"},
        {"store_loading", "wait"},
        {"store_disk_failed", "disk"},
        {"store_unsafe", "appendonly yes"},
        {"store_out_of_memory", "maxmemory"},
        {"store_silent", "stopped"},
        {"store_busy", "SCRIPT KILL"},
        {"store_slot_moving", "--cluster fix"},
        {"store_cluster_down", "--cluster check"},
        {"store_misfit", "kind of store"},
        {"too_many_calls", "more servers"},
        {"shutting_down", "runs again"},
        {"store_unreachable", "PING"},
        {"internal", "PING"},
        {"of_a_later_version", "PING"},
        {"", "PING"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        store.reason_word = rows[i][0];
        facts.store.error.reason = facts.status_error.reason = lks_reason_of(rows[i][0]);
        has(findings(), "problem store");
        text_has("store", text);
        remedy_has("store", rows[i][1]);
    }
}

/* The reason word alone decides the remedy; doctor does not read the text. */
/* promise W19 */
TEST(a_store_that_is_not_ready_has_a_remedy_for_its_reason)
{
    store.ready = false;
    store.reason = "la tienda no contesta";
    expect_remedies("is not ready: la tienda no contesta");
    assert_int_equal(found[1].level, DIAGNOSIS_DOWN);
    store.evicts = true;
    store.reason_word = "store_unsafe";
    findings();
    remedy_has("store", "noeviction");
}

TEST(a_store_that_does_not_answer_has_a_remedy_for_its_reason)
{
    facts.status = NULL;
    facts.store.error = failed(LKS_UNAVAILABLE, "nein");
    expect_remedies("does not answer: nein");
    assert_int_equal(found[1].level, DIAGNOSIS_DOWN);
    facts.store.error = failed(LKS_RESOURCE_EXHAUSTED, "nein");
    expect_remedies("has no room: nein");
    facts.store.error = failed(LKS_INTERNAL, "nein");
    expect_remedies("fails: nein (INTERNAL)");
    facts.store.error.code = LKS_OK;
    facts.status_error = failed(LKS_UNAVAILABLE, "nein");
    expect_remedies("did not answer a moment ago: nein"); /* a failover between the two calls */
    assert_int_equal(found[1].level, DIAGNOSIS_DOWN);
}

TEST(a_store_that_is_partly_ready_is_a_problem)
{
    store.cluster = true;
    expect("");
    ok_text_has("store", "Redis 7.0.15, a cluster");
    store.reason = "127.0.0.1:7000: the store is loading its data";
    expect("problem store");
    text_has("store", "part of it is not ready: 127.0.0.1:7000: the store is loading its data");
    assert_int_equal(found[1].level, DIAGNOSIS_PROBLEM);
    store.cluster = false;
    store.reason = "the store is out of memory";
    store.reason_word = "store_out_of_memory";
    expect("problem store");
    text_has("store", "refuses some calls: the store is out of memory");
}

TEST(a_store_that_cannot_write_to_disk_is_a_problem_of_persistence)
{
    store.ready = false;
    store.reason = "the store cannot write its data to disk";
    store.reason_word = "store_disk_failed";
    expect("problem store, problem persistence");
}

TEST(conditions_of_the_server_are_reported_except_for_the_store)
{
    lks_condition ends = {.about = "certificate", .text = "the certificate ends soon"},
                  over = {.about = "certificate", .text = "the certificate is over", .blocks = true},
                  of_store = {.about = "store", .text = "the store is away", .blocks = true},
                  *all[] = {&ends, &over, &of_store};

    status.conditions = all;
    status.n_conditions = 3;
    expect("warning certificate, problem certificate");
    text_has("certificate", "the certificate ends soon");
    remedy_has("certificate", "--tls-certificate");
}

TEST(a_lock_store_is_ok_when_it_is_ready)
{
    lks_lock_store_status locks = {.base = PROTOBUF_C_MESSAGE_INIT(&lockstock__v1__lock_store_status__descriptor)};

    status.lock_store = &locks;
    expect("");
    assert_int_equal(n, 5); /* why it is not is a condition */
    locks.ready = true;
    expect("");
    assert_int_equal(n, 6);
    ok_text_has("lock-store", "ready");
}

TEST(a_store_that_is_away_has_no_ok)
{
    store.at_ms = 0;
    expect("");
    ok_text_has("clock", "the clocks of this machine and the server agree");
    store.ready = false;
    store.reason = "the store cannot be reached: Connection refused";
    expect("problem store");
    for (size_t i = 0; i < n; i++)
        assert_string_not_equal(found[i].about, "persistence");
    store.fsync = LKS_FSYNC_EVERYSEC;
    expect("problem store, note persistence");
}

TEST(persistence_finding_says_what_a_crash_loses)
{
    static const struct {
        lks_persistence persistence;
        lks_fsync fsync;
        const char *expected, *text;
    } cases[] = {{LKS_PERSISTENCE_APPEND_ONLY, LKS_FSYNC_EVERYSEC, "note persistence", "two seconds"},
                 {LKS_PERSISTENCE_APPEND_ONLY, LKS_FSYNC_NO, "warning persistence", "half a minute"},
                 {LKS_PERSISTENCE_SNAPSHOTS, LKS_FSYNC_NO, "warning persistence", "snapshots only"},
                 {LKS_PERSISTENCE_NONE, LKS_FSYNC_NO, "problem persistence", "nothing on disk"},
                 {LKS_PERSISTENCE_UNSPECIFIED, LKS_FSYNC_NO, "note persistence", "CONFIG GET"}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        store.persistence = cases[i].persistence;
        store.fsync = cases[i].fsync;
        expect(cases[i].expected);
        text_has("persistence", cases[i].text);
    }
    store.persistence = LKS_PERSISTENCE_APPEND_ONLY;
    store.fsync = LKS_FSYNC_EVERYSEC;
    findings();
    remedy_has("persistence", "--fsync always");
    store.kind = LKS_STORE_KIND_REDIS;
    findings();
    remedy_has("persistence", "appendfsync always");
    store.fsync = LKS_FSYNC_ALWAYS;
    store.evicts = true;
    expect("problem memory");
}

TEST(missing_sentinels_are_reported)
{
    store.sentinels = store.sentinels_answering = 3;
    expect("");
    ok_text_has("sentinels", "all 3 answer");
    store.sentinels_answering = 2;
    expect("warning sentinels");
    text_has("sentinels", "2 of 3 answer");
    remedy_has("sentinels", "event=sentinel-lost");
    store.sentinels_answering = 0;
    expect("problem sentinels");
}

/* A primary with two replicas that keep up, of a store that fails over. */
static lks_primary_status *with_replicas(void)
{
    static lks_replica_status replica[2], *replicas[] = {&replica[0], &replica[1]};
    static lks_primary_status primary, *primaries[] = {&primary};

    replica[0] = (lks_replica_status){.address = "b:2", .silent_ms = 1000};
    replica[1] = (lks_replica_status){.address = "c:3", .behind_bytes = 70, .silent_ms = 0};
    primary = (lks_primary_status){.address = "a:1",
                                   .tells_replicas = true,
                                   .n_replicas = 2,
                                   .replicas = replicas,
                                   .min_replicas_max_lag_ms = 10000};
    store.fails_over = true;
    store.wait_replicas = 1;
    store.n_primaries = 1;
    store.primaries = primaries;
    return &primary;
}

TEST(the_replicas_of_each_primary_are_shown)
{
    lks_primary_status *p = with_replicas();

    expect("");
    ok_text_has("replicas", "a:1: min-replicas-to-write 0; b:2 0 bytes behind, last heard of 1s ago; "
                            "c:3 70 bytes behind, last heard of 0s ago");
    p->replicas[0]->silent_ms = p->replicas[1]->silent_ms = -1;
    expect("");
    ok_text_has("replicas", "a:1: min-replicas-to-write 0; b:2 0 bytes behind; c:3 70 bytes behind");
    p->tells_replicas = false;
    expect("note replicas");
    remedy_has("replicas", "+info");
    store.fails_over = false;
    store.wait_replicas = 0;
    expect("");
}

TEST(too_few_replicas_are_a_problem)
{
    lks_primary_status *p = with_replicas();

    store.wait_replicas = 3;
    expect("problem replicas");
    text_has("replicas", "a:1 has 2 of the 3 replicas that --wait-replicas asks for");
    remedy_has("replicas", "start the missing replicas");
    store.wait_replicas = 1;
    p->min_replicas_to_write = 2;
    expect("");
    p->replicas[1]->silent_ms = 11000;
    has(findings(), "problem replicas");
    text_has("replicas", "a:1 has 1 of the 2 replicas that min-replicas-to-write asks for");
    p->min_replicas_max_lag_ms = 0;
    findings();
    assert_null(strstr(find("replicas", false)->text, "min-replicas-to-write"));
    p->n_replicas = 0;
    store.wait_replicas = 0;
    has(findings(), "warning replicas");
    text_has("replicas", "a:1 has no replica");
}

TEST(a_replica_that_lags_is_a_problem)
{
    lks_primary_status *p = with_replicas();

    p->replicas[1]->silent_ms = 5000;
    p->replicas[1]->behind_bytes = 16 << 20;
    expect("");
    p->replicas[1]->silent_ms = 6000;
    expect("problem replicas");
    text_has("replicas", "a:1: c:3 16777216 bytes behind, last heard of 6s ago");
    p->replicas[1]->silent_ms = 0;
    p->replicas[1]->behind_bytes = (16 << 20) + 1;
    expect("problem replicas");
    text_has("replicas", "a:1: c:3 16777217 bytes behind, last heard of 0s ago");
    ok_text_has("replicas", "a:1: min-replicas-to-write 0; b:2 0 bytes behind, last heard of 1s ago");
    assert_null(strstr(find("replicas", false)->remedy, "--wait-replicas")); /* the other one confirms */
    store.wait_replicas = 2;
    expect("problem replicas");
    remedy_has("replicas", "--wait-replicas cannot succeed");
}

TEST(replicas_that_do_not_fit_into_the_text_are_counted)
{
    enum { N = 32 };
    static lks_replica_status replica[N];
    static lks_replica_status *replicas[N];
    static char name[250];
    lks_primary_status *p = with_replicas();

    memset(name, 'r', sizeof name - 1);
    for (size_t i = 0; i < N; i++) {
        replica[i] = (lks_replica_status){.address = name};
        replicas[i] = &replica[i];
    }
    replica[0].silent_ms = 6000;
    p->n_replicas = N;
    p->replicas = replicas;
    store.wait_replicas = N - 1;
    has(findings(), "problem replicas");
    text_has("replicas", "a:1: rrr");
    assert_null(strstr(find("replicas", false)->remedy, "--wait-replicas"));
}

TEST(min_replicas_to_write_bounds_what_a_failover_loses)
{
    lks_primary_status *p = with_replicas();

    store.wait_replicas = 0;
    p->min_replicas_to_write = 1;
    expect("note failover");
    remedy_has("failover", "--wait-replicas");
    p->min_replicas_max_lag_ms = 0; /* then it refuses nothing */
    has(findings(), "warning failover");
    p->min_replicas_max_lag_ms = p->min_replicas_to_write = -1;
    has(findings(), "warning failover");
}

TEST(clocks_that_differ_are_reported)
{
    store.at_ms = status.at_ms - 5000;
    expect("warning clock");
    text_has("clock", "the clocks of server and store differ by 5s");
    store.at_ms = status.at_ms + 1001;
    expect("warning clock");
    store.at_ms = status.at_ms + 1000;
    expect("");
    facts.here_ms = status.at_ms + 90000;
    expect("warning clock");
    text_has("clock", "the clocks of this machine and the server differ by 1m30s");
    facts.within_ms = 89000; /* the call took so long that the difference is not known */
    expect("");
}

TEST(slow_calls_are_reported)
{
    facts.server.took_ns = 20000001;
    expect("warning latency");
    text_has("latency", "a call without the store takes 20.0 ms");
    facts.server.took_ns = 100000;
    store.round_trip_us = 25000;
    expect("warning latency");
    text_has("latency", "the store takes 25.0 ms for a call");
}

TEST_MAIN(.setup = well)
