/* What doctor says of what servers and stores answer. */
/* promise CL6 */
#include "cli/diagnosis.h"

#include "test.h"

static lks_store_status store;
static lks_get_status_response status;
static diagnosis_facts facts;
static diagnosis_finding *found;
static size_t n;

/* All is well. */
static int well(void **state)
{
    (void)state;
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

/* What there is to say, but for what is well: "problem store: ..." of each, with a newline. */
static const char *said(void)
{
    static char text[8192];
    size_t at = 0;

    text[0] = '\0';
    free(found);
    found = diagnosis_of(&facts, &n);
    assert_non_null(found);
    assert_in_range(n, 1, 100);
    for (size_t i = 0; i < n; i++) {
        /* What is wrong has a remedy, and what is well has none. */
        assert_int_equal(found[i].level == DIAGNOSIS_OK, !found[i].remedy);
        if (found[i].level != DIAGNOSIS_OK)
            at += (size_t)snprintf(text + at, sizeof text - at, "%s %s: %s\n", diagnosis_word(found[i].level),
                                   found[i].about, found[i].text);
    }
    return text;
}

static const char *remedy_of(const char *about)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(found[i].about, about) == 0 && found[i].remedy)
            return found[i].remedy;
    return "";
}

/* The text of the last finding about it, which is no problem. */
static const char *text_of(const char *about)
{
    for (size_t i = n; i-- > 0;)
        if (strcmp(found[i].about, about) == 0 && found[i].level != DIAGNOSIS_PROBLEM)
            return found[i].text;
    return "";
}

#define says(...) assert_string_equal(said(), "" __VA_ARGS__)
#define has(text, part) assert_non_null(strstr(text, part))

TEST(all_is_well)
{
    says();
    assert_int_equal(n, 5);
    assert_string_equal(found[0].text, "lockstockd 1.0, up for 1m30s");
    assert_string_equal(found[1].text, "lockstockd's own redis-server, Redis 7.0.15");
    assert_string_equal(found[4].text, "0.1 ms a call, 0.2 ms with the store");
}

TEST(a_server_that_does_not_answer_is_all_there_is_to_say)
{
    facts.server.error = failed(LKS_UNAVAILABLE, "no server could be reached");
    says("problem server: does not answer: no server could be reached\n");
    assert_int_equal(n, 1);
    assert_int_equal(found[0].level, DIAGNOSIS_DOWN);
    facts.server.error = failed(LKS_UNAUTHENTICATED, "who?");
    says("problem server: does not know who calls: who?\n");
    assert_int_equal(found[0].level, DIAGNOSIS_PROBLEM);
    has(remedy_of("server"), "--token-file");
    facts.server.error = failed(LKS_RESOURCE_EXHAUSTED, "full");
    says("problem server: has no room for calls: full\n");
    facts.server.error = failed(LKS_INTERNAL, "odd");
    says("problem server: fails: odd (INTERNAL)\n");
}

TEST(text_of_a_server_moves_no_terminal)
{
    facts.server.error = failed(LKS_UNAVAILABLE, "\x1b[2J");
    says("problem server: does not answer: ?[2J\n");
}

TEST(another_version_is_a_note)
{
    facts.version = "2.0";
    says("note server: lockstockd 1.0, up for 1m30s; this lockstock is 2.0\n");
}

TEST(what_may_not_be_seen_is_a_note)
{
    facts.status = NULL;
    facts.status_error = failed(LKS_PERMISSION_DENIED, "no");
    says("note rights: whoever asks may not see what the server knows of its store\n");
    has(remedy_of("rights"), "ADMIN of AdminService");
    facts.status_error = failed(LKS_UNIMPLEMENTED, "no");
    says("note rights: this server does not tell what it knows of its store\n");
    facts.server.error = facts.store.error = failed(LKS_PERMISSION_DENIED, "no");
    says("note rights: whoever asks may not read, so not all can be looked at\n");
}

static void expect_remedies(const char *level, const char *says_it)
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
        {"shutting_down", "start it"},
        {"store_unreachable", "PING"},
        {"internal", "PING"},
        {"of_a_later_version", "PING"},
        {"", "PING"},
    };
    char line[256];

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        store.reason_word = rows[i][0];
        facts.store.error.reason = facts.status_error.reason = lks_reason_of(rows[i][0]);
        snprintf(line, sizeof line, "%s store: %s\n", level, says_it);
        assert_memory_equal(said(), line, strlen(line));
        has(remedy_of("store"), rows[i][1]);
    }
}

