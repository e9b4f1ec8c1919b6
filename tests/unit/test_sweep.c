/* The search for work that no server has on its list, over a store and a list of the
 * test's own, on a real loop. */
/* promise T13 */

#include <uv.h>

#include "calls/sweep.h"
#include "test.h"

enum { ASKED_MAX = 8, LONG_MS = 600000 };

struct store {
    char cursors[ASKED_MAX][32];
    char moves[ASKED_MAX][160]; /* each other call: function, base, arguments */
    size_t n_moves;
    store_done *done;
    void *arg;
    size_t n;
    uint16_t slot;
};

struct alarms {
    lks_rpc_slice lasting[4];
    const char *function;
    size_t n;
};

typedef struct fixture {
    uv_loop_t loop;
    store store;
    alarms alarms;
    sweep *sweep;
} fixture;

static uv_loop_t *running_loop;
static uint32_t n_parts = 1;

/* Parts begin at 0, 10, 20... */
bool store_part_from(const store *s, uint32_t from, store_part *ret)
{
    (void)s;
    ret->slot = (uint16_t)((from + 9) / 10 * 10);
    snprintf(ret->base, sizeof ret->base, "ls:{%u}:", (unsigned)ret->slot);
    return ret->slot < n_parts * 10;
}

void store_submit(store *s, const store_call *call, uint64_t deadline_ns, store_done *done, void *arg)
{
    (void)deadline_ns;
    assert_true(s->n < ASKED_MAX && s->n_moves < ASKED_MAX);
    s->done = done;
    s->arg = arg;
    uv_stop(running_loop);
    if (strcmp(call->function, "stock_find_overdue") != 0) {
        char *line = s->moves[s->n_moves++];
        int at = snprintf(line, sizeof s->moves[0], "%s %.*s", call->function, (int)call->base.len, call->base.data);
        for (size_t i = 0; i < call->n_args; i++)
            at += snprintf(line + at, sizeof s->moves[0] - (size_t)at, " %.*s", (int)call->args[i].len,
                           call->args[i].data);
        return;
    }
    memcpy(s->cursors[s->n++], call->args[0].data, call->args[0].len);
    assert_true(call->whole_shard);
    s->slot = call->slot;
}

void alarms_set(alarms *all, const service_alarm *what)
{
    assert_true(what->lasting);
    assert_int_equal(what->argument.len, 0);
    assert_int_equal(what->in_ms, 0);
    assert_string_equal(what->function, "stock_expire");
    all->lasting[all->n++] = what->base;
}

static void begin(fixture *f, uint64_t interval_ms)
{

    *f = (fixture){.sweep = NULL};
    uv_loop_init(&f->loop);
    running_loop = &f->loop;
    f->sweep = sweep_new(&f->loop, &f->store, &f->alarms, interval_ms);
}

static void end(fixture *f)
{
    sweep_close(f->sweep);
    while (uv_run(&f->loop, UV_RUN_DEFAULT)) /* a call may have stopped it before it ran */
        ;
    assert_int_equal(uv_loop_close(&f->loop), 0);
}

static void run_until_asked(fixture *f, size_t n)
{
    while (f->store.n < n)
        uv_run(&f->loop, UV_RUN_DEFAULT);
}

static void begin_pass(fixture *f, uint64_t interval_ms)
{
    begin(f, interval_ms);
    sweep_begin(f->sweep);
    run_until_asked(f, 1);
}

static void reply(fixture *f, const char *cursor, const char *base)
{
    const store_value elements[] = {
        {.type = STORE_STRING, .string = {"OK", 2}},
        {.type = STORE_STRING, .string = {cursor, strlen(cursor)}},
        {.type = STORE_STRING, .string = {base, base ? strlen(base) : 0}},
    };
    const store_value value = {.type = STORE_ARRAY, .n = base ? 3 : 2, .element = elements};
    const store_result result = {.code = LKS_OK, .value = &value};
    f->store.done(f->store.arg, &result);
}

