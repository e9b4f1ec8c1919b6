/* Runs a request the way server/calls/dispatch.c does, but with one synchronous
 * connection: what dispatch and store add between prepare and finish is the
 * library's digest, the sub-call framing and the reading of {'ERR', ...}. */
#include "support/service_harness.h"
#include "test.h"

#include <hiredis/hiredis.h>
#include <lockstock/rpc/exchange.h>

#include "functions/library.h"
#include "support/redis_fixture.h"

enum { STATES_MAX = 32 };

/* What a service keeps in a server. */
typedef struct kept {
    const service *service;
    const char *server;
    void *state;
} kept;

struct harness {
    redis_fixture *redis;
    redisContext *connection;
    lks_rpc_arena *arena;
    const char *ns, *server;
    uint64_t advanced_ns;
    uint32_t repeat_ms;
    service_options options;
    kept states[STATES_MAX];
    size_t n_states;
    const service_alarm *last_alarms;
    bool altered;
};

/* A request between prepare and finish, or parked. */
typedef struct running {
    const service_method *method;
    ProtobufCMessage *request;
    plan plan;
    bool waits;
    service_next *next;
    const service_alarm *alarms;
    lks_error error;
} running;

struct harness_waiting {
    running running;
    const void *response;
};

static redisReply *checked(harness *h, void *reply)
{
    if (!reply)
        fail_msg("Redis: %s", h->connection->errstr);
    return reply;
}

static char *text_of(lks_rpc_arena *arena, const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_INTEGER)
        return lks_rpc_arena_printf(arena, "%lld", reply->integer);
    if (reply->type != REDIS_REPLY_ARRAY)
        return lks_rpc_arena_copy(arena, reply->str ? reply->str : "", reply->len);
    char *text = lks_rpc_arena_copy(arena, "", 0);
    for (size_t i = 0; i < reply->elements; i++)
        text = lks_rpc_arena_printf(arena, "%s%s\n", text, text_of(arena, reply->element[i]));
    return text;
}

const char *harness_redis(harness *h, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    redisReply *reply = checked(h, redisvCommand(h->connection, format, args));
    va_end(args);
    const char *text = text_of(h->arena, reply);
    freeReplyObject(reply);
    return text;
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

    return harness_redis(h, "EVAL %s 0", script);
}

void harness_advance_ms(harness *h, int64_t ms)
{
    h->advanced_ns += ms > 0 ? (uint64_t)ms * 1000000 : 0;
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

/* The library, or what the environment's mutation makes of it. */
static char *library_text(harness *h)
{
    const char *find = getenv("LOCKSTOCK_MUTATION_FIND");
    const char *replace = getenv("LOCKSTOCK_MUTATION_REPLACE");
    char *text = lks_rpc_arena_copy(h->arena, functions_text, functions_len);

    return find ? replaced(h, text, find, replace ? replace : "") : text;
}

void harness_alter(harness *h, const char *find, const char *replace)
{
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

    for (size_t i = 0; i < h->n_states; i++) {
        if (!server || strcmp(h->states[i].server, server) == 0)
            h->states[i].service->close(h->states[i].state);
        else
            h->states[left++] = h->states[i];
    }
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

harness *harness_new(void)
{
    harness *h = calloc(1, sizeof *h);

    if (!h)
        return NULL;
    h->options.sequence_block = 1;
    h->arena = lks_rpc_arena_new();
    h->redis = redis_fixture_start(NULL);
    if (h->arena && h->redis)
        h->connection = redisConnectUnix(redis_fixture_socket(h->redis));
    if (!h->connection || h->connection->err) {
        harness_free(h);
        return NULL;
    }
    load_unaltered(h);
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
        lks_rpc_arena_free(h->arena);
        free(h);
    }
}

/* ---- one request ----------------------------------------------------------- */

static const service_method *find_method(const service *s, const char *name)
{
    for (size_t i = 0; i < s->n_methods; i++) {
        const char *slash = strrchr(s->methods[i].method->path, '/');
        if (strcmp(slash + 1, name) == 0)
            return &s->methods[i];
    }
    fail_msg("the service has no method %s", name);
    return NULL;
}

static void prepare(harness *h, const service *s, const char *server, const char *method, const void *bytes, size_t len,
                    running *r)
{
    *r = (running){.method = find_method(s, method)};
    if (lks_rpc_request_unpack(r->method->method, bytes, len, h->arena, &r->request, &r->error) != LKS_OK)
        return;
    r->plan = (plan){.arena = h->arena,
                     .method = r->method->method,
                     .ns = lks_rpc_slice_of(h->ns),
                     .server = server,
                     .state = state_of(h, s, server),
                     .now_ns = lks_rpc_now_ns() + h->advanced_ns,
                     .repeat_ms = h->repeat_ms};
    r->method->prepare(r->request, &r->plan);
    r->error = r->plan.error;
}

static store_value value_of(harness *h, const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_NIL)
        return (store_value){.type = STORE_NIL};
    if (reply->type == REDIS_REPLY_INTEGER)
        return (store_value){.type = STORE_INTEGER, .integer = reply->integer};
    if (reply->type != REDIS_REPLY_ARRAY)
        return (store_value){
            .type = reply->type == REDIS_REPLY_ERROR ? STORE_ERROR : STORE_STRING,
            .string = {.data = lks_rpc_arena_copy(h->arena, reply->str, reply->len), .len = reply->len}};
    store_value *element = lks_rpc_arena_alloc(h->arena, reply->elements * sizeof *element);
    for (size_t i = 0; i < reply->elements; i++)
        element[i] = value_of(h, reply->element[i]);
    return (store_value){.type = STORE_ARRAY, .n = reply->elements, .element = element};
}