/* The texts say nothing to doctor: the words alone tell what to do. */
/* promise W19 */
TEST(a_store_that_is_not_ready_has_a_remedy_for_its_reason)
{
    store.ready = false;
    store.reason = "la tienda no contesta";
    expect_remedies("problem", "is not ready: la tienda no contesta");
    assert_int_equal(found[1].level, DIAGNOSIS_DOWN);
    store.evicts = true;
    store.reason_word = "store_unsafe";
    said();
    has(remedy_of("store"), "noeviction");
}

TEST(a_store_that_does_not_answer_has_a_remedy_for_its_reason)
{
    facts.status = NULL;
    facts.store.error = failed(LKS_UNAVAILABLE, "nein");
    expect_remedies("problem", "does not answer: nein");
    facts.store.error = failed(LKS_RESOURCE_EXHAUSTED, "nein");
    expect_remedies("problem", "has no room: nein");
    facts.store.error = failed(LKS_INTERNAL, "nein");
    expect_remedies("problem", "fails: nein (INTERNAL)");
    facts.store.error.code = LKS_OK;
    facts.status_error = failed(LKS_UNAVAILABLE, "nein");
    expect_remedies("problem", "did not answer a moment ago: nein");
}

TEST(a_server_that_shuts_down_is_told_from_one_that_is_not_there)
{
    facts.server.error = failed(LKS_UNAVAILABLE, "no");
    says("problem server: does not answer: no\n");
    has(remedy_of("server"), "--print-config");
    facts.server.error.reason = LKS_REASON_SHUTTING_DOWN;
    says("problem server: does not answer: no\n");
    has(remedy_of("server"), "runs again");
}

TEST(a_part_of_a_cluster_that_is_not_ready_is_a_problem)
{
    store.cluster = true;
    says();
    assert_string_equal(found[1].text, "lockstockd's own redis-server, Redis 7.0.15, a cluster");
    store.reason = "127.0.0.1:7000: the store is loading its data";
    says("problem store: a part of it is not ready: 127.0.0.1:7000: the store is loading its data\n");
    assert_int_equal(found[1].level, DIAGNOSIS_PROBLEM);
}

TEST(a_store_that_refuses_what_needs_memory_is_a_problem)
{
    store.reason = "the store is out of memory";
    store.reason_word = "store_out_of_memory";
    says("problem store: refuses a part of its calls: the store is out of memory\n");
    has(remedy_of("store"), "maxmemory");
}

TEST(a_store_that_cannot_write_to_disk_keeps_nothing)
{
    store.ready = false;
    store.reason = "the store cannot write its data to disk";
    store.reason_word = "store_disk_failed";
    says("problem store: is not ready: the store cannot write its data to disk\n"
         "problem persistence: the store cannot write to its disk, and takes nothing until it can\n");
}

/* It was, while it was asked how its store is: a failover that is over by the next question. */
TEST(a_server_that_could_not_say_how_its_store_is_is_not_well)
{
    facts.status = NULL;
    facts.status_error = failed(LKS_UNAVAILABLE, "the connection to the store broke");
    says("problem store: did not answer a moment ago: the connection to the store broke\n");
    assert_int_equal(found[1].level, DIAGNOSIS_DOWN);
}

TEST(what_the_server_says_is_wrong_is_repeated)
{
    lks_condition ends = {.about = "certificate", .text = "the certificate ends soon"},
                  over = {.about = "certificate", .text = "the certificate is over", .blocks = true},
                  of_store = {.about = "store", .text = "the store is away", .blocks = true},
                  *all[] = {&ends, &over, &of_store};

    status.conditions = all;
    status.n_conditions = 3;
    says("warning certificate: the certificate ends soon\n"
         "problem certificate: the certificate is over\n");
    has(remedy_of("certificate"), "--tls-certificate");
}

TEST(a_store_whose_clock_is_not_known_has_none_that_differs)
{
    store.at_ms = 0;
    says();
    assert_string_equal(text_of("clock"), "the clocks of this machine and the server agree");
}

TEST(nothing_is_well_with_a_store_that_is_away)
{
    store.ready = false;
    store.reason = "the store cannot be reached: Connection refused";
    store.at_ms = 0;
    says("problem store: is not ready: the store cannot be reached: Connection refused\n");
    assert_string_equal(text_of("persistence"), "");
    store.fsync = LKS_FSYNC_EVERYSEC;
    says("problem store: is not ready: the store cannot be reached: Connection refused\n"
         "note persistence: the store writes to disk once a second: power loss may lose two seconds of answers\n");
}

