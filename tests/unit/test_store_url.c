/* Store URLs: each form, each refusal, and no refusal that quotes a password. */
/* promise F8 */

#include "store/url.h"
#include "test.h"

static void assert_text(const char *got, const char *expected)
{
    if (expected)
        assert_string_equal(got, expected);
    else
        assert_null(got);
}

TEST(each_url_form_is_parsed)
{
    static const struct row {
        const char *text;
        url expected;
    } rows[] = {
        {"embedded:./data", {.kind = URL_EMBEDDED, .path = "./data"}},
        {"embedded:/var/lib/a b", {.kind = URL_EMBEDDED, .path = "/var/lib/a b"}},
        {"redis://db", {.kind = URL_TCP, .hosts = {{"db", 6379}}, .n_hosts = 1}},
        {"redis://127.0.0.1:7000/3", {.kind = URL_TCP, .hosts = {{"127.0.0.1", 7000}}, .n_hosts = 1, .db = 3}},
        {"redis://db/", {.kind = URL_TCP, .hosts = {{"db", 6379}}, .n_hosts = 1}},
        {"redis://[::1]:7000", {.kind = URL_TCP, .hosts = {{"::1", 7000}}, .n_hosts = 1}},
        {"redis://[::1]", {.kind = URL_TCP, .hosts = {{"::1", 6379}}, .n_hosts = 1}},
        {"redis://u%40x:p%2fw%3A@db:1",
         {.kind = URL_TCP, .hosts = {{"db", 1}}, .n_hosts = 1, .user = "u@x", .password = "p/w:"}},
        {"redis://:secret@db", {.kind = URL_TCP, .hosts = {{"db", 6379}}, .n_hosts = 1, .password = "secret"}},
        {"unix:///run/redis.sock", {.kind = URL_UNIX, .path = "/run/redis.sock"}},
        {"unix:///run/a%20b?db=2", {.kind = URL_UNIX, .path = "/run/a b", .db = 2}},
        {"unix://u:p@/run/redis.sock", {.kind = URL_UNIX, .path = "/run/redis.sock", .user = "u", .password = "p"}},
        {"rediss://db", {.kind = URL_TCP, .tls = true, .hosts = {{"db", 6379}}, .n_hosts = 1}},
        {"rediss+sentinel://a/shop",
         {.kind = URL_SENTINEL, .tls = true, .hosts = {{"a", 26379}}, .n_hosts = 1, .master = "shop"}},
        {"rediss+cluster://a", {.kind = URL_CLUSTER, .tls = true, .hosts = {{"a", 6379}}, .n_hosts = 1}},
        {"redis+sentinel://a,b:1,[::1]:2/shop",
         {.kind = URL_SENTINEL, .hosts = {{"a", 26379}, {"b", 1}, {"::1", 2}}, .n_hosts = 3, .master = "shop"}},
        {"redis+sentinel://u:p@a/my%20shop/3",
         {.kind = URL_SENTINEL,
          .hosts = {{"a", 26379}},
          .n_hosts = 1,
          .master = "my shop",
          .db = 3,
          .user = "u",
          .password = "p"}},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        url got;
        lks_error error;
        print_message("%s\n", rows[i].text);
        assert_int_equal(url_parse(rows[i].text, "--store", &got, &error), LKS_OK);
        assert_int_equal(got.kind, rows[i].expected.kind);
        assert_int_equal(got.n_hosts, rows[i].expected.n_hosts);
        for (size_t k = 0; k < got.n_hosts; k++) {
            assert_string_equal(got.hosts[k].host, rows[i].expected.hosts[k].host);
            assert_int_equal(got.hosts[k].port, rows[i].expected.hosts[k].port);
        }
        assert_int_equal(got.tls, rows[i].expected.tls);
        assert_int_equal(got.db, rows[i].expected.db);
        assert_text(got.master, rows[i].expected.master);
        assert_text(got.path, rows[i].expected.path);
        assert_text(got.user, rows[i].expected.user);
        assert_text(got.password, rows[i].expected.password);
        url_clear(&got);
        assert_null(got.password);
    }
}

