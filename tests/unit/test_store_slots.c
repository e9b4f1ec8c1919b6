/* Slots of Redis Cluster: which a key lies in, what CLUSTER NODES says, and what MOVED says. */
/* promise T22 */
#include <string.h>

#include "store/slots.h"
#include "test.h"

#define ID_A "07c37dfeb235213a872192d90877d0cd55635b91"
#define ID_B "67ed2db8d677e59ec4a4cefb06858cf2a1a89fa1"
#define ID_C "292f8b365bb7edb5e285caf0b7e6ddc7265d2f4f"

/* As redis-cli's CLUSTER KEYSLOT answers. */
TEST(a_key_lies_in_the_slot_of_its_tag)
{
    static const struct row {
        const char *key;
        uint16_t slot;
    } rows[] = {
        {"123456789", 12739},
        {"foo", 12182},
        {"{foo}bar", 12182},
        {"x{foo}{bar}", 12182},
        {"{}foo", 9500},
        {"foo{", 7673},
        {"ls:{b/q}:", 3429},
        {"ls:{b/q}:stock:i:a", 3429},
        {"", 0},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        print_message("%s\n", rows[i].key);
        assert_int_equal(slots_of(lks_rpc_slice_of(rows[i].key)), rows[i].slot);
    }
}

TEST(each_slot_has_a_tag)
{
    for (unsigned slot = 0; slot < SLOTS; slot += 331) {
        char tag[SLOTS_TAG_BYTES], key[64];
        slots_tag((uint16_t)slot, tag);
        snprintf(key, sizeof key, "ls:{%s}:mark", tag);
        assert_int_equal(slots_of(lks_rpc_slice_of(key)), slot);
    }
}

TEST(cluster_nodes_gives_primaries_slots_and_epochs)
{
    static const char text[] = ID_A " 127.0.0.1:30004@31004,hostname4 slave " ID_B " 0 1426238317239 4 connected\n" //
        ID_B " ::1:30002@31002 master,fail - 0 1426238316232 12 disconnected 5461-10922 7 [5->-" ID_C "]\n"         //
        ID_C " :30001@31001 myself,master - 0 0 3 connected 0-6 8-5460 16383 [93-<-" ID_B "]\n";
    slots_map map;

    assert_true(slots_read(&map, text, strlen(text), "10.0.0.7"));
    assert_int_equal(map.n, 3);
    assert_string_equal(map.node[0].host, "127.0.0.1");
    assert_int_equal(map.node[0].port, 30004);
    assert_string_equal(map.node[1].id, ID_B);
    assert_string_equal(map.node[1].host, "::1");
    assert_true(map.node[1].failed);
    assert_int_equal(map.node[1].epoch, 12);
    assert_false(map.node[2].failed);
    assert_string_equal(map.node[2].host, "10.0.0.7");
    assert_int_equal(map.owner[0], 2);
    assert_int_equal(map.owner[5], 2);
    assert_int_equal(map.owner[7], 1);
    assert_int_equal(map.owner[93], 2);
    assert_int_equal(map.owner[5461], 1);
    assert_int_equal(map.owner[10922], 1);
    assert_int_equal(map.owner[10923], SLOTS_NOBODY);
    assert_int_equal(map.owner[16383], 2);
    slots_clear(&map);
}

TEST(invalid_cluster_nodes_reply_is_refused)
{
    static const char *const rows[] = {
        "",
        "\n",
        "OK",
        "short 127.0.0.1:1@2 master - 0 0 1 connected 0",
        ID_A " 127.0.0.1@2 master - 0 0 1 connected 0",
        ID_A " 127.0.0.1:70000@2 master - 0 0 1 connected 0",
        ID_A " 127.0.0.1:1@2 master - 0 0 x connected 0",
        ID_A " 127.0.0.1:1@2 master - 0 0 1 connected 16384",
        ID_A " 127.0.0.1:1@2 master - 0 0 1 connected 0-16384",
        ID_A " 127.0.0.1:1@2 master - 0 0 1 connected x",
        ID_A " 127.0.0.1:1@2 master - 0 0 99999999999999999999 connected 0",
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        slots_map map;
        print_message("%s\n", rows[i]);
        assert_false(slots_read(&map, rows[i], strlen(rows[i]), "h"));
        assert_null(map.node);
    }
}

/* Memory and connections are taken for each. */
/* promise T13 */
TEST(more_nodes_than_a_cluster_may_have_are_refused)
{
    enum { LINE = 96 };
    char *text = calloc(SLOTS_NODES_MAX + 2, LINE), *end = text;
    slots_map map;

    assert_non_null(text);
    for (int i = 0; i < SLOTS_NODES_MAX; i++)
        end += snprintf(end, LINE, "%040x h:1@2 master - 0 0 1 connected %d\n", i, i);
    assert_true(slots_read(&map, text, strlen(text), "h"));
    assert_int_equal(map.n, SLOTS_NODES_MAX);
    slots_clear(&map);
    snprintf(end, LINE, "%040x h:1@2 master - 0 0 1 connected\n", SLOTS_NODES_MAX);
    assert_false(slots_read(&map, text, strlen(text), "h"));
    assert_null(map.node);
    free(text);
}

TEST(moved_gives_slot_and_address)
{
    char host[SLOTS_HOST_BYTES];
    uint16_t slot, port;

    assert_true(slots_read_moved("MOVED 3999 ::1:6381", 19, &slot, host, &port));
    assert_int_equal(slot, 3999);
    assert_string_equal(host, "::1");
    assert_int_equal(port, 6381);
    assert_true(slots_read_moved("MOVED 0 :1", 10, &slot, host, &port));
    assert_string_equal(host, "");
    assert_false(slots_read_moved("ASK 3999 h:1", 12, &slot, host, &port));
    assert_false(slots_read_moved("MOVED 16384 h:1", 15, &slot, host, &port));
    assert_false(slots_read_moved("MOVED 1", 7, &slot, host, &port));
}

TEST_MAIN()
