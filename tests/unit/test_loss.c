/* The watch for data loss of the store. */
/* promise L55 */

#include "asked_store.h"
#include "calls/loss.h"

struct waiters {
    size_t woken;
};

static store asked;
static waiters waiting;
static loss *watch;

void waiters_missed(waiters *all)
{
    all->woken++;
}

static char told[128]; /* the last text for people */

static void on_loss(void *arg, const char *text)
{
    assert_ptr_equal(arg, &asked);
    snprintf(told, sizeof told, "%s", text);
}

static int setup(void **state)
{
    asked = (store){0};
    waiting = (waiters){0};
    told[0] = '\0';
    watch = loss_new(&asked, &waiting, on_loss, &asked);
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

/* The same if no call waits. */
TEST(another_mark_is_a_loss)
{
    loss_look(watch);
    answers("OK first", 0);
    answers("OK first", 0);
    assert_string_equal(told, "");
    answers("OK second", 1);
    static const char text[] = "all data of the primary with slot 0 was lost, noticed at 2";
    assert_memory_equal(told, text, sizeof text - 1);
    asked_expect(&asked, "mark_layout ls:{meta}: 3");
    asked_fail(&asked, LKS_RESOURCE_EXHAUSTED);
    loss_look(watch); /* tries again */
    asked_expect(&asked, "mark_layout ls:{meta}: 3");
    asked_answer(&asked, "OK");
    asked_answer(&asked, "OK second");
    answers("OK second", 1);
    assert_int_equal(asked.answered, asked.n);
    assert_int_equal(loss_found(watch), 1);
}

/* Redis may fail, be broken, or be no Redis. */
/* promise T13 */
TEST(invalid_mark_is_ignored)
{
    static const char *const replies[] = {NULL, "OK 0", "OK", "=1"};

    loss_look(watch);
    answers("OK first", 0);
    for (size_t i = 0; i < sizeof replies / sizeof *replies; i++)
        answers(replies[i], 0);
    answers("OK first", 0);
}

TEST(each_offer_is_another)
{
    char first[ASKED_TEXT_BYTES];

    loss_look(watch);
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
    loss_look(watch);
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
    loss_look(watch);
    loss_look(watch); /* the subscription is established again */
    answers("OK first", 0);
    assert_int_equal(asked.n, 1);
}

TEST_MAIN(.setup = setup, .teardown = teardown)