TEST(a_pass_goes_through_all_and_what_it_finds_is_done)
{
    fixture f;
    begin_pass(&f, LONG_MS);
    assert_string_equal(f.store.cursors[0], "0");
    reply(&f, "17", NULL);
    run_until_asked(&f, 2);
    assert_string_equal(f.store.cursors[1], "17");
    reply(&f, "", "ls:{ns/g}:");
    assert_int_equal(f.alarms.n, 1);
    assert_memory_equal(f.alarms.lasting[0].data, "ls:{ns/g}:", 10);
    end(&f);
}

/* One after the other, each from its beginning; one that fails does not keep the next. */
/* promise T22 */
TEST(a_pass_goes_through_each_part)
{
    fixture f;
    const store_result failed = {.code = LKS_UNAVAILABLE, .message = "away"};
    n_parts = 3;
    begin_pass(&f, LONG_MS);
    assert_int_equal(f.store.slot, 0);
    reply(&f, "17", NULL);
    run_until_asked(&f, 2);
    assert_int_equal(f.store.slot, 0);
    reply(&f, "", NULL);
    run_until_asked(&f, 3);
    assert_int_equal(f.store.slot, 10);
    assert_string_equal(f.store.cursors[2], "0");
    f.store.done(f.store.arg, &failed);
    run_until_asked(&f, 4);
    assert_int_equal(f.store.slot, 20);
    reply(&f, "", NULL);
    uv_run(&f.loop, UV_RUN_NOWAIT);
    assert_int_equal(f.store.n, 4);
    n_parts = 1;
    end(&f);
}

/* Redis may be broken, or be no Redis: an answer of another shape ends the part. */
TEST(an_answer_of_another_shape_ends_the_part)
{
    static const store_value integers[] = {{.type = STORE_INTEGER}, {.type = STORE_INTEGER, .integer = 1}},
                             nils[] = {{.type = STORE_STRING, .string = {"OK", 2}},
                                       {.type = STORE_NIL},
                                       {.type = STORE_STRING, .string = {"ls:{ns/g}:", 10}}},
                             word[] = {{.type = STORE_STRING, .string = {"NO", 2}},
                                       {.type = STORE_STRING, .string = {"17", 2}}};
    static const store_value replies[] = {{.type = STORE_ARRAY, .n = 2, .element = integers},
                                          {.type = STORE_ARRAY, .n = 3, .element = nils},
                                          {.type = STORE_ARRAY, .n = 2, .element = word},
                                          {.type = STORE_ARRAY, .n = 1, .element = word},
                                          {.type = STORE_INTEGER, .integer = 1}};

    for (size_t i = 0; i < sizeof replies / sizeof *replies; i++) {
        fixture f;
        begin_pass(&f, 1);
        f.store.done(f.store.arg, &(store_result){.code = LKS_OK, .value = &replies[i]});
        run_until_asked(&f, 2);
        assert_string_equal(f.store.cursors[1], "0");
        assert_int_equal(f.alarms.n, 0);
        reply(&f, "", NULL);
        end(&f);
    }
}

TEST(passes_follow_each_other)
{
    fixture f;
    begin_pass(&f, 1);
    reply(&f, "", NULL);
    run_until_asked(&f, 2);
    assert_string_equal(f.store.cursors[1], "0");
    reply(&f, "", NULL);
    end(&f);
}

TEST(one_pass_at_a_time)
{
    fixture f;
    begin_pass(&f, LONG_MS);
    sweep_begin(f.sweep);
    uv_run(&f.loop, UV_RUN_NOWAIT);
    assert_int_equal(f.store.n, 1);
    reply(&f, "", NULL);
    sweep_begin(f.sweep);
    run_until_asked(&f, 2);
    reply(&f, "", NULL);
    end(&f);
}

/* The pass is given up; the next begins in its time. */
TEST(a_store_that_fails_is_asked_again_later)
{
    fixture f;
    const store_result failed = {.code = LKS_UNAVAILABLE, .message = "away"};
    begin_pass(&f, 1);
    reply(&f, "17", NULL);
    run_until_asked(&f, 2);
    f.store.done(f.store.arg, &failed);
    run_until_asked(&f, 3);
    assert_string_equal(f.store.cursors[2], "0");
    reply(&f, "", NULL);
    end(&f);
}

