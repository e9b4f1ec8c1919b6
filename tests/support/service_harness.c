/* Runs a request as server/calls/dispatch.c and the store do (services/rounds.h, store/fcall.h), but
 * with one synchronous connection, or the machine in its place. */
#include "support/service_harness.h"
#include "base/clock.h"
#include "test.h"

#include <hiredis/hiredis.h>
#include <lockstock/rpc/exchange.h>

#include "functions/library.h"
#include "quorum/quorum.h"
#include "services/rounds.h"
#include "store/fcall.h"
#include "store/value.h"
#include "support/machine_engine.h"
#include "support/redis_fixture.h"

enum { STATES_MAX = 32 };

/* The state of a service in a server. */
typedef struct kept {
    const service *service;
    const char *server;
    void *state;
} kept;

struct harness {
    machine_engine *machine;  /* holds the locks, or everything; may be NULL */
    redis_fixture *redis;     /* holds the rest; may be NULL */
    redisContext *connection; /* to it */
    lks_rpc_arena *arena;
    const char *ns, *server;
    uint64_t now_ns; /* moves by harness_advance_ms alone */
    uint32_t repeat_ms;
    service_options options;
    kept states[STATES_MAX];
    size_t n_states;
    const service_alarm *last_alarms;
    bool altered;
    unsigned before_n; /* store calls until `before` runs; 0: it does not */
    lks_applied (*before)(void *arg);
    void *before_arg;
};

struct harness_waiting {
    rounds rounds;
    rounds_state state;
};

static redisReply *checked(harness *h, void *reply)
{
    if (!reply)
        fail_msg("Redis: %s", h->connection->errstr);
    return reply;
}

/* A command in the bytes that Redis takes. */
static const store_value *ask_machine(harness *h, const char *bytes, size_t len)
{
    redisReader *reader = redisReaderCreate();
    void *command = NULL;

    redisReaderFeed(reader, bytes, len);
    redisReaderGetReply(reader, &command);
    const store_value *parsed = store_value_copy(h->arena, value_of(h->arena, command));
    lks_rpc_slice *words = lks_rpc_arena_alloc(h->arena, parsed->n * sizeof *words);
    for (size_t i = 0; i < parsed->n; i++)
        words[i] = parsed->element[i].string;
    freeReplyObject(command);
    redisReaderFree(reader);
    return machine_engine_command(h->machine, parsed->n, words, h->arena);
}

static const store_value *ask_redis(harness *h, const char *bytes, size_t len)
{
    void *reply = NULL;

    redisAppendFormattedCommand(h->connection, bytes, len);
    redisGetReply(h->connection, &reply);
    checked(h, reply);
    const store_value *value = store_value_copy(h->arena, value_of(h->arena, reply));
    freeReplyObject(reply);
    return value;
}

/* A command about the clock, and FLUSHALL, are for both. */
static const store_value *ask(harness *h, const char *bytes, size_t len)
{
    if (!h->connection)
        return ask_machine(h, bytes, len);
    if (h->machine && (memmem(bytes, len, "ls:test:clock", 13) || memmem(bytes, len, "FLUSHALL", 8)))
        ask_machine(h, bytes, len);
    return ask_redis(h, bytes, len);
}

static char *text_of(lks_rpc_arena *arena, const store_value *value)
{
    if (value->type == STORE_INTEGER)
        return lks_rpc_arena_printf(arena, "%lld", (long long)value->integer);
    if (value->type != STORE_ARRAY)
        return lks_rpc_arena_copy(arena, value->string.data ? value->string.data : "", value->string.len);
    char *text = lks_rpc_arena_copy(arena, "", 0);
    for (size_t i = 0; i < value->n; i++)
        text = lks_rpc_arena_printf(arena, "%s%s\n", text, text_of(arena, &value->element[i]));
    return text;
}

static const char *text_asked(harness *h, char *command, long long len)
{
    const char *text = text_of(h->arena, ask(h, command, (size_t)len));

    redisFreeCommand(command);
    return text;
}

const char *harness_redis(harness *h, const char *format, ...)
{
    char *command;
    va_list args;

    va_start(args, format);
    const int len = redisvFormatCommand(&command, format, args);
    va_end(args);
    return text_asked(h, command, len);
}

const char *harness_redis_words(harness *h, int n, const char *const words[], const size_t lens[])
{
    char *command;
    const long long len = redisFormatCommandArgv(&command, n, (const char **)words, lens);

    return text_asked(h, command, len);
}

long harness_commands(harness *h, const char *command)
{
    const char *name = lks_rpc_arena_printf(h->arena, "cmdstat_%s:calls=", command);
    const char *at = strstr(harness_redis(h, "INFO commandstats"), name);

    return at ? strtol(at + strlen(name), NULL, 10) : 0;
}

