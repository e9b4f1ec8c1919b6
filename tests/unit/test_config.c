/* Settings from flags, environment and file. */
/* promise WS8 */
/* promise F3 */
#include <unistd.h>

#include "config.h"
#include "test.h"

static settings config;
static lks_error error;
static config_action action;
static char path[64];

/* Loads with flags, separated by spaces; "FILE" is the path of the file. The text lives until the next call. */
static lks_code load(const char *flags)
{
    static char text[1024];
    char *argv[16] = {(char *)"lockstockd"}, *rest = text;
    int argc = 1;

    config_free(&config);
    snprintf(text, sizeof text, "%s", flags);
    for (char *flag; *flags && (flag = strsep(&rest, " "));)
        argv[argc++] = strcmp(flag, "FILE") == 0 ? path : flag;
    return config_load(argc, argv, &config, &action, &error);
}

static void expect_ok(const char *flags)
{
    if (load(flags) != LKS_OK)
        fail_msg("%s: %s", flags, error.message);
}

static void expect_invalid(const char *flags, const char *says)
{
    if (load(flags) != LKS_INVALID_ARGUMENT || !strstr(error.message, says))
        fail_msg("%s: expected \"%s\", got %s: %s", flags, says, lks_code_name(error.code), error.message);
}

static void write_bytes(const char *text, size_t len)
{
    strcpy(path, "/tmp/lockstock-config-XXXXXX");
    int fd = mkstemp(path);

    assert_true(fd >= 0 && write(fd, text, len) == (ssize_t)len);
    close(fd);
}

static void write_file(const char *text)
{
    write_bytes(text, strlen(text));
}

static int clear(void **state)
{
    config_free(&config);
    if (path[0])
        unlink(path);
    path[0] = '\0';
    unsetenv("LOCKSTOCK_TIMEOUT_MS");
    unsetenv("LOCKSTOCK_DRAIN_MS");
    unsetenv("LOCKSTOCK_LISTEN");
    unsetenv("LOCKSTOCK_FSYNC");
    unsetenv("LOCKSTOCKD_CONFIG");
    return 0;
}

static void assert_listens(const char *first, const char *second, size_t n)
{
    assert_int_equal(config.listen.n, n);
    assert_string_equal(config.listen.of[0], first);
    assert_string_equal(config.listen.of[1], second);
}

TEST(defaults_are_those_of_the_help)
{
    expect_ok("");
    assert_int_equal(action, CONFIG_RUN); /* e2e/command.lua has the other actions */
    assert_listens("tcp://127.0.0.1:7700", "grpc://127.0.0.1:7701", 3);
    assert_string_equal(config.fsync, "always");
    assert_int_equal(config.message_bytes, 1 << 20);
    assert_int_equal(config.in_flight_per_connection, 256);
    assert_false(config.allow_unsafe_store);
}

TEST(a_flag_overrides_the_environment_which_overrides_the_file)
{
    write_file("in-flight = 11\ntimeout-ms = 22\ndrain-ms = 33\nlisten = nng+tcp://127.0.0.1:1\n"
               "listen = nng+tcp://127.0.0.1:2\n");
    setenv("LOCKSTOCK_TIMEOUT_MS", "222", 1);
    setenv("LOCKSTOCK_DRAIN_MS", "333", 1);
    expect_ok("--config FILE --drain-ms=3333");
    assert_int_equal(config.in_flight, 11);
    assert_int_equal(config.timeout_ms, 222);
    assert_int_equal(config.drain_ms, 3333);
    assert_listens("nng+tcp://127.0.0.1:1", "nng+tcp://127.0.0.1:2", 2);
}

TEST(a_stronger_list_replaces_a_weaker_one)
{
    setenv("LOCKSTOCK_LISTEN", "nng+tcp://127.0.0.1:5", 1);
    expect_ok("--listen nng+tcp://127.0.0.1:1 --listen nng+ws://127.0.0.1:2/x");
    assert_listens("nng+tcp://127.0.0.1:1", "nng+ws://127.0.0.1:2/x", 2);
    expect_ok("--listen tcp://a:1,tcp://b:2 --listen tcp://c:3 --allow-origin https://a,https://b");
    assert_listens("tcp://a:1", "tcp://b:2", 3);
    assert_string_equal(config.listen.of[2], "tcp://c:3");
    assert_string_equal(config.allow_origin.of[1], "https://b");
    expect_ok("--listen tcp://a:1");
    assert_int_equal(config.allow_origin.n, 0);
    expect_invalid("--listen tcp://a:1,", "--listen: must not be empty");
}

/* promise F4 */
TEST(a_bool_has_three_forms)
{
    expect_ok("--allow-unsafe-store true --insecure --tls-client-required=true");
    assert_true(config.allow_unsafe_store && config.insecure && config.tls_client_required);
    expect_ok("--insecure --allow-unsafe-store --in-flight 7");
    assert_true(config.allow_unsafe_store && config.insecure);
    assert_int_equal(config.in_flight, 7);
    expect_ok("--insecure false --allow-unsafe-store=false");
    assert_false(config.allow_unsafe_store || config.insecure);
}