TEST(a_store_that_does_not_answer_is_down)
{
    facts.status = NULL;
    facts.store.error = facts.status_error = failed(LKS_DEADLINE_EXCEEDED, "late");
    says("problem store: does not answer: late\n");
    assert_int_equal(found[1].level, DIAGNOSIS_DOWN);
    facts.store.error = failed(LKS_RESOURCE_EXHAUSTED, "the store is out of memory");
    facts.store.error.reason = LKS_REASON_STORE_OUT_OF_MEMORY;
    says("problem store: has no room: the store is out of memory\n");
    has(remedy_of("store"), "maxmemory");
    facts.store.error = failed(LKS_INTERNAL, "the store denies a permission");
    says("problem store: fails: the store denies a permission (INTERNAL)\n");
}

TEST(persistence_is_what_a_crash_loses)
{
    store.fsync = LKS_FSYNC_EVERYSEC;
    says("note persistence: the store writes to disk once a second: power loss may lose two seconds of answers\n");
    has(remedy_of("persistence"), "--fsync always");
    store.kind = LKS_STORE_KIND_REDIS;
    said();
    has(remedy_of("persistence"), "appendfsync always");
    store.fsync = LKS_FSYNC_NO;
    says("warning persistence: the store leaves it to the operating system when to write: power loss may lose half a "
         "minute\n");
    store.persistence = LKS_PERSISTENCE_SNAPSHOTS;
    says(
        "warning persistence: the store writes snapshots only: a crash loses what came after the last one, and with it "
        "orders and locks\n");
    store.persistence = LKS_PERSISTENCE_NONE;
    says("problem persistence: the store keeps nothing on disk: when Redis ends, all locks, stock and records are "
         "gone\n");
    store.persistence = LKS_PERSISTENCE_UNSPECIFIED;
    says("note persistence: the store does not tell what it keeps on disk: CONFIG GET is not permitted\n");
    store.evicts = true;
    store.persistence = LKS_PERSISTENCE_APPEND_ONLY;
    store.fsync = LKS_FSYNC_ALWAYS;
    says("problem memory: the store drops keys when its memory is full: locks are held twice, orders sell twice\n");
}

TEST(a_failover_without_replicas_that_are_waited_for_loses_answers)
{
    store.fails_over = true;
    says("warning failover: the node that takes over may lack the last answers: then sold units are sold again, and a "
         "lock may have two holders\n");
    has(remedy_of("failover"), "--wait-replicas");
    store.wait_replicas = 1;
    says();
}

TEST(sentinels_that_do_not_answer_are_told)
{
    store.sentinels = store.sentinels_answering = 3;
    says();
    assert_string_equal(text_of("sentinels"), "all 3 answer");
    store.sentinels_answering = 2;
    says("warning sentinels: 2 of 3 answer\n");
    has(remedy_of("sentinels"), "event=sentinel-lost");
    store.sentinels_answering = 0;
    says("problem sentinels: none of 3 answers: when the primary is lost, nobody tells who takes its place\n");
    has(remedy_of("sentinels"), "event=sentinel-lost");
}

/* A primary with two replicas that follow, of a store that fails over. */
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

TEST(each_primary_s_replicas_are_shown)
{
    lks_primary_status *p = with_replicas();
    says();
    assert_string_equal(text_of("replicas"), "a:1: min-replicas-to-write 0; b:2 0 bytes behind, last heard of 1s ago; "
                                             "c:3 70 bytes behind, last heard of 0s ago");
    p->replicas[0]->silent_ms = p->replicas[1]->silent_ms = -1;
    says();
    assert_string_equal(text_of("replicas"), "a:1: min-replicas-to-write 0; b:2 0 bytes behind; c:3 70 bytes behind");
    p->tells_replicas = false;
    says("note replicas: a:1 does not tell of its replicas\n");
    has(remedy_of("replicas"), "+info");
    store.fails_over = false;
    store.wait_replicas = 0;
    says();
}

