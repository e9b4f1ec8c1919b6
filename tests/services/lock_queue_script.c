/* Invariant: an alarm that was asked for, in an answer or in a message, is kept until it
 * is rung. */
#include "services/lock_queue_script.h"

#include "functions/library.h"

enum { ALARMS_MAX = 64, GRANTS = 64 };

static struct alarm {
    char server, name[16];
    int64_t at_ms;
} alarms[ALARMS_MAX];
static size_t n_alarms;
static char told[TEXT_BYTES];

/* The last grants that servers were told of. */
static struct grant {
    char server, token[16], fences[64];
} grants[GRANTS];
static size_t n_grants;

/* The clock stands still: an offer lapses when the test says so, on a busy machine too. */
int queue_reset(void **state)
{
    n_alarms = n_grants = 0;
    int result = servers_reset(state);
    const char *time = harness_redis(h, "TIME");
    harness_redis(h, "SET ls:test:clock_still_us %ld", atol(time) * 1000000);
    return result;
}

static int64_t now_ms(void)
{
    const char *still = harness_redis(h, "GET ls:test:clock_still_us");
    const char *offset = harness_redis(h, "GET ls:test:clock_offset_us");

    return (atol(still) + atol(offset)) / 1000;
}

/* Of several the earliest counts. */
static void set_alarm(char server, const char *name, int64_t in_ms)
{
    struct alarm *a = alarms;
    int64_t at_ms = now_ms() + in_ms;

    while (a < alarms + n_alarms && (a->server != server || strcmp(a->name, name) != 0))
        a++;
    if (a == alarms + n_alarms) {
        assert_true(++n_alarms < ALARMS_MAX);
        *a = (struct alarm){.server = server, .at_ms = INT64_MAX};
        snprintf(a->name, sizeof a->name, "%s", name);
    }
    if (at_ms < a->at_ms)
        a->at_ms = at_ms;
}

void ring_alarms(void)
{
    for (size_t i = 0; i < n_alarms;) {
        struct alarm *a = &alarms[i++];
        if (a->at_ms > now_ms())
            continue;
        a->at_ms = INT64_MAX;
        int64_t again_ms = promote(a->name);
        if (again_ms >= 0)
            set_alarm(a->server, a->name, again_ms);
        i = 0;
    }
}

static const char *said_of(const parked *p)
{
    if (is_waiting(p)) {
        for (const service_alarm *a = harness_alarms(p->call); a; a = a->next)
            set_alarm(p->server[1], a->argument.data, a->in_ms);
        return "QUEUED";
    }
    return acquire_line(harness_answer(p->call, &err));
}

const char *wait_for_ms(const char *server, const char *token, const char *targets, int64_t lease_ms, int64_t wait_ms)
{
    harness_redis(h, "INCR ls:test:clock_still_us"); /* no two come at once */
    return said_of(park(server, "", token, acquire_request(token, targets, lease_ms, wait_ms)));
}

const char *wait_at(const char *server, const char *token, const char *targets)
{
    return wait_for_ms(server, token, targets, LEASE_MS, WAIT_MS);
}

static const char *event(const char *server, const char *token, service_event what)
{
    const parked *p = find(server, token);

    happen(p, what);
    return said_of(p);
}

static bool waits_as(const parked *p, const char *server, const char *token)
{
    return strcmp(p->server, server) == 0 && strcmp(p->token, token) == 0 && is_waiting(p);
}

bool parks(const char *server, const char *token)
{
    for (size_t i = 0; parked_at(i); i++)
        if (waits_as(parked_at(i), server, token))
            return true;
    return false;
}

const char *timed_out(const char *server, const char *token)
{
    return event(server, token, SERVICE_DEADLINE);
}

const char *abandoned(const char *server, const char *token)
{
    return event(server, token, SERVICE_ABANDONED);
}

static const char *done_by_all(const char *server, const char *token, void (*happens)(const parked *p, const void *arg),
                               const void *arg)
{
    const char *said = NULL;

    for (size_t i = 0; parked_at(i); i++) {
        if (!waits_as(parked_at(i), server, token))
            continue;
        happens(parked_at(i), arg);
        said = said_of(parked_at(i));
    }
    return said ? said : said_of(find(server, token));
}

static void wake(const parked *p, const void *arg)
{
    (void)arg;
    happen(p, SERVICE_WOKEN);
}

