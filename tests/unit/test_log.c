/* Lines of the log, in both formats. */

#include "log.h"
#include "test.h"

static void expect(const char *pairs, const char *logfmt, const char *json)
{
    char line[4096], wanted[4096];

    log_line(LOG_FORMAT_LOGFMT, "T", "info", "e", pairs, line, sizeof line);
    snprintf(wanted, sizeof wanted, "time=T level=info event=e%s", logfmt);
    assert_string_equal(line, wanted);
    log_line(LOG_FORMAT_JSON, "T", "info", "e", pairs, line, sizeof line);
    snprintf(wanted, sizeof wanted, "{\"time\":\"T\",\"level\":\"info\",\"event\":\"e\"%s}", json);
    assert_string_equal(line, wanted);
}

TEST(pairs_are_told_in_both_formats)
{
    expect("", "", "");
    expect("url=tcp://h:1 pid=17", " url=tcp://h:1 pid=17", ",\"url\":\"tcp://h:1\",\"pid\":17");
    expect("a=007 b=- c=12345678901234567", " a=007 b=- c=12345678901234567",
           ",\"a\":\"007\",\"b\":\"-\",\"c\":\"12345678901234567\"");
    expect("reason=\"it is gone\" x=1", " reason=\"it is gone\" x=1", ",\"reason\":\"it is gone\",\"x\":1");
    expect("one=\"word\" none=\"\"", " one=word none=\"\"", ",\"one\":\"word\",\"none\":\"\"");
}

TEST(what_is_in_a_value_does_not_end_it)
{
    expect("reason=\"it said \"no\" twice\" x=1", " reason=\"it said \\\"no\\\" twice\" x=1",
           ",\"reason\":\"it said \\\"no\\\" twice\",\"x\":1");
    expect("path=\"a\\b\"", " path=a\\b", ",\"path\":\"a\\\\b\"");
    expect("text=\"two\nlines\"", " text=\"two lines\"", ",\"text\":\"two lines\"");
    expect("text=\"\xc3\xa9 \xff\"", " text=\"\xc3\xa9 ?\"", ",\"text\":\"\xc3\xa9 ?\"");
    expect("text=\"cut short", " text=\"cut short\"", ",\"text\":\"cut short\"");
}

TEST(the_longest_line_is_whole)
{
    char pairs[1024], line[4096];

    for (size_t i = 0; i < sizeof pairs - 1; i++)
        pairs[i] = "a=b "[i % 4];
    pairs[sizeof pairs - 1] = '\0';
    size_t len = log_line(LOG_FORMAT_JSON, "2026-11-21T03:14:15.926Z", "error", "event", pairs, line, sizeof line - 1);
    assert_string_equal(line + len - 2, "\"}");
    memset(pairs + 3, '"', sizeof pairs - 4);
    len = log_line(LOG_FORMAT_JSON, "2026-11-21T03:14:15.926Z", "error", "event", pairs, line, sizeof line - 1);
    assert_string_equal(line + len - 2, "\"}");
}

TEST(levels_and_formats_have_names)
{
    log_level level;
    log_format format;

    assert_true(log_level_parse("warn", &level));
    assert_int_equal(level, LOG_LEVEL_WARN);
    assert_false(log_level_parse("loud", &level));
    assert_true(log_format_parse("json", &format));
    assert_int_equal(format, LOG_FORMAT_JSON);
    assert_false(log_format_parse("xml", &format));
}

TEST_MAIN()