static const char *const refused[] = {
    "",
    "redis",
    "rediss://",
    "rediss+unix:///run/redis.sock",
    "redis+cluster://",
    "redis+cluster://a,",
    "redis+cluster://,a",
    "redis+cluster://a,b:x",
    "redis+cluster://a/1",
    "redis+sentinel://db",
    "redis+sentinel://db/",
    "redis+sentinel://db/%00",
    "redis+sentinel://db,/shop",
    "redis+sentinel:///shop",
    "redis+sentinel://db/shop/x",
    "redis+sentinel://db/shop/1/2",
    "redis+sentinel://db/shop?x=1",
    "redis+sentinel://a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a/shop",
    "redis://db,db2",
    "http://db",
    "REDIS://db",
    "embedded:",
    "redis://",
    "redis://:7000",
    "redis://db:",
    "redis://db:0",
    "redis://db:65536",
    "redis://db:7x",
    "redis://db/x",
    "redis://db/-1",
    "redis://db/65536",
    "redis://db/1/2",
    "redis://db?x=1",
    "redis://[::1",
    "redis://[::1]x",
    "redis://hunter2@db",
    "redis://hunter2:@db",
    "redis://u:hunter2%@db",
    "redis://u:hunter2%0@db",
    "redis://u:hunter2%00@db",
    "redis://u:hunter2%zz@db",
    "redis://%00:hunter2@db",
    "redis://u:hunter2@",
    "unix://",
    "unix://run/redis.sock",
    "unix:///run?db=",
    "unix:///run?x=1",
    "unix:///run?db=1x",
    "unix:///a%00b",
    "unix:///a%2",
    "unix://hunter2@/run/redis.sock",
};

TEST(invalid_url_is_refused)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        url got;
        lks_error error;
        print_message("%s\n", refused[i]);
        assert_int_equal(url_parse(refused[i], "--store", &got, &error), LKS_INVALID_ARGUMENT);
        assert_int_equal(error.applied, LKS_APPLIED_NO);
        assert_null(strstr(error.message, "hunter2"));
        assert_null(got.path);
        assert_null(got.password);
    }
}

/* The message has the correct form, and not the password. */
/* promise F4 */
TEST(an_error_says_how_a_url_is_written)
{
    static const char *const rows[][2] = {
        {"redis://:hunter2/x@db", "%2F"},
        {"redis://me:hunter2?@db:6379/0", "%3F"},
        {"redis://:hun/ter2@db/1", "%2F"},
        {"redis://u:hunter2%zz@db", "write %25"},
        {"unix:///run/hunter%zz", "write %25"},
        {"unix://:hunter2/x@/run/redis.sock", "%2F"},
        {"localhost", "has no scheme"},
        {"/run/redis.sock", "has no scheme"},
        {"", "has no scheme"},
        {"localhost:6379", "must be embedded:DIR"},
        {"tls://localhost", "must be embedded:DIR"},
        {"tls://localhost", "with TLS rediss..."},
        {"redis+cluster://::1:7001", "an IPv6 address must be in brackets: [::1]:7001"},
        {"redis://::1", "in brackets"},
        {"redis://:hunter2@fe80::1:7001/0", "in brackets"},
        {"redis+sentinel://a,::1:2/shop", "in brackets"},
        {"redis://a b", "a host may not have a blank"},
        {"redis+sentinel://a/na%zzme", "a % in the primary's name must begin an escape such as %2F"},
        {"redis+sentinel://a/", "/master or /master/db"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        url got;
        lks_error error;
        print_message("%s\n", rows[i][0]);
        assert_int_equal(url_parse(rows[i][0], "FILE:1: store", &got, &error), LKS_INVALID_ARGUMENT);
        assert_ptr_equal(strstr(error.message, "FILE:1: store: "), error.message);
        assert_in_range(strlen(error.message), 1, sizeof error.message - 32); /* room for a longer place */
        assert_non_null(strstr(error.message, rows[i][1]));
        assert_null(strstr(error.message, "hunter2"));
    }
}

TEST_MAIN()
