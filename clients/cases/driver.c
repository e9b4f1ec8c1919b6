/* The driver of the C client for clients/cases/run.py (README.md). Each command runs on its own thread. Memory that the
 * end of the process frees is not freed. */
#include <jansson.h>
#include <lockstock/lockstock.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A channel or a lock, by the name that commands give it. The latest with a name is used. */
struct thing {
    struct thing *next;
    const char *name;
    lks_channel *channel;
    lks_hold *hold;
    bool lost; /* on_lost was called */
};

struct command {
    json_t *ask;
    struct thing *thing;
    bool ran; /* the function of `once` has run */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct thing *things;

static const char *text(const struct command *c, const char *name)
{
    const char *value = json_string_value(json_object_get(c->ask, name));

    return value ? value : "";
}

static uint32_t ms(const struct command *c, const char *name)
{
    return (uint32_t)(json_number_value(json_object_get(c->ask, name)) * 1000);
}

static struct thing *new_thing(const char *name)
{
    struct thing *thing = calloc(1, sizeof *thing);

    thing->name = name;
    pthread_mutex_lock(&lock);
    thing->next = things;
    things = thing;
    pthread_mutex_unlock(&lock);
    return thing;
}

static struct thing *find(const struct command *c, const char *kind)
{
    const char *name = text(c, kind);