const char *harness_snapshot(harness *h)
{
    static const char script[] =
        "local keys, lines = redis.call('KEYS', '*'), {}\n"
        "table.sort(keys)\n"
        "for _, key in ipairs(keys) do\n"
        "  if string.sub(key, 1, 8) ~= 'ls:test:' then\n"
        "    lines[#lines + 1] = table.concat({key, redis.call('TYPE', key).ok,\n"
        "      string.format('%.0f', redis.call('PEXPIRETIME', key)), redis.sha1hex(redis.call('DUMP', key))}, ' ')\n"
        "  end\n"
        "end\n"
        "return table.concat(lines, '\\n')";

    const char *locks = h->machine ? machine_engine_snapshot(h->machine, h->arena) : "";
    return h->connection ? lks_rpc_arena_printf(h->arena, "%s%s", harness_redis(h, "EVAL %s 0", script), locks) : locks;
}

machine_engine *harness_machine(const harness *h)
{
    return h->machine;
}

bool harness_has_redis(const harness *h)
{
    return h->connection;
}

void harness_advance_ms(harness *h, int64_t ms)
{
    h->now_ns += ms > 0 ? (uint64_t)ms * 1000000 : 0;
    harness_redis(h, "INCRBY ls:test:clock_offset_us %lld", (long long)ms * 1000);
}

static void load(harness *h, const char *text, size_t len)
{
    redisReply *reply = checked(h, redisCommand(h->connection, "FUNCTION LOAD REPLACE %b", text, len));

    if (reply->type == REDIS_REPLY_ERROR)
        fail_msg("the function library does not load: %s", reply->str);
    freeReplyObject(reply);
}

static char *replaced(harness *h, char *text, const char *find, const char *replace)
{
    char *at = strstr(text, find);

    if (!at)
        fail_msg("the function library has no such text: %s", find);
    while (at) {
        size_t offset = (size_t)(at - text) + strlen(replace);
        text = lks_rpc_arena_printf(h->arena, "%.*s%s%s", (int)(at - text), text, replace, at + strlen(find));
        at = strstr(text + offset, find);
    }
    return text;
}

/* The library, with the mutation that the environment names. */
static char *library_text(harness *h)
{
    const char *find = getenv("LOCKSTOCK_MUTATION_FIND");
    const char *replace = getenv("LOCKSTOCK_MUTATION_REPLACE");
    char *text = lks_rpc_arena_copy(h->arena, functions_text, functions_len);

    return find ? replaced(h, text, find, replace ? replace : "") : text;
}

void harness_alter(harness *h, const char *find, const char *replace)
{
    if (!h->connection)
        fail_msg("only a library in Redis is altered");
    const char *text = replaced(h, library_text(h), find, replace);
    load(h, text, strlen(text));
    h->altered = true;
}

static void load_unaltered(harness *h)
{
    const char *text = library_text(h);

    load(h, text, strlen(text));
    h->altered = false;
}

static void end_states(harness *h, const char *server)
{
    size_t left = 0;

    for (size_t i = 0; i < h->n_states; i++)
        if (!server || strcmp(h->states[i].server, server) == 0)
            h->states[i].service->close(h->states[i].state);
        else
            h->states[left++] = h->states[i];
    h->n_states = left;
}

static void *state_of(harness *h, const service *s, const char *server)
{
    if (!s->open)
        return NULL;
    for (size_t i = 0; i < h->n_states; i++)
        if (h->states[i].service == s && strcmp(h->states[i].server, server) == 0)
            return h->states[i].state;
    if (h->n_states == STATES_MAX)
        fail_msg("more than %d states", STATES_MAX);
    h->states[h->n_states] = (kept){.service = s, .server = server, .state = s->open(&h->options)};
    return h->states[h->n_states++].state;
}

void harness_server(harness *h, const char *server)
{
    h->server = server;
}

void harness_server_ends(harness *h, const char *server)
{
    end_states(h, server);
}

void harness_service_options(harness *h, const service_options *options)
{
    h->options = *options;
}

void harness_forget(harness *h)
{
    h->last_alarms = NULL;
    lks_rpc_arena_reset(h->arena);
}

void harness_reset(harness *h)
{
    harness_redis(h, "FLUSHALL");
    if (h->altered)
        load_unaltered(h);
    h->ns = "default";
    h->repeat_ms = 1000;
    h->server = "harness";
    h->before_n = 0;
    end_states(h, NULL);
    harness_forget(h);
}

void harness_repeat_ms(harness *h, uint32_t repeat_ms)
{
    h->repeat_ms = repeat_ms;
}

void harness_namespace(harness *h, const char *ns)
{
    h->ns = ns;
}