TEST(nothing_begins_after_the_stop)
{
    fixture f;
    begin_pass(&f, 1);
    sweep_stop(f.sweep);
    reply(&f, "17", NULL);
    sweep_begin(f.sweep);
    uv_run(&f.loop, UV_RUN_DEFAULT); /* returns: no timer runs */
    assert_int_equal(f.store.n, 1);
    end(&f);
}

/* Of the units of "a b" that bucket 1 of 2 sends to the pool, and of others. */
static void reply_with_moves(fixture *f)
{
#define TEXT(text)                                                 \
    {                                                              \
        .type = STORE_STRING, .string = { text, sizeof(text) - 1 } \
    }
    static const store_value
        move[] = {TEXT("ls:{ns/g/2/100}:"), TEXT("a b"), TEXT("0"), TEXT("7"), TEXT("3"), TEXT("5")},
        other[] = {TEXT("ls:{ns/g/2/0}:"), TEXT("c"), TEXT("2"), TEXT("8"), TEXT("1"), TEXT("6")},
        foreign[] = {TEXT("ls:{ns/g/2/99}:"), TEXT("c"), TEXT("1"), TEXT("8"), TEXT("1"), TEXT("6")};
    static const store_value elements[] = {TEXT("OK"),
                                           TEXT("17"),
                                           {.type = STORE_ARRAY, .n = 6, .element = move},
                                           {.type = STORE_ARRAY, .n = 6, .element = foreign},
                                           TEXT("ls:{ns/h}:"),
                                           {.type = STORE_ARRAY, .n = 6, .element = other}};
    static const store_value value = {.type = STORE_ARRAY, .n = 6, .element = elements};
    f->store.done(f->store.arg, &(store_result){.code = LKS_OK, .value = &value});
}

static void reply_to_move(fixture *f, const char *word)
{
    const store_value element = {.type = STORE_STRING, .string = {word, strlen(word)}},
                      value = {.type = STORE_ARRAY, .n = 1, .element = &element};
    f->store.done(f->store.arg, &(store_result){.code = LKS_OK, .value = &value});
}

/* promise SB24 */
TEST(units_on_their_way_are_taken_and_then_forgotten)
{
    fixture f;
    begin_pass(&f, LONG_MS);
    reply_with_moves(&f);
    assert_int_equal(f.alarms.n, 1);
    assert_int_equal(f.store.n_moves, 1);
    assert_string_equal(f.store.moves[0], "stock_receive ls:{ns/g/2/0}: a b 1 0 7 3 5");
    sweep_begin(f.sweep); /* the step is not over */
    reply_to_move(&f, "OK");
    assert_string_equal(f.store.moves[1], "stock_sent ls:{ns/g/2/100}: a b 0 7");
    reply_to_move(&f, "OK");
    assert_string_equal(f.store.moves[2], "stock_receive ls:{ns/g/2/102}: c 0 2 8 1 6");
    reply_to_move(&f, "OK");
    assert_string_equal(f.store.moves[3], "stock_sent ls:{ns/g/2/0}: c 2 8");
    assert_int_equal(f.store.n, 1);
    reply_to_move(&f, "OK");
    run_until_asked(&f, 2);
    assert_string_equal(f.store.cursors[1], "17");
    reply(&f, "", NULL);
    end(&f);
}

/* promise SB24 */
TEST(units_that_are_not_taken_are_not_forgotten)
{
    fixture f;
    begin_pass(&f, LONG_MS);
    reply_with_moves(&f);
    reply_to_move(&f, "NO_ITEM");
    assert_string_equal(f.store.moves[1], "stock_receive ls:{ns/g/2/102}: c 0 2 8 1 6");
    f.store.done(f.store.arg, &(store_result){.code = LKS_UNAVAILABLE, .message = "away"});
    run_until_asked(&f, 2);
    assert_int_equal(f.store.n_moves, 2);
    reply(&f, "", NULL);
    end(&f);
}

TEST(nothing_is_brought_home_after_the_stop)
{
    fixture f;
    begin_pass(&f, LONG_MS);
    reply_with_moves(&f);
    sweep_stop(f.sweep);
    reply_to_move(&f, "OK");
    assert_int_equal(f.store.n_moves, 1);
    end(&f);
}

TEST_MAIN()
