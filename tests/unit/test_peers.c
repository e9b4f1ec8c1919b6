/* What a server learns of the others on its store. */
/* promise CL6 */

#include "asked_store.h"
#include "calls/peers.h"

#define NOTE "version=1.0 commit=abc policy=none wait-ms=1000"
#define DIFFERS "another server on this store differs: "

static store asked;
static peers *others;
static size_t looks;
static char differs[PEERS_TEXT_BYTES]; /* empty: nothing */

static void on_look(void *arg, const char *text)
{
    looks++;
    snprintf(differs, sizeof differs, "%s", text ? text : "");
}

static int setup(void **state)
{
    looks = 0;
    asked = (store){0};
    others = peers_new(&(peers_options){.store = &asked, .server = "server-a", .on_look = on_look});
    peers_note(others, NOTE);
    return 0;
}

static int teardown(void **state)
{
    peers_free(others);
    return 0;
}

static void look(const char *reply, const char *expected)
{
    peers_look(others);
    asked_expect(&asked, "server_note " STORE_META_BASE " server-a " NOTE " 5000");
    asked_answer(&asked, reply);
    assert_string_equal(differs, expected);
}

TEST(differing_server_is_reported_until_it_ends)
{
    look("OK '1000'", "");
    look("OK '1500' '1400' 'version=2.0 commit=abc policy=none wait-ms=900 other=1'",
         DIFFERS "version is 2.0 there and 1.0 here, wait-ms is 900 there and 1000 here");
    look("OK '2000'", "");
    assert_int_equal(looks, 3);
}

TEST(note_of_a_server_that_ended_is_ignored)
{
    look("OK '1000' '900' wait-ms=900", "");
    look("OK '1500' '900' wait-ms=900", "");
    look("OK '1500' '900' wait-ms=900 '1001' wait-ms=800", DIFFERS "wait-ms is 800 there and 1000 here");
}

TEST(missing_setting_is_not_a_difference)
{
    look("OK '1000'", "");
    look("OK '1500' '1400' 'version=1.0 commit= other=1'", "");
    look("OK '1500' '1400' ''", "");
}

TEST(invalid_answer_changes_nothing)
{
    peers_look(others);
    asked_fail(&asked, LKS_UNAVAILABLE);
    peers_look(others);
    asked_answer(&asked, "=OK");
    assert_int_equal(looks, 0);
    peers_look(others);
    peers_look(others);
    assert_int_equal(asked.n, 3);
}

TEST(a_text_that_is_too_long_is_cut)
{
    char here[PEERS_NOTE_BYTES], there[PEERS_NOTE_BYTES], text[PEERS_TEXT_BYTES];
    size_t at = 0;

    for (int i = 0; at < sizeof here - 16; i++) {
        snprintf(there + at, sizeof there - at, "%sn%d=2", i ? " " : "", i);
        at += (size_t)snprintf(here + at, sizeof here - at, "%sn%d=1", i ? " " : "", i);
    }
    assert_true(peers_differ(here, there, text));
    assert_int_equal(strlen(text), sizeof text - 1);
}

TEST_MAIN(.setup = setup, .teardown = teardown)
