/* Settings: flags beat the environment, which beats the file; what is wrong is
 * named. */
/* promise WS8 */
/* promise F3 */
#include <unistd.h>

#include "config.h"
#include "test.h"

/* Loads with the given flags after the program's name. */
static lks_code load(settings *config, lks_error *error, config_action *action, int n, const char **flags)
{
    char *argv[16] = {(char *)"lockstockd"};

    for (int i = 0; i < n; i++)
        argv[i + 1] = (char *)flags[i];
    return config_load(n + 1, argv, config, action, error);
}

#define LOAD(...)                                                                                 \
    load(&config, &error, &action, (int)(sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *)), \
         (const char *[]){__VA_ARGS__})

static void expect_ok(lks_code code, const lks_error *error)
{
    if (code != LKS_OK)
        fail_msg("%s: %s", lks_code_name(code), error->message);
}

static void expect_invalid(lks_code code, const lks_error *error, const char *named)
{
    if (code != LKS_INVALID_ARGUMENT || !strstr(error->message, named))
        fail_msg("expected INVALID_ARGUMENT naming %s, got %s: %s", named, lks_code_name(code), error->message);
}

static char *write_bytes(const char *text, size_t len)
{
    static char path[] = "/tmp/lockstock-config-XXXXXX";
    memcpy(path + strlen(path) - 6, "XXXXXX", 6);
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, len), len);
    close(fd);
    return path;
}

static char *write_file(const char *text)
{
    return write_bytes(text, strlen(text));
}

TEST(defaults_are_those_of_the_help)
{
    settings config;
    lks_error error;
    config_action action;
    expect_ok(load(&config, &error, &action, 0, NULL), &error);
    assert_int_equal(action, CONFIG_RUN);
    assert_int_equal(config.listen.n, 2);
    assert_string_equal(config.listen.of[0], "tcp://127.0.0.1:7700");
    assert_string_equal(config.listen.of[1], "grpc://127.0.0.1:7701");
    assert_string_equal(config.fsync, "always");
    assert_int_equal(config.message_bytes, 1 << 20);
    assert_int_equal(config.in_flight_per_connection, 256);
    assert_false(config.allow_unsafe_store);
    config_free(&config);
}

TEST(flags_beat_environment_beats_file)
{
    settings config;
    lks_error error;
    config_action action;
    char *file = write_file("in-flight = 11\ntimeout-ms = 22\ndrain-ms = 33\nlisten = nng+tcp://127.0.0.1:1\n"
                            "listen = nng+tcp://127.0.0.1:2\n");
    setenv("LOCKSTOCK_TIMEOUT_MS", "222", 1);
    setenv("LOCKSTOCK_DRAIN_MS", "333", 1);
    lks_code code = LOAD("--config", file, "--drain-ms=3333");
    unsetenv("LOCKSTOCK_TIMEOUT_MS");
    unsetenv("LOCKSTOCK_DRAIN_MS");
    unlink(file);
    expect_ok(code, &error);
    assert_int_equal(config.in_flight, 11);
    assert_int_equal(config.timeout_ms, 222);
    assert_int_equal(config.drain_ms, 3333);
    assert_int_equal(config.listen.n, 2);
    assert_string_equal(config.listen.of[1], "nng+tcp://127.0.0.1:2");
    config_free(&config);
}

TEST(a_stronger_list_replaces_a_weaker_one)
{
    settings config;
    lks_error error;
    config_action action;
    setenv("LOCKSTOCK_LISTEN", "nng+tcp://127.0.0.1:5", 1);
    lks_code code = LOAD("--listen", "nng+tcp://127.0.0.1:1", "--listen", "nng+ws://127.0.0.1:2/x");
    unsetenv("LOCKSTOCK_LISTEN");
    expect_ok(code, &error);
    assert_int_equal(config.listen.n, 2);
    assert_string_equal(config.listen.of[1], "nng+ws://127.0.0.1:2/x");
    config_free(&config);
    expect_ok(LOAD("--listen", "tcp://a:1,tcp://b:2", "--listen", "tcp://c:3"), &error);
    assert_int_equal(config.listen.n, 3);
    assert_string_equal(config.listen.of[0], "tcp://a:1");
    assert_string_equal(config.listen.of[1], "tcp://b:2");
    assert_string_equal(config.listen.of[2], "tcp://c:3");
    config_free(&config);
    assert_int_equal(LOAD("--listen", "tcp://a:1,"), LKS_INVALID_ARGUMENT);
    config_free(&config);
    expect_ok(LOAD("--listen", "ws://a:1/x", "--allow-origin", "https://a,https://b"), &error);
    assert_int_equal(config.listen.n, 1);
    assert_int_equal(config.allow_origin.n, 2);
    assert_string_equal(config.allow_origin.of[1], "https://b");
    config_free(&config);
    expect_ok(LOAD("--listen", "tcp://a:1"), &error);
    assert_int_equal(config.allow_origin.n, 0);
    config_free(&config);
}

