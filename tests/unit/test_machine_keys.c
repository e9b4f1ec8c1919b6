/* The keys of a group in memory: what no function of the library needs, and the packed form. */
#include "machine/glob.h"
#include "machine/keys.h"
#include "support/counts.h"
#include "test.h"

#define SLICE(text) ((lks_rpc_slice){(text), sizeof(text) - 1})

static keys *k;

static int make_keys(void **state)
{
    (void)state;
    k = keys_new();
    return 0;
}

static int free_keys(void **state)
{
    (void)state;
    keys_free(k);
    return 0;
}

/* ---- types and values ---------------------------------------------------------------- */

TEST(a_key_has_the_type_of_its_first_write)
{
    const keys_item *first;
    const keys_item *const *members;
    lks_rpc_slice value;
    double score;
    size_t n;

    keys_set(k, SLICE("s"), SLICE("1"), 0);
    assert_int_equal(keys_set_field(k, SLICE("h"), SLICE("f"), SLICE("1")), KEYS_ABSENT);
    assert_int_equal(keys_set_member(k, SLICE("z"), SLICE("m"), 1), KEYS_ABSENT);
    uint64_t changes = keys_changes(k);

    assert_int_equal(keys_get(k, SLICE("h"), &value), KEYS_WRONG_TYPE);
    assert_int_equal(keys_overwrite(k, SLICE("z"), 0, SLICE("x"), &n), KEYS_WRONG_TYPE);
    assert_int_equal(keys_field(k, SLICE("s"), SLICE("f"), &value), KEYS_WRONG_TYPE);
    assert_int_equal(keys_set_field(k, SLICE("z"), SLICE("f"), SLICE("1")), KEYS_WRONG_TYPE);
    assert_int_equal(keys_delete_field(k, SLICE("s"), SLICE("f")), KEYS_WRONG_TYPE);
    assert_int_equal(keys_fields(k, SLICE("z"), &first, &n), KEYS_WRONG_TYPE);
    assert_int_equal(keys_score(k, SLICE("h"), SLICE("m"), &score), KEYS_WRONG_TYPE);
    assert_int_equal(keys_set_member(k, SLICE("s"), SLICE("m"), 2), KEYS_WRONG_TYPE);
    assert_int_equal(keys_delete_member(k, SLICE("h"), SLICE("m")), KEYS_WRONG_TYPE);
    assert_int_equal(keys_members(k, SLICE("s"), &members, &n), KEYS_WRONG_TYPE);
    assert_int_equal(keys_changes(k), changes);

    keys_set(k, SLICE("h"), SLICE("2"), 0);
    assert_int_equal(keys_get(k, SLICE("h"), &value), KEYS_FOUND);
    assert_int_equal(keys_count(k), 3);
}

TEST(a_hash_or_set_goes_with_its_last_item)
{
    keys_set_field(k, SLICE("h"), SLICE("f"), SLICE("1"));
    keys_set_member(k, SLICE("z"), SLICE("m"), 1);
    assert_int_equal(keys_delete_field(k, SLICE("h"), SLICE("g")), KEYS_ABSENT);
    assert_int_equal(keys_delete_field(k, SLICE("h"), SLICE("f")), KEYS_FOUND);
    assert_null(keys_find(k, SLICE("h")));
    assert_int_equal(keys_delete_member(k, SLICE("z"), SLICE("m")), KEYS_FOUND);
    assert_null(keys_find(k, SLICE("z")));
    assert_int_equal(keys_count(k), 0);
}

static const char *members_of(const char *name)
{
    static char text[256];
    const keys_item *const *members;
    size_t n, len = 0;

    keys_members(k, lks_rpc_slice_of(name), &members, &n);
    text[0] = '\0';
    for (size_t i = 0; i < n; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%.*s:%g", i ? " " : "", (int)members[i]->name.len,
                                members[i]->name.data, members[i]->score);
    return text;
}

