/* The watch over what the store keeps, with a store and waiters of the test's own, on a
 * real loop. */
/* promise L55 */

#include <uv.h>

#include "calls/loss.h"
#include "test.h"

struct store {
    char offered[64];
    store_done *done;
    void *arg;
    size_t n;
    struct {
        store_done *done;
        void *arg;
        char base[STORE_BASE_BYTES];
    } asked[16]; /* the n-th */
};

struct waiters {
    bool any;
    size_t woken;
};

typedef struct fixture {
    uv_loop_t loop;
    store store;
    waiters waiters;
    loss *loss;
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
    assert_string_equal(call->function, "mark_read");
    assert_int_equal(call->n_args, 1);
    assert_true(call->args[0].len < sizeof s->offered);
    memset(s->offered, 0, sizeof s->offered);
    memcpy(s->offered, call->args[0].data, call->args[0].len);
    s->done = done;
    s->arg = arg;
    if (s->n < sizeof s->asked / sizeof s->asked[0]) {
        s->asked[s->n].done = done;
        s->asked[s->n].arg = arg;
        memcpy(s->asked[s->n].base, call->base.data, call->base.len);
    }
    s->n++;
    uv_stop(running_loop);
}

bool waiters_any(const waiters *all)
{
    return all->any;
}

void waiters_missed(waiters *all)
{
    all->woken++;
}

static int setup(void **state)
{
    static fixture f;

    f = (fixture){.loss = NULL};
    uv_loop_init(&f.loop);
    running_loop = &f.loop;
    *state = &f;
    f.loss = loss_new(&f.loop, &f.store, &f.waiters);
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;

    loss_close(f->loss);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    return uv_loop_close(&f->loop);
}

static void run_until_asked(fixture *f, size_t n)
{
    while (f->store.n < n)
        uv_run(&f->loop, UV_RUN_DEFAULT);
}

static void answer_mark(fixture *f, const char *mark)
{
    const store_value elements[] = {{.type = STORE_STRING, .string = {"OK", 2}},
                                    {.type = STORE_STRING, .string = {mark, strlen(mark)}}};
    const store_value value = {.type = STORE_ARRAY, .n = 2, .element = elements};
    const store_result result = {.code = LKS_OK, .value = &value};
    f->store.done(f->store.arg, &result);
}

TEST(another_mark_wakes_everyone)
{
    fixture *f = *state;
    f->waiters.any = true;
    loss_begin(f->loss);
    run_until_asked(f, 1);
    answer_mark(f, "first");
    assert_int_equal(f->waiters.woken, 0);
    run_until_asked(f, 2);
    answer_mark(f, "first");
    assert_int_equal(f->waiters.woken, 0);
    run_until_asked(f, 3);
    answer_mark(f, "second");
    assert_int_equal(f->waiters.woken, 1);
    run_until_asked(f, 4);
    answer_mark(f, "second");
    assert_int_equal(f->waiters.woken, 1);
}

TEST(the_mark_is_asked_for_at_first_though_nobody_waits)
{
    fixture *f = *state;
    loss_begin(f->loss);
    assert_int_equal(f->store.n, 1);
    answer_mark(f, "first");
    uv_run(&f->loop, UV_RUN_ONCE); /* the timer */
    assert_int_equal(f->store.n, 1);
}

TEST(a_store_that_fails_says_nothing)
{
    fixture *f = *state;
    const store_result failed = {.code = LKS_UNAVAILABLE, .applied = LKS_APPLIED_NO, .message = ""};
    f->waiters.any = true;
    loss_begin(f->loss);
    answer_mark(f, "first");
    run_until_asked(f, 2);
    f->store.done(f->store.arg, &failed);
    run_until_asked(f, 3);
    answer_mark(f, "first");
    assert_int_equal(f->waiters.woken, 0);
}

/* Redis may be broken, or be no Redis. */
/* promise T13 */
TEST(an_answer_of_another_shape_is_no_mark)
{
    fixture *f = *state;
    static const store_value elements[] = {{.type = STORE_STRING, .string = {"OK", 2}}, {.type = STORE_INTEGER}};
    static const store_value value = {.type = STORE_ARRAY, .n = 2, .element = elements};

    f->waiters.any = true;
    loss_begin(f->loss);
    answer_mark(f, "first");
    run_until_asked(f, 2);
    f->store.done(f->store.arg, &(store_result){.code = LKS_OK, .value = &value});
    run_until_asked(f, 3);
    answer_mark(f, "first");
    assert_int_equal(f->waiters.woken, 0);
}

TEST(each_offer_is_another)
{
    fixture *f = *state;
    char first[sizeof f->store.offered];
    f->waiters.any = true;
    loss_begin(f->loss);
    memcpy(first, f->store.offered, sizeof first);
    answer_mark(f, "first");
    run_until_asked(f, 2);
    assert_string_not_equal(f->store.offered, first);
    answer_mark(f, "first");
}

/* Each has a mark of its own; a part that does not answer keeps no other from being asked. */
/* promise T22: in Redis Cluster a call goes to the primary that has its slot by the newest claim, MOVED is followed,
 * a slot that moves is waited for, and told of when that is for long; a dead part leaves the others; groups, locks
 * and overdue holds of all nodes are found, and slots that move meanwhile are not missed */
TEST(each_part_of_the_store_is_asked)
{
    fixture *f = *state;
    n_parts = 2;
    f->waiters.any = true;
    loss_begin(f->loss);
    assert_int_equal(f->store.n, 2);
    assert_string_equal(f->store.asked[0].base, "ls:{0}:");
    assert_string_equal(f->store.asked[1].base, "ls:{10}:");
    answer_mark(f, "second's");
    run_until_asked(f, 3);
    assert_string_equal(f->store.asked[2].base, "ls:{10}:");
    answer_mark(f, "second's");
    assert_int_equal(f->waiters.woken, 0);
    f->store.done = f->store.asked[0].done;
    f->store.arg = f->store.asked[0].arg;
    answer_mark(f, "first's");
    assert_int_equal(f->waiters.woken, 0);
    n_parts = 1; /* the second is none any more */
    run_until_asked(f, 4);
    assert_string_equal(f->store.asked[3].base, "ls:{0}:");
    answer_mark(f, "another");
    assert_int_equal(f->waiters.woken, 1);
}

TEST(one_question_at_a_time_and_none_after_the_stop)
{
    fixture *f = *state;
    f->waiters.any = true;
    loss_begin(f->loss);
    loss_begin(f->loss); /* the store is heard once more */
    assert_int_equal(f->store.n, 1);
    loss_stop(f->loss);
    answer_mark(f, "first");
    uv_run(&f->loop, UV_RUN_DEFAULT); /* returns: no timer runs */
    assert_int_equal(f->store.n, 1);
}

TEST_MAIN(.setup = setup, .teardown = teardown)