/* One FCALL of n sub-calls of one function and base; gives the reply's elements,
 * one a sub-call. */
static const store_value *fcall(harness *h, const store_call *const calls[], size_t n)
{
    size_t n_args = 4;
    size_t at = 4;

    for (size_t i = 0; i < n; i++)
        n_args += 1 + calls[i]->n_args;
    const char **argv = lks_rpc_arena_alloc(h->arena, n_args * sizeof *argv);
    size_t *lens = lks_rpc_arena_alloc(h->arena, n_args * sizeof *lens);
    argv[0] = "FCALL";
    argv[1] = lks_rpc_arena_printf(h->arena, "%s_%s", calls[0]->function, functions_digest);
    argv[2] = "1";
    for (size_t i = 0; i < 3; i++)
        lens[i] = strlen(argv[i]);
    argv[3] = calls[0]->base.data;
    lens[3] = calls[0]->base.len;
    for (size_t i = 0; i < n; i++) {
        argv[at] = lks_rpc_arena_printf(h->arena, "%zu", calls[i]->n_args);
        lens[at] = strlen(argv[at]);
        at++;
        for (size_t j = 0; j < calls[i]->n_args; j++) {
            lens[at] = calls[i]->args[j].len;
            argv[at++] = calls[i]->args[j].data;
        }
    }

    redisReply *reply = checked(h, redisCommandArgv(h->connection, (int)n_args, argv, lens));
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != n)
        fail_msg("%s: %s", argv[1], text_of(h->arena, reply));
    const store_value value = value_of(h, reply);
    freeReplyObject(reply);
    return value.element;
}

/* What a function answers with instead of a reply: {'ERR', code, applied, text, detail}. */
static bool is_error(const store_value *reply, lks_error *error)
{
    const store_value *e = reply->element;

    if (reply->n != 5 || e[0].type != STORE_STRING || e[0].string.len != 3 || memcmp(e[0].string.data, "ERR", 3) != 0)
        return false;
    lks_error_set(error, (lks_code)e[1].integer,
                  strcmp(e[2].string.data, "NO") == 0 ? LKS_APPLIED_NO : LKS_APPLIED_MAYBE, "%s", e[3].string.data);
    return true;
}

/* A reader's failure changed nothing, whatever was said. */
static const void *failed(running *r)
{
    if (r->method->method->effect == LKS_RPC_EFFECT_READ)
        r->error.applied = LKS_APPLIED_NO;
    return NULL;
}

static const void *finish(harness *h, running *r, const store_value *const replies[])
{
    answer a = {.arena = h->arena, .plan = &r->plan, .replies = replies, .n_replies = r->plan.n_calls};

    r->waits = false;
    r->next = NULL;
    for (size_t i = 0; i < r->plan.n_calls; i++)
        if (is_error(replies[i], &r->error))
            break;
    if (r->error.code != LKS_OK)
        return failed(r);
    ProtobufCMessage *response = lks_rpc_response_new(r->method->method, h->arena);
    r->method->finish(r->request, &a, response);
    r->error = a.error;
    r->waits = a.waits && r->error.code == LKS_OK;
    r->alarms = h->last_alarms = a.alarms;
    r->next = r->error.code == LKS_OK ? a.next : NULL;
    if (r->waits || r->next)
        return NULL;
    return r->error.code == LKS_OK ? response : failed(r);
}

static const void *run_round(harness *h, running *r)
{
    const store_value **replies = lks_rpc_arena_alloc(h->arena, r->plan.n_calls * sizeof(store_value *) + 1);

    for (size_t i = 0; i < r->plan.n_calls; i++) {
        const store_call *call = &r->plan.calls[i];
        replies[i] = fcall(h, &call, 1);
    }
    return finish(h, r, replies);
}