TEST(members_are_in_the_order_of_scores_then_of_bytes)
{
    keys_set_member(k, SLICE("z"), SLICE("b"), 2);
    keys_set_member(k, SLICE("z"), SLICE("c"), 1);
    keys_set_member(k, SLICE("z"), SLICE("a"), 2);
    keys_set_member(k, SLICE("z"), SLICE("ab"), 2);
    keys_set_member(k, SLICE("z"), SLICE("\xff"), 2);
    assert_string_equal(members_of("z"), "c:1 a:2 ab:2 b:2 \xff:2");
    assert_int_equal(keys_set_member(k, SLICE("z"), SLICE("a"), -0.0), KEYS_FOUND);
    assert_string_equal(members_of("z"), "a:0 c:1 ab:2 b:2 \xff:2");
    keys_delete_member(k, SLICE("z"), SLICE("ab"));
    assert_string_equal(members_of("z"), "a:0 c:1 b:2 \xff:2");
}

TEST(fields_keep_the_order_in_which_they_came)
{
    static const char *const wanted[] = {"z", "b", "c"};
    const keys_item *field;
    size_t n;

    keys_set_field(k, SLICE("h"), SLICE("z"), SLICE("1"));
    keys_set_field(k, SLICE("h"), SLICE("a"), SLICE("2"));
    keys_set_field(k, SLICE("h"), SLICE("b"), SLICE("3"));
    assert_int_equal(keys_set_field(k, SLICE("h"), SLICE("z"), SLICE("another")), KEYS_FOUND);
    keys_delete_field(k, SLICE("h"), SLICE("a"));
    keys_set_field(k, SLICE("h"), SLICE("c"), SLICE(""));
    assert_int_equal(keys_fields(k, SLICE("h"), &field, &n), KEYS_FOUND);
    assert_int_equal(n, 3);
    for (size_t i = 0; i < n; i++, field = keys_next_field(field))
        assert_memory_equal(field->name.data, wanted[i], 1);
    assert_null(field);
}

TEST(a_string_is_overwritten_in_its_middle_and_behind_its_end)
{
    lks_rpc_slice value;
    size_t len;

    assert_int_equal(keys_overwrite(k, SLICE("s"), 5, SLICE(""), &len), KEYS_ABSENT);
    assert_int_equal(len, 0);
    assert_null(keys_find(k, SLICE("s")));
    keys_overwrite(k, SLICE("s"), 2, SLICE("ab"), &len);
    assert_int_equal(len, 4);
    keys_overwrite(k, SLICE("s"), 1, SLICE("x"), &len);
    assert_int_equal(keys_get(k, SLICE("s"), &value), KEYS_FOUND);
    assert_int_equal(value.len, 4);
    assert_memory_equal(value.data, "\0xab", 4);
}

/* ---- ends ------------------------------------------------------------------------------ */

TEST(a_key_is_there_until_its_end_has_passed)
{
    keys_set(k, SLICE("s"), SLICE("1"), 1000);
    keys_set_field(k, SLICE("h"), SLICE("f"), SLICE("1"));
    assert_true(keys_set_end(k, SLICE("h"), 2000));
    assert_false(keys_set_end(k, SLICE("none"), 2000));
    keys_set(k, SLICE("stays"), SLICE("1"), 0);
    uint64_t changes = keys_changes(k);
    keys_expire(k, 1000);
    assert_int_equal(keys_count(k), 3);
    keys_expire(k, 1001);
    assert_null(keys_find(k, SLICE("s")));
    assert_non_null(keys_find(k, SLICE("h")));
    keys_expire(k, INT64_MAX);
    assert_int_equal(keys_count(k), 1);
    assert_int_equal(keys_changes(k), changes);
}

TEST(an_end_stays_moves_or_goes)
{
    keys_set(k, SLICE("s"), SLICE("1"), 1000);
    keys_set(k, SLICE("s"), SLICE("2"), KEYS_KEEP_END);
    assert_int_equal(keys_find(k, SLICE("s"))->end_us, 1000);
    size_t len;
    keys_overwrite(k, SLICE("s"), 0, SLICE("3"), &len);
    assert_int_equal(keys_find(k, SLICE("s"))->end_us, 1000);
    keys_set(k, SLICE("s"), SLICE("2"), 3000);
    keys_expire(k, 2000);
    assert_int_equal(keys_find(k, SLICE("s"))->end_us, 3000);
    keys_set(k, SLICE("s"), SLICE("2"), 0);
    keys_expire(k, INT64_MAX);
    assert_int_equal(keys_find(k, SLICE("s"))->end_us, 0);
    keys_set(k, SLICE("new"), SLICE("2"), KEYS_KEEP_END);
    assert_int_equal(keys_find(k, SLICE("new"))->end_us, 0);
}