/* As the help shows it, with an equals sign, or alone. */
/* promise F4 */
TEST(a_bool_is_said_in_three_ways)
{
    settings config;
    lks_error error;
    config_action action;
    expect_ok(LOAD("--allow-unsafe-store", "true", "--insecure", "--tls-client-required=true"), &error);
    assert_true(config.allow_unsafe_store && config.insecure && config.tls_client_required);
    config_free(&config);
    expect_ok(LOAD("--insecure", "--allow-unsafe-store", "--in-flight", "7"), &error);
    assert_true(config.allow_unsafe_store && config.insecure);
    assert_int_equal(config.in_flight, 7);
    config_free(&config);
    expect_ok(LOAD("--insecure", "false", "--allow-unsafe-store", "true", "--allow-unsafe-store=false"), &error);
    assert_false(config.allow_unsafe_store || config.insecure);
    config_free(&config);
    expect_invalid(LOAD("--allow-unsafe-store", "maybe"), &error, "--allow-unsafe-store: must be true or false");
    config_free(&config);
}

TEST(what_is_wrong_is_named)
{
    settings config;
    lks_error error;
    config_action action;
    expect_invalid(LOAD("--nonsense", "1"), &error, "--nonsense");
    config_free(&config);
    expect_invalid(LOAD("nonsense"), &error, "nonsense");
    config_free(&config);
    expect_invalid(LOAD("--in-flight", "0"), &error, "--in-flight: must be a number from 1 to");
    config_free(&config);
    expect_invalid(LOAD("--in-flight", "12x"), &error, "--in-flight");
    config_free(&config);
    expect_invalid(LOAD("--in-flight"), &error, "--in-flight: needs a value");
    config_free(&config);
    expect_invalid(LOAD("--allow-unsafe-store=perhaps"), &error, "allow-unsafe-store");
    config_free(&config);
    expect_invalid(LOAD("--store", ""), &error, "--store");
    config_free(&config);
    expect_invalid(LOAD("--config", "/nonexistent/lockstock.ini"), &error,
                   "--config /nonexistent/lockstock.ini: No such file or directory");
    config_free(&config);
    expect_invalid(LOAD("--log-level=loud"), &error, "--log-level: must be error, warn, info or debug");
    config_free(&config);
    expect_invalid(LOAD("--fsync=or"), &error, "--fsync: must be always or everysec");
    config_free(&config);
    setenv("LOCKSTOCK_DRAIN_MS", "soon", 1);
    lks_code code = load(&config, &error, &action, 0, NULL);
    unsetenv("LOCKSTOCK_DRAIN_MS");
    expect_invalid(code, &error, "LOCKSTOCK_DRAIN_MS");
    config_free(&config);
}

/* What is found wrong later is named in the same way. */
/* promise F4 */
TEST(where_a_setting_stands_is_known)
{
    settings config;
    lks_error error;
    config_action action;
    char says[256], *file = write_file("store = embedded:a\n; a comment\nfsync = always\npolicy = p\n");

    setenv("LOCKSTOCK_FSYNC", "everysec", 1);
    lks_code code = LOAD("--config", file, "--store=redis://u:secret@h");
    unsetenv("LOCKSTOCK_FSYNC");
    unlink(file);
    expect_ok(code, &error);
    assert_string_equal(config_where(&config, "store"), "--store");
    assert_string_equal(config_where(&config, "fsync"), "LOCKSTOCK_FSYNC");
    snprintf(says, sizeof says, "%s:4: policy", file);
    assert_string_equal(config_where(&config, "policy"), says);
    config_free(&config);
}

