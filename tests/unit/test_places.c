/* Which connections have a place, which are replaced, and which are refused. */
/* promise CN9 */

#include "net/admission/places.h"
#include "test.h"

enum { PLACES = 100 };

static struct {
    places *all;
    place place[PLACES];
    size_t replaced[PLACES], n_replaced;
} here;

static void close_idle(place *p)
{
    here.replaced[here.n_replaced++] = (size_t)(p - here.place);
    places_leave(here.all, p);
}

static void start(places_options options)
{
    memset(&here, 0, sizeof here);
    options.close_idle = close_idle;
    here.all = places_new(&options);
    assert_non_null(here.all);
}

static int stop(void **state)
{
    for (size_t i = 0; i < PLACES; i++)
        places_leave(here.all, &here.place[i]);
    places_free(here.all);
    return 0;
}

static place_origin host(uint8_t n)
{
    return (place_origin){PLACE_IPV4, {127, 0, 0, n}};
}

static place_origin user(uint8_t n)
{
    return (place_origin){PLACE_USER, {n}};
}

static const char *enter(size_t i, const char *wire, place_origin origin)
{
    return places_take(here.all, &here.place[i], wire, &origin);
}

static void enter_quiet(size_t i, const char *wire, place_origin origin)
{
    assert_null(enter(i, wire, origin));
    places_set_idle(here.all, &here.place[i], true);
}

static void assert_replaced(size_t n, size_t last)
{
    assert_int_equal(here.n_replaced, n);
    assert_int_equal(here.replaced[n - 1], last);
}

TEST(the_longest_idle_connection_is_replaced)
{
    start((places_options){.all = 3});
    for (size_t i = 0; i < 3; i++)
        enter_quiet(i, "tcp", host(1));
    places_set_idle(here.all, &here.place[0], false);
    places_set_idle(here.all, &here.place[0], true); /* it did something */
    enter_quiet(3, "tcp", host(1));
    assert_replaced(1, 1);
    enter_quiet(4, "tcp", host(1));
    assert_replaced(2, 2);
    enter_quiet(5, "tcp", host(1));
    assert_replaced(3, 0);
}

TEST(busy_connection_keeps_its_place)
{
    start((places_options){.all = 2});
    assert_null(enter(0, "tcp", host(1)));
    enter_quiet(1, "tcp", host(1));
    assert_null(enter(2, "tcp", host(1)));
    assert_replaced(1, 1);
    assert_string_equal(enter(3, "tcp", host(1)), "connections");
    assert_int_equal(here.n_replaced, 1);
    places_leave(here.all, &here.place[0]);
    assert_null(enter(3, "tcp", host(1)));
}

TEST(an_address_has_its_part)
{
    start((places_options){.all = 10, .per_address = 2});
    enter_quiet(0, "tcp", host(2));
    enter_quiet(1, "tcp", host(1));
    enter_quiet(2, "grpc", host(1));
    enter_quiet(3, "tcp", host(1)); /* one of its own goes */
    assert_replaced(1, 1);
    places_set_idle(here.all, &here.place[2], false);
    places_set_idle(here.all, &here.place[3], false);
    assert_string_equal(enter(4, "tcp", host(1)), "connections from one address");
    assert_null(enter(4, "tcp", host(2)));
    assert_null(enter(5, "tcp", host(3)));
    assert_int_equal(here.n_replaced, 1);
}

TEST(addresses_users_and_networks_differ)
{
    const place_origin one = {PLACE_IPV6, {0x20, 1, 1}}, other = {PLACE_IPV6, {0x20, 1, 2}};
    start((places_options){.all = 10, .per_address = 1});
    assert_null(enter(0, "tcp", one));
    assert_null(enter(1, "tcp", other));
    assert_null(enter(2, "unix", user(0x20)));
    assert_null(enter(3, "unix", user(0x21)));
    assert_non_null(enter(4, "grpc", one));
    assert_non_null(enter(5, "unix", user(0x20)));
}

TEST(a_wire_has_its_part)
{
    start((places_options){.all = 10, .per_wire = 2});
    enter_quiet(0, "tcp", host(1));
    enter_quiet(1, "grpc", host(1));
    assert_null(enter(2, "grpc", host(2)));
    assert_null(enter(3, "grpc", host(3)));
    assert_replaced(1, 1);
    assert_string_equal(enter(4, "grpc", host(4)), "connections of one wire");
    assert_null(enter(4, "tcp", host(4)));
}

/* Whatever the network does. What unix sockets do not use of theirs stays theirs. */
TEST(unix_sockets_keep_room)
{
    start((places_options){.all = 4, .for_unix = 1});
    for (size_t i = 0; i < 3; i++)
        assert_null(enter(i, "tcp", host(1)));
    assert_non_null(enter(3, "tcp", host(1)));
    enter_quiet(4, "unix", user(1));
    assert_non_null(enter(5, "tcp", host(1))); /* not at a unix socket's cost */
    assert_int_equal(here.n_replaced, 0);
    enter_quiet(6, "unix", user(2));
    assert_replaced(1, 4);
    places_set_idle(here.all, &here.place[6], false);
    places_set_idle(here.all, &here.place[0], true);
    assert_null(enter(7, "unix", user(3))); /* but at the network's */
    assert_replaced(2, 0);
    assert_non_null(enter(8, "tcp", host(1))); /* all are taken */
    places_set_idle(here.all, &here.place[7], true);
    assert_non_null(enter(8, "tcp", host(1)));
    places_set_idle(here.all, &here.place[1], true);
    assert_null(enter(8, "tcp", host(1)));
    assert_replaced(3, 1);
}

TEST_MAIN(.teardown = stop)
