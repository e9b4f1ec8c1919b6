/* Every outcome is kept until the driver goes, so a late second `done` is seen. */
#include "support/store_driver.h"
#include "support/loop_until.h"
#include "test.h"

#include <uv.h>

enum { TIMEOUT_MS = 30000, ARGS_MAX = 8, REASON_BYTES = 256 };

#define DIGEST "7e577e577e577e57"

const char driver_library_digest[] = DIGEST;
const char driver_library_text[] =
    "#!lua name=lockstock_" DIGEST "\n"
    "local function define(name, handler)\n"
    "  redis.register_function(name .. '_" DIGEST "', function(keys, argv)\n"
    "    local replies, i = {}, 1\n"
    "    while i <= #argv do\n"
    "      local argc, args = tonumber(argv[i]), {}\n"
    "      for j = 1, argc do args[j] = argv[i + j] end\n"
    "      i = i + argc + 1\n"
    "      replies[#replies + 1] = handler(keys[1], args)\n"
    "    end\n"
    "    return replies[2] and replies or replies[1]\n"
    "  end)\n"
    "end\n"
    "define('echo', function(base, args) return {'ECHO', unpack(args)} end)\n"
    "define('add', function(base, args)\n"
    "  return {'ADDED', redis.call('INCRBY', base .. 'total', args[1])}\n"
    "end)\n"
    "define('put', function(base, args)\n"
    "  return {'PUT', redis.call('SETNX', base .. args[1], args[2])}\n"
    "end)\n"
    "define('get', function(base, args) return {'GOT', redis.call('GET', base .. args[1]) or ''} end)\n";

typedef struct submitted {
    struct submitted *next;
    store_driver *driver;
    outcome outcome;
    store_call call;
    lks_rpc_slice args[ARGS_MAX];
} submitted;

struct store_driver {
    uv_loop_t loop;
    store *store;
    lks_rpc_arena *arena;
    submitted *calls;
    bool submitting;
    bool ready, told;
    unsigned ups;
    char reason[REASON_BYTES];
    lks_reason fault;
};

store_driver *store_driver_new(void)
{
    store_driver *d = calloc(1, sizeof *d);

    assert_non_null(d);
    assert_int_equal(uv_loop_init(&d->loop), 0);
    d->arena = lks_rpc_arena_new();
    assert_non_null(d->arena);
    return d;
}

uv_loop_t *store_driver_loop(store_driver *d)
{
    return &d->loop;
}

static void on_ready(void *arg, bool ready, store_fault fault)
{
    store_driver *d = arg;

    /* A change, each time. */
    const char *text = fault.text ? fault.text : "";
    assert_false(d->told && d->ready == ready && strcmp(d->reason, text) == 0);
    assert_int_equal(fault.reason != LKS_REASON_NONE, text[0] != '\0');
    d->told = true;
    d->ready = ready;
    d->ups += ready;
    d->fault = fault.reason;
    snprintf(d->reason, sizeof d->reason, "%s", text);
}

lks_code store_driver_open(store_driver *d, const store_options *options, lks_error *error)
{
    store_options full = *options;
    lks_error ignored;

    d->told = d->ready = false; /* by this store */
    full.loop = &d->loop;
    full.on_ready = on_ready;
    full.arg = d;
    if (!full.role_check_ms)
        full.role_check_ms = 3600000; /* a script that says answers out of turn knows nothing of that question */
    if (!full.library_text) {
        full.library_text = driver_library_text;
        full.library_digest = driver_library_digest;
    }
    return store_open(&full, &d->store, error ? error : &ignored);
}

store *store_driver_store(store_driver *d)
{
    return d->store;
}

static void on_done(void *arg, const store_result *result)
{
    submitted *s = arg;
    outcome *o = &s->outcome;

    o->ends++;
    o->inside = s->driver->submitting;
    o->code = result->code;
    o->applied = result->applied;
    o->retry_after_ms = result->retry_after_ms;
    o->reason = result->reason;
    snprintf(o->message, sizeof o->message, "%s", result->message);
    if (result->code == LKS_OK)
        o->value = store_value_copy(s->driver->arena, result->value);
    /* Its memory belongs to the caller again: a store that still reads it is detected. */
    free((char *)(uintptr_t)s->call.base.data);
    s->call.base.data = NULL;
}