/* Sentinels with long names, say. */
TEST(a_line_of_a_file_may_be_long)
{
    enum { LONG = 5000 };
    static char text[LONG + 100], long_name[LONG + 1];
    settings config;
    lks_error error;
    config_action action;

    memset(long_name, 'x', LONG);
    snprintf(text, sizeof text, "  store = embedded:%s ; a comment\n# one more\n\tin-flight : 7 \r\n", long_name);
    char *file = write_file(text);
    lks_code code = LOAD("--config", file);
    unlink(file);
    expect_ok(code, &error);
    assert_string_equal(config.store + strlen("embedded:"), long_name);
    assert_int_equal(config.in_flight, 7);
    config_free(&config);
}

TEST(a_file_of_settings_that_cannot_be_read_is_named)
{
    settings config;
    lks_error error;
    config_action action;

    expect_invalid(LOAD("--config", "/"), &error, "--config /: ");
    config_free(&config);
}

/* "FILE:2: ..." */
TEST(what_is_wrong_in_a_file_is_named_with_its_line)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"in-flight = 11\nno-such-key = 1\nno-other = 1\n", ":2: no-such-key: unknown key"},
        {"; a comment\n\nin-flight = 0\n", ":3: in-flight: must be a number from 1 to 65536"},
        {"[section]\nin-flight = 1\n", ":1: this file has no sections"},
        {"in-flight = 1\n\nwhat is this\n", ":3: is not `key = value`"},
        {"fsync = always\nin-flight = 1\nfsync = everysec\n", ":3: fsync: given more than once, first in line 1"},
        {"in-flight = 7\nin-flight = 7\n", ":2: in-flight: given more than once, first in line 1"}};
    char says[256];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        settings config;
        lks_error error;
        config_action action;
        char *file = write_file(cases[i].text);
        snprintf(says, sizeof says, "%s%s", file, cases[i].says);
        lks_code code = LOAD("--config", file);
        unlink(file);
        expect_invalid(code, &error, says);
        config_free(&config);
    }
}

/* Also where a flag beats them both. */
TEST(a_key_that_is_given_twice_is_wrong_whatever_counts)
{
    settings config;
    lks_error error;
    config_action action;
    char *file = write_file("in-flight = 1\nin-flight = 2\n");

    lks_code code = LOAD("--config", file, "--in-flight", "3");
    unlink(file);
    expect_invalid(code, &error, ":2: in-flight: given more than once");
    config_free(&config);
}

/* It would end the line for whoever reads text: the value be cut, or the line be none. */
TEST(a_nul_in_a_file_of_settings_is_refused)
{
    static const struct {
        const char text[64];
        size_t len;
        const char *says;
    } cases[] = {{"in-flight = 1\0 1\n", 16, ":1: has a NUL in it"},
                 {"in-flight = 1\n\0drain-ms = 2\n", 28, ":2: has a NUL in it"},
                 {"drain\0-ms = 2\n", 14, ":1: has a NUL in it"},
                 {"in-flight = 1\n; a comment\0\n", 27, ":2: has a NUL in it"}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        settings config;
        lks_error error;
        config_action action;
        char *file = write_bytes(cases[i].text, cases[i].len);
        lks_code code = LOAD("--config", file);
        unlink(file);
        expect_invalid(code, &error, cases[i].says);
        config_free(&config);
    }
}

TEST(check_and_print_take_the_other_flags_too)
{
    settings config;
    lks_error error;
    config_action action;
    expect_ok(LOAD("--check-config", "--in-flight", "7"), &error);
    assert_int_equal(action, CONFIG_CHECK);
    assert_int_equal(config.in_flight, 7);
    config_free(&config);
    expect_ok(LOAD("--in-flight=7", "--print-config"), &error);
    assert_int_equal(action, CONFIG_PRINT);
    config_free(&config);
    expect_invalid(LOAD("--check-config", "--in-flight", "x"), &error, "--in-flight");
    config_free(&config);
}

TEST(help_and_version_are_actions)
{
    settings config;
    lks_error error;
    config_action action;
    expect_ok(LOAD("--help"), &error);
    assert_int_equal(action, CONFIG_HELP);
    config_free(&config);
    expect_ok(LOAD("-h"), &error);
    assert_int_equal(action, CONFIG_HELP);
    config_free(&config);
    expect_ok(LOAD("--version"), &error);
    assert_int_equal(action, CONFIG_VERSION);
    config_free(&config);
}

TEST_MAIN()
