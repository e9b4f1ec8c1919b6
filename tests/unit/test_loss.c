/* The watch for data loss of the store, on a real loop. */
/* promise L55 */

#include "asked_store.h"
#include "calls/loss.h"

struct waiters {
    bool any;
    size_t woken;
};

static uv_loop_t loop;
static store asked;
static waiters waiting;
static loss *watch;

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
    uv_loop_init(&loop);
    asked = (store){.loop = &loop};
    waiting = (waiters){.any = true};
    watch = loss_new(&loop, &asked, &waiting);
    return 0;
}

static int teardown(void **state)
{
    loss_close(watch);
    while (uv_run(&loop, UV_RUN_DEFAULT))
        ;
    return uv_loop_close(&loop);
}

/* The reply to the next question, NULL: the store is away; how often all have been woken then. */
static void answers(const char *reply, size_t woken)
{
    assert_int_equal(strncmp(asked_next(&asked), "mark_read ls:{0}: ", strlen("mark_read ls:{0}: ")), 0);
    if (reply)
        asked_answer(&asked, reply);
    else
        asked_fail(&asked, LKS_UNAVAILABLE);
    assert_int_equal(waiting.woken, woken);
}

TEST(another_mark_wakes_everyone)
{
    loss_begin(watch);
    answers("OK first", 0);
    answers("OK first", 0);
    answers("OK second", 1);
    answers("OK second", 1);
}

TEST(first_mark_is_requested_without_waiters)
{
    waiting.any = false;
    loss_begin(watch);
    answers("OK first", 0);
    uv_run(&loop, UV_RUN_ONCE); /* the timer */
    assert_int_equal(asked.n, 1);
}

/* Redis may fail, be broken, or be no Redis. */
/* promise T13 */
TEST(invalid_mark_is_ignored)
{
    static const char *const replies[] = {NULL, "OK 0", "OK", "=1"};

    loss_begin(watch);
    answers("OK first", 0);
    for (size_t i = 0; i < sizeof replies / sizeof *replies; i++)
        answers(replies[i], 0);
    answers("OK first", 0);
}

TEST(each_offer_is_another)
{
    char first[ASKED_TEXT_BYTES];

    loss_begin(watch);
    strcpy(first, asked_next(&asked));
    asked_answer(&asked, "OK first");
    assert_string_not_equal(asked_next(&asked), first);
}

/* Each has a mark of its own; a part that does not answer keeps no other from being asked. */
/* promise T22: in Redis Cluster a call goes to the primary with the newest claim to its slot, MOVED is followed, a
 * moving slot is waited for and reported if that takes long; a dead shard leaves the others; lists and sweeps cover
 * all nodes and miss no moving slot */
TEST(each_part_of_the_store_is_asked)
{
    static const struct {
        const char *base, *mark;
        uint32_t n_parts; /* at this question; the second part is missing at the end */
    } questions[] = {
        {"ls:{0}:", NULL, 2}, {"ls:{10}:", "OK second", 2}, {"ls:{10}:", "OK second", 1}, {"ls:{0}:", "OK another", 1}};

    asked.n_parts = 2;
    loss_begin(watch);
    for (size_t i = 0; i < 4; i++) {
        while (asked.n <= i)
            uv_run(&loop, UV_RUN_DEFAULT);
        assert_memory_equal(asked.asked[i].call->base.data, questions[i].base, strlen(questions[i].base));
        asked.n_parts = questions[i].n_parts;
        if (i == 2)
            asked_answer_at(&asked, 0, "OK first");
        assert_int_equal(waiting.woken, 0);
        if (questions[i].mark)
            asked_answer_at(&asked, i, questions[i].mark);
    }
    assert_int_equal(waiting.woken, 1);
}

TEST(one_question_at_a_time_and_none_after_the_stop)
{
    loss_begin(watch);
    loss_begin(watch); /* the subscription is established again */
    assert_int_equal(asked.n, 1);
    loss_stop(watch);
    answers("OK first", 0);
    uv_run(&loop, UV_RUN_DEFAULT); /* returns: no timer runs */
    assert_int_equal(asked.n, 1);
}

TEST_MAIN(.setup = setup, .teardown = teardown)