TEST(every_write_counts_as_a_change)
{
    uint64_t changes = keys_changes(k);
    size_t len;

    keys_set(k, SLICE("s"), SLICE("1"), 0);
    assert_true(keys_changes(k) > changes);
    changes = keys_changes(k);
    keys_set_end(k, SLICE("s"), 1000);
    assert_true(keys_changes(k) > changes);
    changes = keys_changes(k);
    keys_overwrite(k, SLICE("s"), 0, SLICE("2"), &len);
    assert_true(keys_changes(k) > changes);
    changes = keys_changes(k);
    keys_delete(k, SLICE("s"));
    assert_true(keys_changes(k) > changes);
    changes = keys_changes(k);
    keys_delete(k, SLICE("s"));
    keys_delete_field(k, SLICE("s"), SLICE("f"));
    keys_delete_member(k, SLICE("s"), SLICE("m"));
    assert_int_equal(keys_changes(k), changes);
}

/* ---- scan ------------------------------------------------------------------------------- */

static unsigned given[1000];

static void count_key(void *arg, const keys_entry *key)
{
    (void)arg;
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

TEST(patterns_are_those_of_redis)
{
    static const struct {
        const char *pattern, *text;
        bool matches;
    } cases[] = {{"*", "", true},          {"", "", true},          {"", "a", false},         {"a*c", "abbc", true},
                 {"a*c", "abcd", false},   {"a?c", "abc", true},    {"a?c", "ac", false},     {"[a-c]x", "bx", true},
                 {"[^a-c]x", "bx", false}, {"[^a-c]x", "dx", true}, {"\\*", "*", true},       {"\\*", "a", false},
                 {"**b*", "aab", true},    {"a[", "a[", false},     {"*ab*ab", "abab", true}, {"[c-a]", "b", true}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (glob_matches(cases[i].pattern, strlen(cases[i].pattern), cases[i].text, strlen(cases[i].text)) !=
            cases[i].matches)
            fail_msg("'%s' and '%s'", cases[i].pattern, cases[i].text);
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
    size_t len;

    switch (below(9)) {
    case 0:
        keys_delete(k, word("ls:{a/b}:", 12));
        break;
    case 1:
        keys_set_end(k, word("ls:{a/b}:", 12), below(3) * 1000);
        break;
    case 2:
        keys_overwrite(k, word("ls:{a/b}:", 12), below(200), word("v", 1000), &len);
        break;
    case 3:
        keys_delete_field(k, word("ls:{a/b}:h", 4), word("f", 10));
        break;
    case 4:
        keys_delete_member(k, word("ls:{a/b}:z", 4), word("m", 10));
        break;
    case 5:
        keys_set(k, word("ls:{a/b}:", 12), word("v", 1000), below(2) ? KEYS_KEEP_END : (int)below(4000));
        break;
    case 6:
        keys_set_field(k, word("ls:{a/b}:h", 4), word("f", 10), word("v", 1000));
        break;
    case 7:
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

/* Bytes that are a packed form at all are the one of what they hold. */
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

TEST(what_is_packed_is_unpacked)
{
    for (size_t i = 0; i < counts_of(2000, 100000); i++) {
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

TEST(equal_keys_have_equal_bytes_whatever_came_first)
{
    keys *other = keys_new();

    keys_set(k, SLICE("a"), SLICE("1"), 0);
    keys_set(k, SLICE("ab"), SLICE("2"), 5);
    keys_set_member(k, SLICE("z"), SLICE("x"), 1);
    keys_set_member(k, SLICE("z"), SLICE("y"), 1);
    keys_set_member(other, SLICE("z"), SLICE("y"), 1);
    keys_set(other, SLICE("aa"), SLICE("gone"), 9);
    keys_set(other, SLICE("ab"), SLICE("2"), 5);
    keys_set_member(other, SLICE("z"), SLICE("x"), 1);
    keys_set(other, SLICE("a"), SLICE("1"), 7);
    keys_set_end(other, SLICE("a"), 0);
    keys_delete(other, SLICE("aa"));
    packed_keys one = packed(k), two = packed(other);
    assert_int_equal(one.len, two.len);
    assert_memory_equal(one.data, two.data, one.len);
    free(one.data);
    free(two.data);
    keys_free(other);
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

TEST(forms_that_nobody_writes_are_refused)
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