const char *woken(const char *server, const char *token)
{
    return done_by_all(server, token, wake, NULL);
}

static void tell(const parked *p, const void *fences)
{
    happen_with(p, fences);
}

const char *told_of_grant(const char *server, const char *token)
{
    for (size_t i = n_grants; i-- > 0 && i + GRANTS >= n_grants;) {
        const struct grant *g = &grants[i % GRANTS];
        if (g->server == server[1] && strcmp(g->token, token) == 0)
            return done_by_all(server, token, tell, g->fences);
    }
    fail_msg("%s was told of no grant to %s", server, token);
    return "";
}

const char *release_at(const char *server, const char *token, const char *names)
{
    harness_server(h, server);
    const char *said = release(token, names);
    harness_server(h, "harness");
    return said;
}

/* "R 7,8 ls:{default/g}:T2.............. ls:{default/g}: lock_abandon T2.............. S1.copy.5" */
static void add_grant(char server, const char *text)
{
    struct grant *g = &grants[n_grants++ % GRANTS];
    char whole[64], again[64];

    g->server = server;
    assert_int_equal(sscanf(text, "R %63s ls:{default/g}:%63s ls:{default/g}: lock_abandon %63s S%*[^.].%*[^.].%*d",
                            g->fences, whole, again),
                     3);
    assert_string_equal(whole, again);
    snprintf(g->token, sizeof g->token, "%.*s", (int)strcspn(whole, "."), whole);
}

/* "W ls:{default/g}:T2.............." as "W T2"; "A 5 ls:{default/g}: lock_promote a" as "A a". */
static void add_message(char server, const char *text)
{
    bool is_alarm = text[0] == 'A';
    const char *at = is_alarm ? strrchr(text, ' ') + 1 : strstr(text, "}:") + 2;

    if (is_alarm)
        set_alarm(server, at, atol(text + 2));
    else if (text[0] == 'R')
        add_grant(server, text);
    else
        assert_int_equal(text[0], 'W');
    assert_non_null(strstr(text, is_alarm ? " ls:{default/g}: lock_promote " : " ls:{default/g}:"));
    add(told, sizeof told, "%sS%c:%c %.*s", told[0] ? " " : "", server, text[0], (int)strcspn(at, "."), at);
}

const char *messages(void)
{
    told[0] = '\0';
    servers_read(add_message);
    return told;
}

const char *deliver(void)
{
    static char got[TEXT_BYTES];
    static char copy[TEXT_BYTES];

    got[0] = '\0';
    while (messages()[0]) {
        char *rest = copy;
        char *server;
        snprintf(copy, sizeof copy, "%s", told);
        while ((server = strsep(&rest, " "))) {
            const char *token = strsep(&rest, " ");
            char kind = server[3];
            server[2] = '\0';
            if (kind == 'A' || !is_waiting(find(server, token)))
                continue;
            if (strncmp((kind == 'R' ? told_of_grant : woken)(server, token), "ACQUIRED", 8) == 0)
                add(got, sizeof got, "%s%s", got[0] ? " " : "", token);
        }
    }
    return got;
}

int64_t promote(const char *name)
{
    const char *reply = harness_redis(h, "FCALL lock_promote_%s 1 ls:{default/g}: 1 %s", functions_digest, name);

    if (strncmp(reply, "OK\n", 3) != 0)
        fail_msg("lock_promote: %s", reply);
    return atol(reply + 3);
}

const char *queue_of(const char *name)
{
    static char line[TEXT_BYTES];
    const char *at = harness_redis(h, "ZRANGE ls:{default/g}:lock:w:%s 0 -1", name);

    line[0] = '\0';
    while (*at) {
        add(line, sizeof line, "%s%.*s", line[0] ? " " : "", (int)strcspn(at, ".\n"), at);
        at += strcspn(at, "\n") + 1;
    }
    return line;
}

int queue_keys(void)
{
    return atoi(harness_redis(h, "EVAL %s 0", "return #redis.call('KEYS', 'ls:{default/g}:lock:[ws]:*')"));
}

long commands_run(void)
{
    const char *at = harness_redis(h, "INFO commandstats");
    long n = 0, calls;

    while ((at = strstr(at, ":calls="))) {
        if (sscanf(at, ":calls=%ld", &calls) == 1)
            n += calls;
        at++;
    }
    return n;
}