static bool open_redis(harness *h)
{
    h->redis = redis_fixture_start(NULL);
    if (h->redis)
        h->connection = redisConnectUnix(redis_fixture_socket(h->redis));
    if (!h->connection || h->connection->err)
        return false;
    load_unaltered(h);
    return true;
}

static bool open_machine(harness *h)
{
    const char *text = library_text(h);

    h->machine = machine_engine_new(text, strlen(text), functions_digest);
    return h->machine;
}

harness *harness_new(void)
{
    harness *h = calloc(1, sizeof *h);
    const char *engine = getenv("LOCKSTOCK_TEST_ENGINE");

    if (!h)
        return NULL;
    h->options.sequence_block = 1;
    h->now_ns = clock_now_ns();
    h->arena = lks_rpc_arena_new();
    const bool has_machine = engine != NULL, has_redis = !engine || strcmp(engine, "both") == 0;
    if (!h->arena || (has_redis && !open_redis(h)) || (has_machine && !open_machine(h))) {
        harness_free(h);
        return NULL;
    }
    harness_reset(h);
    return h;
}

void harness_free(harness *h)
{
    if (h) {
        end_states(h, NULL);
        if (h->connection)
            redisFree(h->connection);
        redis_fixture_free(h->redis);
        machine_engine_free(h->machine);
        lks_rpc_arena_free(h->arena);
        free(h);
    }
}

/* ---- one request ----------------------------------------------------------- */

const service_method *harness_method(const char *name, const service **ret)
{
    const char *dot = strchr(name, '.');
    char end[128];

    snprintf(end, sizeof end, ".%.*sService/%s", dot ? (int)(dot - name) : 0, name, dot ? dot + 1 : name);
    for (size_t i = 0; i < SERVICES; i++) {
        *ret = all_services[i];
        for (size_t k = 0; k < (*ret)->n_methods; k++)
            if (strcmp(strrchr((*ret)->methods[k].method->path, '.'), end) == 0)
                return &(*ret)->methods[k];
    }
    fail_msg("no service has a method %s", name);
    return NULL;
}

static bool plan_bytes(harness *h, const char *method, const void *bytes, size_t len, rounds *r)
{
    const service *s;
    const service_method *m = harness_method(method, &s);
    ProtobufCMessage *request;

    *r = (rounds){.method = m};
    if (lks_rpc_request_unpack(m->method, bytes, len, h->arena, &request, &r->error) != LKS_OK)
        return false;
    const plan settings = {.arena = h->arena,
                           .ns = lks_rpc_slice_of(h->ns),
                           .server = h->server,
                           .service = s,
                           .state = state_of(h, s, h->server),
                           .now_ns = h->now_ns,
                           .repeat_ms = h->repeat_ms,
                           .lock_slack_ms = h->machine && h->connection ? 1 : 0};
    return rounds_plan(r, m, request, &settings);
}

static bool plan_request(harness *h, const char *method, const void *request, rounds *r)
{
    size_t len = protobuf_c_message_get_packed_size(request);
    void *bytes = lks_rpc_arena_alloc(h->arena, len);

    protobuf_c_message_pack(request, bytes);
    return plan_bytes(h, method, bytes, len, r);
}

/* One FCALL of n sub-calls of one function; gives their replies. */
static const store_value *make_fcall(harness *h, const store_call *const calls[], size_t n)
{
    fcall *f = fcall_new(calls, n, functions_digest, false);
    const bool is_of_machine = h->machine && (!h->connection || quorum_is_of_locks(calls[0]));

    const store_value *value = is_of_machine ? ask_machine(h, f->bytes, f->len) : ask_redis(h, f->bytes, f->len);
    free(f);
    if (n > 1 && (value->type != STORE_ARRAY || value->n != n))
        fail_msg("%s: %s", calls[0]->function, text_of(h->arena, value));
    return n > 1 ? value->element : value;
}

void harness_before(harness *h, unsigned n, lks_applied (*f)(void *arg), void *arg)
{
    h->before_n = n;
    h->before = f;
    h->before_arg = arg;
}

/* The result of the next store call. */
static store_result answered(harness *h, const store_call *call)
{
    const lks_applied applied = h->before_n == 0 || --h->before_n > 0 ? LKS_APPLIED_YES : h->before(h->before_arg);

    return applied == LKS_APPLIED_YES
               ? fcall_result(make_fcall(h, &call, 1), call->function)
               : (store_result){.code = LKS_UNAVAILABLE, .applied = applied, .message = "no answer"};
}

/* The rounds of store calls until there is an answer, or the call waits. */
static rounds_state run(harness *h, rounds *r, rounds_state state)
{
    while (state == ROUNDS_CALLS) {
        size_t n = r->plan.n_calls;
        for (size_t i = 0; i < n; i++) {
            const store_result result = answered(h, &r->plan.calls[i]);
            state = rounds_reply(r, i, &result, h->now_ns);
        }
    }
    h->last_alarms = r->alarms;
    return state;
}

