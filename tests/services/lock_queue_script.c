/* Invariant: an alarm that was asked for, in an answer or in a message, is kept until it
 * is rung. */
#include "services/lock_queue_script.h"

#include <stdio.h>

#include "functions/library.h"

enum { PARKED_MAX = 2048, TEXT_BYTES = 65536, ALARMS_MAX = 64 };

static struct parked {
    char server[4], token[16];
    harness_waiting *call;
} parked[PARKED_MAX];
static size_t n_parked;
static struct alarm {
    char server, name[16];
    int64_t at_ms;
} alarms[ALARMS_MAX];
static size_t n_alarms;
static char told[TEXT_BYTES];

/* The clock stands still: an offer lapses when the test says so, on a busy machine too. */
int queue_reset(void **state)
{
    n_parked = n_alarms = 0;
    int result = servers_reset(state);
    const char *time = harness_redis(script_harness, "TIME");
    harness_redis(script_harness, "SET ls:test:clock_still_us %ld", atol(time) * 1000000);
    return result;
}

static int64_t now_ms(void)
{
    const char *still = harness_redis(script_harness, "GET ls:test:clock_still_us");
    const char *offset = harness_redis(script_harness, "GET ls:test:clock_offset_us");

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

static const char *line_of(const struct parked *p)
{
    const harness_waiting *call = p->call;
    lks_error error;

    if (harness_is_parked(call)) {
        for (const service_alarm *a = harness_alarms(call); a; a = a->next)
            set_alarm(p->server[1], a->argument.data, a->in_ms);
        return "QUEUED";
    }
    const void *response = harness_answer(call, &error);
    return acquire_line(response, &error);
}

const char *wait_for_ms(const char *server, const char *token, const char *targets, int64_t lease_ms, int64_t wait_ms)
{
    struct parked *p = &parked[n_parked++];

    harness_redis(script_harness, "INCR ls:test:clock_still_us"); /* no two come at once */
    assert_true(n_parked <= PARKED_MAX);
    snprintf(p->server, sizeof p->server, "%s", server);
    snprintf(p->token, sizeof p->token, "%s", token);
    p->call = harness_start(script_harness, &lock_service, p->server, "Acquire",
                            acquire_request(p->token, targets, lease_ms, wait_ms));
    return line_of(p);
}

const char *wait_at(const char *server, const char *token, const char *targets)
{
    return wait_for_ms(server, token, targets, LEASE_MS, WAIT_MS);
}

static bool is_of(const struct parked *p, const char *server, const char *token)
{
    return strcmp(p->server, server) == 0 && strcmp(p->token, token) == 0;
}

/* The last that is parked; where none is any more, the last that was. */
static struct parked *find(const char *server, const char *token)
{
    struct parked *last = NULL;

    for (size_t i = n_parked; i-- > 0;) {
        if (!is_of(&parked[i], server, token))
            continue;
        if (harness_is_parked(parked[i].call))
            return &parked[i];
        last = last ? last : &parked[i];
    }
    if (!last)
        fail_msg("%s parks no call of %s", server, token);
    return last;
}

static const char *event(const char *server, const char *token, service_event what)
{
    struct parked *p = find(server, token);

    harness_event(script_harness, p->call, what);
    return line_of(p);
}

bool parks(const char *server, const char *token)
{
    for (size_t i = 0; i < n_parked; i++)
        if (is_of(&parked[i], server, token) && harness_is_parked(parked[i].call))
            return true;
    return false;
}

const char *woken(const char *server, const char *token)
{
    const char *said = NULL;

    for (size_t i = 0; i < n_parked; i++) {
        if (!is_of(&parked[i], server, token) || !harness_is_parked(parked[i].call))
            continue;
        harness_event(script_harness, parked[i].call, SERVICE_WOKEN);
        said = line_of(&parked[i]);
    }
    return said ? said : line_of(find(server, token));
}

const char *timed_out(const char *server, const char *token)
{
    return event(server, token, SERVICE_DEADLINE);
}

const char *abandoned(const char *server, const char *token)
{
    return event(server, token, SERVICE_ABANDONED);
}

/* "W ls:{default/g}:T2.............." as "W T2"; "A 5 ls:{default/g}: lock_promote a" as "A a". */
static void add_message(char server, const char *text)
{
    bool wakes = text[0] == 'W';
    const char *at = wakes ? strstr(text, "}:") + 2 : strrchr(text, ' ') + 1;

    if (!wakes)
        set_alarm(server, at, atol(text + 2));
    assert_non_null(strstr(text, wakes ? "W ls:{default/g}:" : " ls:{default/g}: lock_promote "));
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
            bool wakes = server[3] == 'W';
            server[2] = '\0';
            if (wakes && harness_is_parked(find(server, token)->call) &&
                strncmp(woken(server, token), "ACQUIRED", 8) == 0)
                add(got, sizeof got, "%s%s", got[0] ? " " : "", token);
        }
    }
    return got;
}

int64_t promote(const char *name)
{
    const char *reply =
        harness_redis(script_harness, "FCALL lock_promote_%s 1 ls:{default/g}: 1 %s", functions_digest, name);

    if (strncmp(reply, "OK\n", 3) != 0)
        fail_msg("lock_promote: %s", reply);
    return atol(reply + 3);
}

const char *queue_of(const char *name)
{
    static char line[TEXT_BYTES];
    const char *at = harness_redis(script_harness, "ZRANGE ls:{default/g}:lock:w:%s 0 -1", name);

    line[0] = '\0';
    while (*at) {
        add(line, sizeof line, "%s%.*s", line[0] ? " " : "", (int)strcspn(at, ".\n"), at);
        at += strcspn(at, "\n") + 1;
    }
    return line;
}

int queue_keys(void)
{
    return atoi(harness_redis(script_harness, "EVAL %s 0", "return #redis.call('KEYS', 'ls:{default/g}:lock:[ws]:*')"));
}