static void begin_plan(harness *h, running *r)
{
    r->plan.n_calls = 0;
    r->plan.now_ns = lks_rpc_now_ns() + h->advanced_ns;
    r->plan.round++;
}

/* The rounds of store calls until there is an answer, or the call waits. */
static const void *run_rounds(harness *h, running *r)
{
    const void *response = run_round(h, r);

    while (r->next) {
        begin_plan(h, r);
        r->next(r->request, &r->plan);
        r->error = r->plan.error;
        r->next = NULL;
        response = r->error.code == LKS_OK ? run_round(h, r) : failed(r);
    }
    return response;
}

const void *harness_call_bytes(harness *h, const service *s, const char *method, const void *bytes, size_t len,
                               lks_error *error)
{
    const void *response = NULL;
    running r;

    prepare(h, s, h->server, method, bytes, len, &r);
    if (r.error.code == LKS_OK)
        response = run_rounds(h, &r);
    *error = r.error;
    return response;
}

static lks_rpc_slice packed(harness *h, const void *request)
{
    const ProtobufCMessage *message = request;
    size_t len = protobuf_c_message_get_packed_size(message);
    void *bytes = lks_rpc_arena_alloc(h->arena, len);

    protobuf_c_message_pack(message, bytes);
    return (lks_rpc_slice){.data = bytes, .len = len};
}

const void *harness_call(harness *h, const service *s, const char *method, const void *request, lks_error *error)
{
    lks_rpc_slice bytes = packed(h, request);

    return harness_call_bytes(h, s, method, bytes.data, bytes.len, error);
}

void harness_call_together(harness *h, const service *s, const char *method, size_t n, const void *const requests[],
                           const void *responses[], lks_error errors[])
{
    running *r = lks_rpc_arena_alloc(h->arena, n * sizeof *r);
    const store_call **calls = lks_rpc_arena_alloc(h->arena, n * sizeof(store_call *));

    for (size_t i = 0; i < n; i++) {
        lks_rpc_slice bytes = packed(h, requests[i]);
        prepare(h, s, h->server, method, bytes.data, bytes.len, &r[i]);
        if (r[i].error.code != LKS_OK || r[i].plan.n_calls != 1 || r[i].plan.calls[0].weight == 0)
            fail_msg("request %zu cannot be combined: %s", i, r[i].error.message);
        calls[i] = &r[i].plan.calls[0];
    }
    const store_value *replies = fcall(h, calls, n);
    for (size_t i = 0; i < n; i++) {
        const store_value *reply = &replies[i];
        responses[i] = finish(h, &r[i], &reply);
        errors[i] = r[i].error;
    }
}

/* ---- calls that wait --------------------------------------------------------- */

harness_waiting *harness_start(harness *h, const service *s, const char *server, const char *method,
                               const void *request)
{
    harness_waiting *w = lks_rpc_arena_alloc(h->arena, sizeof *w);
    lks_rpc_slice bytes = packed(h, request);

    prepare(h, s, server, method, bytes.data, bytes.len, &w->running);
    w->response = w->running.error.code == LKS_OK ? run_rounds(h, &w->running) : NULL;
    return w;
}

void harness_event(harness *h, harness_waiting *w, service_event event)
{
    running *r = &w->running;

    if (!r->waits)
        return;
    begin_plan(h, r);
    r->plan.wake(r->request, &r->plan, event);
    r->error = r->plan.error;
    r->waits = false;
    w->response = r->error.code == LKS_OK ? run_rounds(h, r) : failed(r);
    if (!w->response && !r->waits && r->plan.undo.function)
        harness_ring(h, &r->plan.undo);
}

const void *harness_answer(const harness_waiting *w, lks_error *error)
{
    *error = w->running.error;
    return w->response;
}

bool harness_is_parked(const harness_waiting *w)
{
    return w->running.waits;
}

const service_alarm *harness_alarms(const harness_waiting *w)
{
    return w->running.alarms;
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
    const store_value *reply = fcall(h, calls, 1);

    if (reply->n != 2 || reply->element[1].type != STORE_INTEGER)
        fail_msg("%s: not {'OK', ms}", alarm->function);
    return reply->element[1].integer;
}

const char *harness_word(const ProtobufCEnumDescriptor *type, int value)
{
    const ProtobufCEnumValue *known = protobuf_c_enum_descriptor_get_value(type, value);

    return known ? known->name + strlen(type->values[0].name) - strlen("UNSPECIFIED") : "?";
}

char *harness_unconst(const char *text)
{
    return (char *)(uintptr_t)text;
}
