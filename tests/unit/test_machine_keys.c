/* The keys of a group in memory: what no function of the library needs, and the packed form. */
#include "machine/keys.h"
#include "support/counts.h"
#include "test.h"

#define SLICE(text) ((lks_rpc_slice){(text), sizeof(text) - 1})

static keys *k;

static int make_keys(void **state)
{
    k = keys_new();
    return 0;
}

static int free_keys(void **state)
{
    keys_free(k);
    return 0;
}

/* ---- changes ------------------------------------------------------------------------- */

static void expect_change(bool changes)
{
    static uint64_t last;

    assert_int_equal(keys_changes(k) > last, changes);
    last = keys_changes(k);
}

TEST(every_write_counts_as_a_change)
{
    expect_change(false);
    keys_set(k, SLICE("s"), SLICE("1"), 0);
    expect_change(true);
    keys_set_end(k, SLICE("s"), 1000);
    expect_change(true);
    keys_set_field(k, SLICE("h"), SLICE("f"), SLICE("1"));
    expect_change(true);
    keys_set_member(k, SLICE("z"), SLICE("m"), 1);
    expect_change(true);
    keys_set_member(k, SLICE("s"), SLICE("m"), 1);
    keys_delete_field(k, SLICE("h"), SLICE("g"));
    keys_delete_member(k, SLICE("none"), SLICE("m"));
    keys_delete(k, SLICE("none"));
    expect_change(false);
    keys_delete_field(k, SLICE("h"), SLICE("f"));
    expect_change(true);
    keys_delete_member(k, SLICE("z"), SLICE("m"));
    expect_change(true);
    keys_expire(k, INT64_MAX);
    assert_int_equal(keys_count(k), 0);
    expect_change(false);
}

/* ---- scan ------------------------------------------------------------------------------- */

static unsigned given[1000];

static void count_key(void *arg, const keys_entry *key)
{
    if (key->name.data[0] == 'k')
        given[strtoul(key->name.data + 1, NULL, 10)]++;
}

TEST(a_scan_gives_each_key_once_while_others_come_and_go)
{
    uint64_t cursor = 0;
    unsigned step = 0;
    char name[32];

    memset(given, 0, sizeof given);
    for (unsigned i = 0; i < 1000; i++)
        keys_set(k, (lks_rpc_slice){name, (size_t)snprintf(name, sizeof name, "k%u", i)}, SLICE("1"), 0);
    do {
        keys_scan(k, &cursor, 7, count_key, NULL);
        snprintf(name, sizeof name, "a%u", step);
        keys_set(k, lks_rpc_slice_of(name), SLICE("1"), 0);
        snprintf(name, sizeof name, "a%u", step / 2);
        keys_delete(k, lks_rpc_slice_of(name));
        assert_true(++step < 1000);
    } while (cursor != 0);
    for (unsigned i = 0; i < 1000; i++)
        assert_int_equal(given[i], 1);
}

/* ---- packed ------------------------------------------------------------------------------ */

static uint64_t chance = 88172645463325252U;

static unsigned below(unsigned n)
{
    chance ^= chance << 13;
    chance ^= chance >> 7;
    chance ^= chance << 17;
    return (unsigned)((chance >> 11) % n);
}

static lks_rpc_slice word(const char *prefix, unsigned n)
{
    static char texts[4][400];
    static unsigned next;
    char *text = texts[next++ % 4];
    int len = snprintf(text, 200, "%s%u", prefix, below(n));

    return (lks_rpc_slice){text, (size_t)len + (below(8) == 0 ? 180U : 0U)};
}

static void change_something(void)
{
    switch (below(8)) {
    case 0:
        keys_delete(k, word("ls:{a/b}:", 12));
        break;
    case 1:
        keys_set_end(k, word("ls:{a/b}:", 12), below(3) * 1000);
        break;
    case 2:
        keys_delete_field(k, word("ls:{a/b}:h", 4), word("f", 10));
        break;
    case 3:
        keys_delete_member(k, word("ls:{a/b}:z", 4), word("m", 10));
        break;
    case 4:
        keys_set(k, word("ls:{a/b}:", 12), word("v", 1000), below(2) ? KEYS_KEEP_END : (int)below(4000));
        break;
    case 5:
        keys_set_field(k, word("ls:{a/b}:h", 4), word("f", 10), word("v", 1000));
        break;
    case 6:
        keys_set_member(k, word("ls:{a/b}:z", 4), word("m", 10), (double)below(5) - 2.5);
        break;
    default:
        keys_expire(k, below(3000));
    }
}

