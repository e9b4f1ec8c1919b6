/* The count of calls a connection has under way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "peers.h"

static void a_connection_stops_at_its_limit_and_others_go_on(void **state)
{
    peers *all = peers_new(2);
    (void)state;

    assert_true(peers_enter(all, 7));
    assert_true(peers_enter(all, 7));
    assert_false(peers_enter(all, 7));
    assert_true(peers_enter(all, 7 + 1024)); /* the same bucket */
    peers_leave(all, 7);
    assert_true(peers_enter(all, 7));
    peers_free(all);
}

static void an_idle_connection_is_forgotten(void **state)
{
    peers *all = peers_new(1);
    (void)state;

    for (uint32_t peer = 0; peer < 100000; peer++) {
        assert_true(peers_enter(all, peer));
        peers_leave(all, peer);
    }
    assert_true(peers_enter(all, 5));
    assert_false(peers_enter(all, 5));
    peers_leave(all, 5);
    peers_leave(all, 5); /* one too many does no harm */
    assert_true(peers_enter(all, 5));
    peers_leave(all, 5);
    peers_free(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_connection_stops_at_its_limit_and_others_go_on),
        cmocka_unit_test(an_idle_connection_is_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
