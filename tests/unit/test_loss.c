/* The watch for data loss of the store. */
/* promise L55 */

#include "asked_store.h"
#include "calls/loss.h"

struct waiters {
    bool any;
    size_t woken;
};

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
    asked = (store){0};
    waiting = (waiters){.any = true};
    watch = loss_new(&asked, &waiting);
    return 0;
}

static int teardown(void **state)
{
    loss_free(watch);
    return 0;
}

/* The reply to the next question, NULL: the store is away; how often all have been woken then. */
static void answers(const char *reply, size_t woken)
{
    loss_look(watch); /* a second has passed */
    assert_int_equal(strncmp(asked_next(&asked), "mark_read ls:{0}: ", strlen("mark_read ls:{0}: ")), 0);
    if (reply)
        asked_answer(&asked, reply);
    else
        asked_fail(&asked, LKS_UNAVAILABLE);
    assert_int_equal(waiting.woken, woken);
}

TEST(another_mark_wakes_everyone)
{
    loss_look_now(watch);
    answers("OK first", 0);
    answers("OK first", 0);
    answers("OK second", 1);
    answers("OK second", 1);
}

TEST(first_mark_is_requested_without_waiters)
{
    waiting.any = false;
    loss_look(watch);
    assert_int_equal(asked.n, 0);
    loss_look_now(watch);
    answers("OK first", 0);
    assert_int_equal(asked.n, 1);
}

/* Redis may fail, be broken, or be no Redis. */
/* promise T13 */
TEST(invalid_mark_is_ignored)
{
    static const char *const replies[] = {NULL, "OK 0", "OK", "=1"};

    loss_look_now(watch);
    answers("OK first", 0);
    for (size_t i = 0; i < sizeof replies / sizeof *replies; i++)
        answers(replies[i], 0);
    answers("OK first", 0);
}

TEST(each_offer_is_another)
{
    char first[ASKED_TEXT_BYTES];

    loss_look_now(watch);
    strcpy(first, asked_next(&asked));
    asked_answer(&asked, "OK first");
    loss_look(watch);
    assert_string_not_equal(asked_next(&asked), first);
    asked_answer(&asked, "OK first");
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
    loss_look_now(watch);
    for (size_t i = 0; i < 4; i++) {
        loss_look(watch);
        assert_true(asked.n > i);
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

TEST(one_question_at_a_time)
{
    loss_look_now(watch);
    loss_look_now(watch); /* the subscription is established again */
    answers("OK first", 0);
    assert_int_equal(asked.n, 1);
}

TEST_MAIN(.setup = setup, .teardown = teardown)