const void *harness_call_bytes(harness *h, const char *method, const void *bytes, size_t len, lks_error *error)
{
    rounds r;

    if (plan_bytes(h, method, bytes, len, &r))
        run(h, &r, rounds_start(&r, h->now_ns));
    *error = r.error;
    return r.response;
}

const void *harness_call(harness *h, const char *method, const void *request, lks_error *error)
{
    rounds r;

    if (plan_request(h, method, request, &r))
        run(h, &r, rounds_start(&r, h->now_ns));
    *error = r.error;
    return r.response;
}

void harness_call_together(harness *h, const char *method, size_t n, const void *const requests[],
                           const void *responses[], lks_error errors[])
{
    rounds *r = lks_rpc_arena_alloc(h->arena, n * sizeof *r);
    const store_call **calls = lks_rpc_arena_alloc(h->arena, n * sizeof(store_call *));

    for (size_t i = 0; i < n; i++) {
        if (!plan_request(h, method, requests[i], &r[i]) || r[i].plan.n_calls != 1 || r[i].plan.calls[0].weight == 0)
            fail_msg("request %zu cannot be combined: %s", i, r[i].error.message);
        calls[i] = &r[i].plan.calls[0];
        rounds_start(&r[i], h->now_ns);
    }
    const store_value *replies = make_fcall(h, calls, n);
    for (size_t i = 0; i < n; i++) {
        const store_result result = fcall_result(&replies[i], calls[i]->function);
        rounds_reply(&r[i], 0, &result, h->now_ns);
        responses[i] = r[i].response;
        errors[i] = r[i].error;
    }
}

/* ---- a request that may wait --------------------------------------------- */

harness_waiting *harness_plan(harness *h, const char *server, const char *method, const void *request)
{
    harness_waiting *w = lks_rpc_arena_alloc(h->arena, sizeof *w);
    const char *before = h->server;

    h->server = server;
    w->state = plan_request(h, method, request, &w->rounds) ? ROUNDS_CALLS : ROUNDS_FAILED;
    h->server = before;
    return w;
}

size_t harness_planned(const harness_waiting *w, size_t *weight)
{
    const plan *p = &w->rounds.plan;

    *weight = p->n_calls > 0 ? p->calls[0].weight : 0;
    return w->state == ROUNDS_CALLS ? p->n_calls : 0;
}

void harness_store_call(harness *h, const service *s, const char *function, const char *base)
{
    const store_call call = {.function = function, .base = lks_rpc_slice_of(base)};

    s->on_store_call(state_of(h, s, h->server), &call);
}

void harness_begin(harness *h, harness_waiting *w)
{
    if (w->state == ROUNDS_CALLS)
        w->state = run(h, &w->rounds, rounds_start(&w->rounds, h->now_ns));
}

/* Packs and unpacks a call that waits, as a server does. */
static void repack(harness *h, rounds *r)
{
    const plan *p = &r->plan;
    const plan settings = {
        .arena = h->arena, .server = p->server, .service = p->service, .state = p->state, .now_ns = h->now_ns};
    rounds_packed *place = lks_rpc_arena_alloc(h->arena, rounds_packed_bytes(r));

    rounds_pack(r, place);
    rounds_unpack(r, r->method, place, &settings);
}

void harness_event(harness *h, harness_waiting *w, service_event event, bool at_once)
{
    if (w->state != ROUNDS_WAITS)
        return;
    if (!at_once)
        repack(h, &w->rounds);
    w->state = run(h, &w->rounds, rounds_wake(&w->rounds, event, h->now_ns));
    const service_alarm *undo = w->state == ROUNDS_FAILED ? rounds_undo(&w->rounds) : NULL;
    if (undo)
        harness_ring(h, undo);
}

const void *harness_answer(const harness_waiting *w, lks_error *error)
{
    *error = w->rounds.error;
    return w->rounds.response;
}

bool harness_is_parked(const harness_waiting *w)
{
    return w->state == ROUNDS_WAITS;
}

const service_alarm *harness_alarms(const harness_waiting *w)
{
    return w->rounds.alarms;
}

const service_alarm *harness_last_alarms(const harness *h)
{
    return h->last_alarms;
}

int64_t harness_ring(harness *h, const service_alarm *alarm)
{
    lks_rpc_slice args[] = {alarm->argument};
    const store_call call = {.base = alarm->base, .function = alarm->function, .n_args = 1, .args = args};
    const store_call *calls[] = {&call};
    const store_value *reply = make_fcall(h, calls, 1);

    if (reply->n != 2 || reply->element[1].type != STORE_INTEGER)
        fail_msg("%s: not {'OK', ms}", alarm->function);
    return reply->element[1].integer;
}