TEST(an_error_names_the_flag_or_the_variable)
{
    static const char *const cases[][2] = {
        {"nonsense", "nonsense: not a flag"},
        {"--", "--: not a flag"},
        {"--in-flight 65537", "--in-flight: must be a number from 1 to"},
        {"--in-flight 12x", "--in-flight: must be a number"},
        {"--in-flight", "--in-flight: needs a value"},
        {"--allow-unsafe-store maybe", "--allow-unsafe-store: must be true or false"},
        {"--allow-unsafe-store=perhaps", "--allow-unsafe-store: must be true or false"},
        {"--store=", "--store: must not be empty"},
        {"--config /", "/: "},
        {"--log-level=loud", "--log-level: must be error, warn, info or debug"},
        {"--fsync=or", "--fsync: must be always or everysec"},
        {"--check-config --in-flight x", "--in-flight"},
        {"--store embedded:a --store embedded:b", "--store: given more than once"},
        {"--in-flight 5 --in-flight 5", "--in-flight: given more than once"},
        {"--config a --config b", "--config: given more than once"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_invalid(cases[i][0], cases[i][1]);
    setenv("LOCKSTOCK_DRAIN_MS", "soon", 1);
    expect_invalid("", "LOCKSTOCK_DRAIN_MS: must be a number");
}

/* promise F4 */
TEST(the_place_of_a_setting_is_known)
{
    char says[256];

    write_file("store = embedded:a\n; a comment\nfsync = always\npolicy = p\n");
    setenv("LOCKSTOCK_FSYNC", "everysec", 1);
    expect_ok("--config FILE --store=redis://u:secret@h");
    assert_string_equal(config_where(&config, "store"), "--store");
    assert_string_equal(config_where(&config, "fsync"), "LOCKSTOCK_FSYNC");
    snprintf(says, sizeof says, "%s:4: policy", path);
    assert_string_equal(config_where(&config, "policy"), says);
}

TEST(a_line_of_a_file_may_be_long)
{
    enum { LONG = 5000 };
    static char text[LONG + 100], long_name[LONG + 1];

    memset(long_name, 'x', LONG);
    snprintf(text, sizeof text, "  store = embedded:%s\n  # a comment\n\tin-flight : 7 \r\n", long_name);
    write_file(text);
    expect_ok("--config FILE");
    assert_string_equal(config.store + strlen("embedded:"), long_name);
    assert_int_equal(config.in_flight, 7);
}

/* A password may contain the characters that begin a line of comment. */
TEST(a_value_has_no_comment)
{
    write_file("store = redis://:pa ;s #s@h:1\n");
    expect_ok("--config FILE");
    assert_string_equal(config.store, "redis://:pa ;s #s@h:1");
}

TEST(a_variable_may_name_the_file)
{
    write_file("in-flight = 7\n");
    setenv("LOCKSTOCKD_CONFIG", path, 1);
    expect_ok("");
    assert_int_equal(config.in_flight, 7);
    setenv("LOCKSTOCKD_CONFIG", "/nonexistent", 1);
    expect_ok("--config FILE");
    expect_invalid("--check-config", "/nonexistent: No such file");
    setenv("LOCKSTOCKD_CONFIG", "", 1);
    expect_ok("");
}

TEST(an_error_in_a_file_names_its_line)
{
#define CASE(text, says)            \
    {                               \
        text, sizeof text - 1, says \
    }
    static const struct {
        const char *text;
        size_t len;
        const char *says;
    } cases[] = {
        CASE("in-flight = 11\nno-such-key = 1\nno-other = 1\n", ":2: no-such-key: unknown key"),
        CASE("; a comment\n\nin-flight = 0\n", ":3: in-flight: must be a number from 1 to 65536"),
        CASE("[section]\nin-flight = 1\n", ":1: sections are not supported in this file"),
        CASE("in-flight = 1\n\nwhat is this\n", ":3: must be `key = value`"),
        CASE("fsync = always\nin-flight = 1\nfsync = everysec\n", ":3: fsync: given more than once, first in line 1"),
        CASE("in-flight = 7\nin-flight = 7\n", ":2: in-flight: given more than once, first in line 1"),
        CASE("in-flight = 1\0 1\n", ":1: contains a NUL"),
        CASE("in-flight = 1\n\0drain-ms = 2\n", ":2: contains a NUL"),
        CASE("drain\0-ms = 2\n", ":1: contains a NUL"),
        CASE("in-flight = 1\n; a comment\0\n", ":2: contains a NUL"),
    };
    char says[256];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_bytes(cases[i].text, cases[i].len);
        snprintf(says, sizeof says, "%s%s", path, cases[i].says);
        expect_invalid("--config FILE", says);
        if (strstr(says, "given more than once")) /* also if a flag overrides both lines */
            expect_invalid("--config FILE --in-flight 3 --fsync always", says);
        unlink(path);
    }
}

TEST_MAIN(.teardown = clear)