TEST(too_few_replicas_are_a_problem)
{
    lks_primary_status *p = with_replicas();
    store.wait_replicas = 3;
    says("problem replicas: a:1 has 2 of the 3 replicas that --wait-replicas asks for: its calls are refused\n");
    has(remedy_of("replicas"), "start the replicas");
    store.ready = false;
    store.reason = "the store has 2 replicas, --wait-replicas asks for 3";
    store.reason_word = "store_too_few_replicas";
    said();
    has(remedy_of("store"), "start the replicas");
    store.ready = true;
    store.reason = store.reason_word = "";
    facts.store.error = failed(LKS_UNAVAILABLE, "the store has too few replicas");
    facts.store.error.reason = LKS_REASON_STORE_TOO_FEW_REPLICAS;
    said();
    has(remedy_of("store"), "start the replicas");
    facts.store.error = (lks_error){0};
    store.wait_replicas = 1;
    p->min_replicas_to_write = 2;
    says();
    p->replicas[1]->silent_ms = 11000;
    has(said(),
        "problem replicas: a:1 has 1 of the 2 replicas that min-replicas-to-write asks for: it refuses writes\n");
    p->min_replicas_max_lag_ms = 0;
    assert_null(strstr(said(), "refuses writes"));
    p->n_replicas = 0;
    store.wait_replicas = 0;
    has(said(), "warning replicas: a:1 has no replica: nothing takes its place when it dies\n");
}

TEST(a_replica_that_lags_is_a_problem)
{
    lks_primary_status *p = with_replicas();
    p->replicas[1]->silent_ms = 5000;
    p->replicas[1]->behind_bytes = 16 << 20;
    says();
    p->replicas[1]->silent_ms = 6000;
    says("problem replicas: a:1: c:3 16777216 bytes behind, last heard of 6s ago\n");
    has(remedy_of("replicas"), "look at that replica");
    p->replicas[1]->silent_ms = 0;
    p->replicas[1]->behind_bytes = (16 << 20) + 1;
    says("problem replicas: a:1: c:3 16777217 bytes behind, last heard of 0s ago\n");
    assert_string_equal(text_of("replicas"), "a:1: min-replicas-to-write 0; b:2 0 bytes behind, last heard of 1s ago");
    assert_null(strstr(remedy_of("replicas"), "--wait-replicas")); /* the other one confirms */
    store.wait_replicas = 2;
    says("problem replicas: a:1: c:3 16777217 bytes behind, last heard of 0s ago\n");
    has(remedy_of("replicas"), "--wait-replicas waits for it in vain");
}

TEST(replicas_for_whose_names_there_is_no_room_count_too)
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
    has(said(), "problem replicas: a:1: rrr");
    assert_null(strstr(remedy_of("replicas"), "--wait-replicas"));
}

TEST(what_is_wrong_with_one_primary_hides_no_other)
{
    lks_primary_status *healthy = with_replicas(), lonely = *healthy, *both[] = {&lonely, healthy};
    lonely.address = "z:9";
    lonely.n_replicas = 0;
    store.n_primaries = 2;
    store.primaries = both;
    says("problem replicas: z:9 has 0 of the 1 replicas that --wait-replicas asks for: its calls are refused\n");
    assert_string_equal(text_of("replicas"), "a:1: min-replicas-to-write 0; b:2 0 bytes behind, last heard of 1s ago; "
                                             "c:3 70 bytes behind, last heard of 0s ago");
}

TEST(min_replicas_to_write_bounds_what_a_failover_loses)
{
    lks_primary_status *p = with_replicas();
    store.wait_replicas = 0;
    p->min_replicas_to_write = 1;
    says("note failover: a failover loses the last answers, but none from later than min-replicas-max-lag after the "
         "replicas were cut off\n");
    has(remedy_of("failover"), "--wait-replicas");
    p->min_replicas_max_lag_ms = 0; /* then it refuses nothing */
    has(said(), "warning failover: the node that takes over may lack the last answers");
    p->min_replicas_max_lag_ms = p->min_replicas_to_write = -1;
    has(said(), "warning failover: the node that takes over may lack the last answers");
}

TEST(clocks_that_differ_are_told)
{
    store.at_ms = status.at_ms - 5000;
    says("warning clock: the clocks of server and store differ by 5s; leases and times of sale go by the store's\n");
    store.at_ms = status.at_ms + 1001;
    says("warning clock: the clocks of server and store differ by 1s; leases and times of sale go by the store's\n");
    store.at_ms = status.at_ms + 1000;
    says();
    facts.here_ms = status.at_ms + 90000;
    says("warning clock: the clocks of this machine and the server differ by 1m30s: times that are shown are wrong\n");
    facts.within_ms = 89000; /* the answer took so long that nobody knows */
    says();
}

TEST(what_is_slow_is_told)
{
    facts.server.took_ns = 20000001;
    says("warning latency: a call that needs no store takes 20.0 ms\n");
    facts.server.took_ns = 100000;
    store.round_trip_us = 25000;
    says("warning latency: the store takes 25.0 ms for a call\n");
}

TEST_MAIN(.setup = well)