    pthread_mutex_lock(&lock);
    struct thing *thing = things;
    while (thing && strcmp(thing->name, name) != 0)
        thing = thing->next;
    pthread_mutex_unlock(&lock);
    if (!thing)
        abort();
    return thing;
}

static lks_channel *channel_of(const struct command *c)
{
    return find(c, "client")->channel;
}

/* ---- answers -------------------------------------------------------------------- */

static void answer(const struct command *c, json_t *told)
{
    json_object_set(told, "seq", json_object_get(c->ask, "seq"));
    char *line = json_dumps(told, JSON_COMPACT);

    pthread_mutex_lock(&lock);
    puts(line);
    fflush(stdout);
    pthread_mutex_unlock(&lock);
    free(line);
    json_decref(told);
}

static void fail_with(const struct command *c, const char *class, const lks_error *error, const char *detail)
{
    char reason[64];

    snprintf(reason, sizeof reason, "%s", lks_reason_name(error->reason));
    answer(c, json_pack("{ss ss ss ss ss ss ss}", "error", class, "code", lks_code_name(error->code), "applied",
                        lks_applied_name(error->applied), "reason", reason, "field", error->field, "text",
                        error->message, "detail", detail));
}

/* ---- locks ---------------------------------------------------------------------- */

static void on_lost(void *arg, const lks_lock_loss *loss)
{
    struct thing *thing = arg;

    (void)loss;
    pthread_mutex_lock(&lock);
    thing->lost = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void granted(void *arg, lks_hold *hold, lks_lock_result result, const lks_error *error)
{
    static const char *const classes[] = {[LKS_LOCK_BUSY] = "LockBusy",
                                          [LKS_LOCK_TIMED_OUT] = "LockTimedOut",
                                          [LKS_LOCK_LOST] = "LockLost",
                                          [LKS_LOCK_FAILED] = "CallError"};
    const struct command *c = arg;

    if (result == LKS_LOCK_ACQUIRED)
        answer(c, json_pack("{sI}", "fence", (json_int_t)lks_hold_fence(hold, 0)));
    else
        fail_with(c, classes[result], error, "");
}

static void do_lock(struct command *c)
{
    const json_t *names = json_object_get(c->ask, "names");
    const char *list[16];
    int64_t capacity = json_integer_value(json_object_get(c->ask, "capacity"));
    lks_error error;

    if (json_array_size(json_object_get(c->ask, "shared")) > 0) { /* a hold has one mode for all its names */
        answer(c, json_pack("{ss}", "error", "Unsupported"));
        return;
    }
    for (size_t i = 0; i < json_array_size(names); i++)
        list[i] = json_string_value(json_array_get(names, i));
    struct thing *thing = new_thing(text(c, "id"));
    const lks_hold_options options = {.names = list,
                                      .n_names = json_array_size(names),
                                      .group = text(c, "group"),
                                      .mode = capacity ? LKS_LOCK_MODE_PERMIT : LKS_LOCK_MODE_EXCLUSIVE,
                                      .permits = capacity ? 1 : 0,
                                      .capacity = capacity,
                                      .lease_ms = ms(c, "lease"),
                                      .wait_ms = ms(c, "wait"),
                                      .max_hold_ms = ms(c, "max_hold"),
                                      .on_lost = on_lost,
                                      .arg = thing};
    if (lks_hold_acquire(channel_of(c), &options, granted, c, &thing->hold, &error) != LKS_OK)
        fail_with(c, "CallError", &error, "");
}

static void released(void *arg, lks_code code, const lks_error *error)
{
    /* Without an answer, the Release continues in the background. */
    if (code == LKS_OK || code == LKS_UNAVAILABLE || code == LKS_DEADLINE_EXCEEDED)
        answer(arg, json_object());
    else
        fail_with(arg, code == LKS_ABORTED ? "LockLost" : "CallError", error, "");
}

static void do_release(struct command *c)
{
    lks_error error;

    if (lks_hold_release(find(c, "id")->hold, 0, released, c, &error) != LKS_OK)
        fail_with(c, "CallError", &error, "");
}

static void do_state(struct command *c)
{
    const lks_hold *hold = find(c, "id")->hold;

    answer(c, json_pack("{sb sf}", "lost", lks_hold_is_lost(hold), "remaining", lks_hold_left_ms(hold) / 1000.0));
}

static void do_lost(struct command *c)
{
    const struct thing *thing = find(c, "id");

    pthread_mutex_lock(&lock);
    while (!thing->lost)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    answer(c, json_object());
}

/* ---- entries ---------------------------------------------------------------------- */

static void do_enter(struct command *c)
{
    const json_t *names = json_object_get(c->ask, "names");
    lks_enter_request request = LKS_ENTER_REQUEST_INIT;
    lks_leave_request end = LKS_LEAVE_REQUEST_INIT;
    lks_guard_locks locks = LKS_GUARD_LOCKS_INIT;
    lks_target target[16], *targets[16];
    lks_entry *entry;
    lks_error error;

    locks.n_targets = json_array_size(names);
    locks.targets = targets;
    for (size_t i = 0; i < locks.n_targets; i++) {
        target[i] = (lks_target)LKS_TARGET_INIT;
        target[i].name = json_string_value(json_array_get(names, i));
        targets[i] = &target[i];
    }
    request.locks = &locks;
    request.lease_ms = ms(c, "lease");
    request.wait_ms = ms(c, "wait");
    end.kind = LKS_LEAVE_KIND_COMPLETE;
    lks_enter_outcome outcome = lks_enter(channel_of(c), &request, &entry, &error);
    if (outcome == LKS_ENTER_OUTCOME_ENTERED && lks_leave(entry, &end, &error) == LKS_LEAVE_OUTCOME_LEFT)
        answer(c, json_object());
    else if (outcome == LKS_ENTER_OUTCOME_ENTERED || outcome == LKS_ENTER_OUTCOME_UNSPECIFIED)
        fail_with(c, "CallError", &error, "");
    else
        fail_with(c, "EnterRefused", &error, "");
}

/* ---- the other services ----------------------------------------------------------- */

static void do_deduct(struct command *c)
{
    lks_deduct_request request = LKS_DEDUCT_REQUEST_INIT;
    lks_deduct_response *response = NULL;
    lks_line line = LKS_LINE_INIT, *lines[] = {&line};
    lks_error error;

    request.order_id = (char *)(uintptr_t)text(c, "order");
    line.sku = (char *)(uintptr_t)text(c, "sku");
    line.quantity = json_integer_value(json_object_get(c->ask, "quantity"));
    request.n_lines = 1;
    request.lines = lines;
    if (lks_stock_deduct(channel_of(c), &request, NULL, &response, &error) != LKS_OK)
        fail_with(c, "CallError", &error, "");
    else if (response->outcome == LKS_DEDUCT_OUTCOME_DEDUCTED)
        answer(c, json_pack("{sb}", "replayed", response->replayed));
    else
        answer(c, json_pack("{ss ss}", "error",
                            response->outcome == LKS_DEDUCT_OUTCOME_SOLD_OUT ? "SoldOut" : "StockRefused", "outcome",
                            lks_deduct_outcome_name(response->outcome)));
}

static lks_once_verdict run_once(void *arg, lks_once_attempt *attempt)
{
    struct command *c = arg;
    const char *raise = text(c, "raise");

    c->ran = true;
    lks_once_set_detail(attempt, "as told");
    if (*raise)
        return strcmp(raise, "error") == 0 ? LKS_ONCE_RETRY : LKS_ONCE_GIVE_UP;
    char *result = json_dumps(json_object_get(c->ask, "result"), JSON_ENCODE_ANY);
    lks_code code = lks_once_return(attempt, 0, result, strlen(result));
    free(result);
    return code == LKS_OK ? LKS_ONCE_STORE : LKS_ONCE_GIVE_UP;
}

static void do_once(struct command *c)
{
    const lks_once_options options = {
        .scope = "cases", .key = text(c, "key"), .lease_ms = ms(c, "lease"), .wait_ms = ms(c, "wait")};
    lks_once_result *result = NULL;
    lks_error error;
    lks_once_outcome outcome = lks_once_run(channel_of(c), &options, run_once, c, &result, &error);

    if (outcome > LKS_ONCE_REPLAYED)
        fail_with(c, outcome == LKS_ONCE_FAILED ? "CallError" : "OnceNotStored", &error, "");
    else if (result->failure)
        fail_with(c, "OnceFailed", &(lks_error){.code = LKS_OK}, result->failure);
    else
        answer(c, json_pack("{so sb}", "result", json_loads(result->body, JSON_DECODE_ANY, NULL), "ran", c->ran));
}

static void do_limit(struct command *c)
{
    lks_limit limit = LKS_LIMIT_INIT;
    const lks_limiter_rule rule = {.limit = &limit};
    const lks_limiter_options options = {.rules = &rule, .n_rules = 1};
    lks_limiter *limiter;
    lks_error error;

    limit.algorithm = LKS_ALGORITHM_SLIDING_WINDOW;
    limit.limit = json_integer_value(json_object_get(c->ask, "limit"));
    limit.period_ms = ms(c, "period");
    if (lks_limiter_new(channel_of(c), &options, &limiter, &error) != LKS_OK)
        abort();
    bool allowed = lks_limiter_allow(limiter, text(c, "key"), 1, NULL, &error);
    if (error.code == LKS_OK)
        answer(c, json_pack("{sb}", "allowed", allowed));
    else
        fail_with(c, "CallError", &error, "");
}

static void do_reserve(struct command *c)
{
    const lks_reservation_line line = {.sku = text(c, "sku"),
                                       .quantity = json_integer_value(json_object_get(c->ask, "quantity"))};
    const lks_reservation_order order = {.order_id = text(c, "order"), .lines = &line, .n_lines = 1, .hold_ms = 60000};
    lks_reservation *reservation = NULL;
    lks_error error;

    if (lks_reservation_make(channel_of(c), &order, &reservation, &error) != LKS_RESERVE_OUTCOME_RESERVED ||
        (json_is_true(json_object_get(c->ask, "confirm")) &&
         lks_reservation_confirm(reservation, false, &error) != LKS_CONFIRM_OUTCOME_CONFIRMED))
        fail_with(c, "CallError", &error, "");
    else
        answer(c, json_object());
    lks_reservation_free(reservation);
}

/* ---- commands ---------------------------------------------------------------------- */

static void do_connect(struct command *c)
{
    lks_channel *channel = NULL;
    lks_error error;

    if (lks_channel_open(text(c, "url"), NULL, &channel, &error) != LKS_OK) {
        fail_with(c, "CallError", &error, "");
        return;
    }
    new_thing(text(c, "client"))->channel = channel;
    answer(c, json_object());
}

static void *run(void *arg)
{
    static const struct {
        const char *name;
        void (*run)(struct command *c);
    } commands[] = {{"connect", do_connect}, {"lock", do_lock},     {"release", do_release}, {"state", do_state},
                    {"lost", do_lost},       {"deduct", do_deduct}, {"once", do_once},       {"limit", do_limit},
                    {"reserve", do_reserve}, {"enter", do_enter}};
    struct command *c = arg;

    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(commands[i].name, text(c, "do")) == 0) {
            commands[i].run(c);
            return NULL;
        }
    }
    answer(c, json_pack("{ss}", "error", "Unsupported"));
    return NULL;
}

int main(void)
{
    json_t *ask;

    while ((ask = json_loadf(stdin, JSON_DISABLE_EOF_CHECK, NULL))) {
        struct command *c = calloc(1, sizeof *c);
        pthread_t thread;

        c->ask = ask;
        if (pthread_create(&thread, NULL, run, c) != 0)
            return 1;
        pthread_detach(thread);
    }
    return 0;
}