typedef struct packed_keys {
    char *data;
    size_t len;
} packed_keys;

static packed_keys packed(const keys *some)
{
    const size_t len = keys_bytes(some);
    char *data = malloc(len);

    assert_ptr_equal(keys_pack(some, data), data + len);
    return (packed_keys){data, len};
}

/* Each valid packed form is the only one of its keys. */
static void check_bytes(const void *data, size_t len)
{
    /* Exactly so long: a read behind the end is found. */
    void *copy = len > 0 ? memcpy(malloc(len), data, len) : NULL;
    keys *read = keys_unpack(copy, len);

    if (read) {
        packed_keys again = packed(read);
        assert_int_equal(again.len, len);
        assert_memory_equal(again.data, data, len);
        free(again.data);
        keys_free(read);
    }
    free(copy);
}

TEST(packed_keys_unpack_to_the_same)
{
    for (size_t i = 0; i < counts_of(2000, 100000); i++) {
        if (i % 2000 == 0) { /* they would become too many */
            keys_free(k);
            k = keys_new();
        }
        for (unsigned changes = below(10); changes > 0; changes--)
            change_something();
        packed_keys buffer = packed(k);
        keys *read = keys_unpack(buffer.data, buffer.len);
        assert_non_null(read);
        assert_int_equal(keys_count(read), keys_count(k));
        assert_int_equal(keys_changes(read), 0);
        packed_keys again = packed(read);
        assert_int_equal(again.len, buffer.len);
        assert_memory_equal(again.data, buffer.data, buffer.len);
        free(again.data);
        free(buffer.data);
        keys_free(k);
        k = read;
    }
}

TEST(other_bytes_are_refused)
{
    for (unsigned i = 0; i < 60; i++)
        change_something();
    keys_set_member(k, SLICE("zz"), SLICE("m"), 1);
    packed_keys buffer = packed(k);
    for (size_t len = 0; len < buffer.len; len++)
        assert_null(keys_unpack(buffer.data, len));
    for (size_t i = 0; i < counts_of(20000, 1000000); i++) {
        char *bytes = memcpy(malloc(buffer.len), buffer.data, buffer.len);
        for (unsigned n = 1 + below(3); n > 0; n--)
            bytes[below((unsigned)buffer.len)] = (char)below(256);
        check_bytes(bytes, buffer.len);
        free(bytes);
    }
    free(buffer.data);
    assert_null(keys_unpack(NULL, 0));
}

TEST(invalid_packed_forms_are_refused)
{
    static const lks_rpc_slice forms[] = {
        SLICE("K\1\1\1\0\1a\1xy"),                                         /* a byte behind the last key */
        SLICE("K\2\0"),                                                    /* another version */
        SLICE("K\1\x80\0"),                                                /* 0 in two bytes */
        SLICE("K\1\2\1\0\1b\0\1\0\1a\0"),                                  /* names out of order */
        SLICE("K\1\2\1\0\1a\0\1\0\1a\0"),                                  /* a name twice */
        SLICE("K\1\2\1\0\1a\0\1\0\2ab\0"),                                 /* a beginning that is not shared */
        SLICE("K\1\2\1\0\1a\0\1\2\1b\0"),                                  /* more than the name before has */
        SLICE("K\1\1\2\0\1a\0"),                                           /* a hash without fields */
        SLICE("K\1\1\2\0\1a\2\1f\0\1f\0"),                                 /* a field twice */
        SLICE("K\1\1\3\0\1a\1\0\0\0\0\0\0\xf8\x7f\1m"),                    /* a score that is no number */
        SLICE("K\1\1\3\0\1a\1\0\0\0\0\0\0\0\x80\1m"),                      /* -0 */
        SLICE("K\1\1\3\0\1a\2\0\0\0\0\0\0\xf0\x3f\1m\0\0\0\0\0\0\0\0\1n"), /* members out of order */
        SLICE("K\1\1\x11\0\1a\0\0\0\0\0\0\0\0\0"),                         /* an end of 0 */
        SLICE("K\1\1\x11\0\1a\0\0\0\0\0\0\0\x80\0"),                       /* an end below 0 */
        SLICE("K\1\1\4\0\1a\0"),                                           /* another type */
        SLICE("K\1\1\1\0\xff\xff\xff\xff\xff\xff\xff\xff\x7f"),            /* a long name that is not there */
    };

    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (keys_unpack(forms[i].data, forms[i].len))
            fail_msg("form %zu was taken", i);
}

TEST_MAIN(.setup = make_keys, .teardown = free_keys)