outcome *store_driver_submit(store_driver *d, const driver_call *call)
{
    submitted *s = calloc(1, sizeof *s);
    const char *base = call->base ? call->base : "ls:{test/g}:";
    int timeout_ms = call->timeout_ms ? call->timeout_ms : TIMEOUT_MS;
    size_t n = 0;

    assert_non_null(s);
    for (; n < ARGS_MAX && call->args[n]; n++)
        s->args[n] = lks_rpc_slice_of(call->args[n]);
    s->driver = d;
    s->next = d->calls;
    d->calls = s;
    s->call = (store_call){
        .base = {strdup(base), strlen(base)},
        .function = call->function,
        .n_args = n,
        .max_args = ARGS_MAX,
        .args = s->args,
        .weight = call->weight,
        .repeatable = call->repeatable,
    };
    d->submitting = true;
    store_submit(d->store, &s->call, uv_hrtime() + (uint64_t)((int64_t)timeout_ms * 1000000), on_done, s);
    d->submitting = false;
    return &s->outcome;
}

void store_driver_until(store_driver *d, bool (*condition)(void *arg), void *arg)
{
    int ticks;

    if (!loop_until(&d->loop, condition, arg, &ticks))
        fail_msg("nothing came of it within %d ms; not ready because: %s", LOOP_TICKS_MAX, d->reason);
}

static bool has_ended(void *arg)
{
    const outcome *o = arg;

    return o->ends > 0;
}

void store_driver_wait(store_driver *d, const outcome *o)
{
    store_driver_until(d, has_ended, (void *)(uintptr_t)o);
}

outcome *store_driver_call(store_driver *d, const driver_call *call)
{
    outcome *o = store_driver_submit(d, call);

    store_driver_wait(d, o);
    return o;
}

static bool is_ready(void *arg)
{
    return ((store_driver *)arg)->ready;
}

static bool is_not_ready(void *arg)
{
    return !is_ready(arg);
}

void store_driver_wait_ready(store_driver *d, bool ready)
{
    store_driver_until(d, ready ? is_ready : is_not_ready, d);
}

bool store_driver_ready(const store_driver *d, const char **reason)
{
    store_view view;

    store_describe(d->store, &view);
    if (reason)
        *reason = view.fault.text;
    return view.ready;
}

unsigned store_driver_ups(const store_driver *d)
{
    return d->ups;
}

lks_reason store_driver_fault(const store_driver *d)
{
    return d->fault;
}

const char *store_driver_reason(const store_driver *d)
{
    return d->reason;
}

static void on_closed(void *arg)
{
    store_driver *d = arg;

    d->store = NULL;
    d->ready = false;
}

static bool is_closed(void *arg)
{
    return !((store_driver *)arg)->store;
}

void store_driver_close_store(store_driver *d)
{
    if (d->store) {
        store_close(d->store, on_closed, d);
        store_driver_until(d, is_closed, d);
    }
}

void store_driver_free(store_driver *d)
{
    store_driver_close_store(d);
    uv_run(&d->loop, UV_RUN_NOWAIT);
    assert_int_equal(uv_loop_close(&d->loop), 0);
    for (submitted *s = d->calls, *next; s; s = next) {
        next = s->next;
        assert_int_equal(s->outcome.ends, 1);
        free((char *)(uintptr_t)s->call.base.data);
        free(s);
    }
    lks_rpc_arena_free(d->arena);
    free(d);
}

static const store_value *element(const outcome *o, size_t i)
{
    return o->value && o->value->type == STORE_ARRAY && i < o->value->n ? &o->value->element[i] : NULL;
}

const char *outcome_text(const outcome *o, size_t i)
{
    const store_value *value = element(o, i);

    return value && value->type == STORE_STRING ? value->string.data : "";
}

long long outcome_number(const outcome *o, size_t i)
{
    const store_value *value = element(o, i);

    return value && value->type == STORE_INTEGER ? value->integer : -1;
}

void assert_outcome_at(const outcome *o, lks_code code, lks_applied applied, const char *file, int line)
{
    if (o->ends == 1 && !o->inside && o->code == code && o->applied == applied)
        return;
    print_error("%s:%d: expected %s, applied %s; ended %u times%s, with %s, applied %s: %s\n", file, line,
                lks_code_name(code), lks_applied_name(applied), o->ends, o->inside ? ", inside submit" : "",
                lks_code_name(o->code), lks_applied_name(o->applied), o->message);
    fail();
}
