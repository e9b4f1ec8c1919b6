/* What a server hears of the others on its store, from a store of the test's own. */
/* promise CL6 */

#include <uv.h>

#include "calls/peers.h"
#include "test.h"

#define NOTE "version=1.0 commit=abc policy=none wait-ms=1000"

struct store {
    char note[PEERS_NOTE_BYTES]; /* as it was asked with */
    store_done *done;
    void *arg;
    size_t n;
};

static struct {
    uv_loop_t loop;
    store store;
    peers *peers;
    size_t looks;
    char differs[PEERS_TEXT_BYTES]; /* empty: nothing */
} here;

void store_submit(store *s, const store_call *call, uint64_t deadline_ns, store_done *done, void *arg)
{
    (void)deadline_ns;
    assert_string_equal(call->function, "server_note");
    assert_int_equal(call->n_args, 3);
    snprintf(s->note, sizeof s->note, "%.*s", (int)call->args[1].len, call->args[1].data);
    s->done = done;
    s->arg = arg;
    s->n++;
}

static void on_look(void *arg, const char *differs)
{
    (void)arg;
    here.looks++;
    snprintf(here.differs, sizeof here.differs, "%s", differs ? differs : "");
}

static int setup(void **state)
{
    (void)state;
    memset(&here, 0, sizeof here);
    uv_loop_init(&here.loop);
    here.peers =
        peers_new(&(peers_options){.loop = &here.loop, .store = &here.store, .server = "server-a", .on_look = on_look});
    peers_note(here.peers, NOTE);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    peers_close(here.peers);
    uv_run(&here.loop, UV_RUN_DEFAULT);
    return uv_loop_close(&here.loop);
}

/* Looks, and is answered with n texts. */
static void look(size_t n, const char *const *texts)
{
    store_value elements[8];

    peers_begin(here.peers);
    for (size_t i = 0; i < n; i++)
        elements[i] = (store_value){.type = STORE_STRING, .string = {texts[i], strlen(texts[i])}};
    const store_value value = {.type = STORE_ARRAY, .n = n, .element = elements};
    here.store.done(here.store.arg, &(store_result){.code = LKS_OK, .value = &value});
}

#define LOOK(...) look(sizeof(const char *[]){__VA_ARGS__} / sizeof(const char *), (const char *const[]){__VA_ARGS__})

TEST_WITH(a_server_that_differs_is_told_until_it_is_gone, setup, teardown)
{
    LOOK("OK", "1000");
    assert_string_equal(here.store.note, NOTE);
    assert_string_equal(here.differs, "");
    LOOK("OK", "1500", "1400", "version=2.0 commit=abc policy=none wait-ms=900 other=1");
    assert_string_equal(here.differs, "another server on this store differs: version is 2.0 there and 1.0 here, "
                                      "wait-ms is 900 there and 1000 here");
    LOOK("OK", "2000");
    assert_string_equal(here.differs, "");
    assert_int_equal(here.looks, 3);
}

TEST_WITH(the_note_of_one_that_ended_before_counts_for_nothing, setup, teardown)
{
    LOOK("OK", "1000", "900", "wait-ms=900");
    assert_string_equal(here.differs, "");
    LOOK("OK", "1500", "900", "wait-ms=900");
    assert_string_equal(here.differs, "");
    LOOK("OK", "1500", "900", "wait-ms=900", "1001", "wait-ms=800");
    assert_string_equal(here.differs, "another server on this store differs: wait-ms is 800 there and 1000 here");
}

TEST_WITH(what_one_does_not_say_does_not_differ, setup, teardown)
{
    LOOK("OK", "1000");
    LOOK("OK", "1500", "1400", "version=1.0 commit= other=1");
    assert_string_equal(here.differs, "");
    LOOK("OK", "1500", "1400", "");
    assert_string_equal(here.differs, "");
}

TEST_WITH(an_answer_that_is_none_changes_nothing, setup, teardown)
{
    const store_value text = {.type = STORE_STRING, .string = {"OK", 2}};

    peers_begin(here.peers);
    here.store.done(here.store.arg, &(store_result){.code = LKS_UNAVAILABLE, .message = "away"});
    peers_begin(here.peers);
    here.store.done(here.store.arg, &(store_result){.code = LKS_OK, .value = &text});
    assert_int_equal(here.looks, 0);
    peers_begin(here.peers);
    peers_begin(here.peers);
    assert_int_equal(here.store.n, 3);
}

TEST_WITH(a_text_that_is_too_long_is_cut, setup, teardown)
{
    char long_note[PEERS_NOTE_BYTES], text[PEERS_TEXT_BYTES];
    size_t at = 0;

    for (int i = 0; at < sizeof long_note - 16; i++)
        at += (size_t)snprintf(long_note + at, sizeof long_note - at, "%sn%d=1", i ? " " : "", i);
    char other[PEERS_NOTE_BYTES];
    snprintf(other, sizeof other, "%s", long_note);
    for (char *c = other; *c; c++)
        if (*c == '1' && c[-1] == '=')
            *c = '2';
    assert_true(peers_differ(long_note, other, text));
    assert_int_equal(strlen(text), sizeof text - 1);
}

TEST_MAIN()
