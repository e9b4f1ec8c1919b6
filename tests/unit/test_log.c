/* Lines of the log, in both formats. */
/* promise K12 */

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

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

TEST(pairs_are_written_in_both_formats)
{
    expect("", "", "");
    expect("url=tcp://h:1 pid=17", " url=tcp://h:1 pid=17", ",\"url\":\"tcp://h:1\",\"pid\":17");
    expect("a=007 b=- c=12345678901234567", " a=007 b=- c=12345678901234567",
           ",\"a\":\"007\",\"b\":\"-\",\"c\":\"12345678901234567\"");
    expect("reason=\"it is gone\" x=1", " reason=\"it is gone\" x=1", ",\"reason\":\"it is gone\",\"x\":1");
    expect("one=\"word\" none=\"\"", " one=word none=\"\"", ",\"one\":\"word\",\"none\":\"\"");
}

TEST(quotes_in_a_value_do_not_end_it)
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

/* Returns the available text. */
static ssize_t read_now(int fd, char *to, size_t room)
{
    struct pollfd readable = {.fd = fd, .events = POLLIN};

    return poll(&readable, 1, 0) == 1 ? read(fd, to, room) : 0;
}

static size_t read_all(int fd, char *text, size_t used, size_t size)
{
    ssize_t got;

    while ((got = read_now(fd, text + used, size - 1 - used)) > 0)
        used += (size_t)got;
    text[used] = '\0';
    return used;
}

/* To a pipe or socket whose reader does not read: logging returns, and reports the number of dropped lines. */
static void lines_are_left_out(const int ends[2])
{
    enum { LINES = 1000 };
    static char text[2 * 1024 * 1024];
    int err = dup(STDERR_FILENO), n = 0, lost = 0, said = 0;

    dup2(ends[1], STDERR_FILENO);
    for (int i = 0; i < LINES; i++)
        log_info("line", "number=%d text=%0900d", i, 0);
    size_t used = read_all(ends[0], text, 0, sizeof text);
    log_info("line", "number=%d text=%0900d", LINES, 0);
    log_info("line", "number=%d text=%0900d", LINES + 1, 0);
    read_all(ends[0], text, used, sizeof text);
    dup2(err, STDERR_FILENO);
    close(err);
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        const char *count = strstr(line, "event=log-lines-lost count=");
        assert_memory_equal(line, "time=", 5); /* none is cut */
        n += strstr(line, "event=line ") != NULL;
        said += count != NULL;
        lost += count ? atoi(count + strlen("event=log-lines-lost count=")) : 0;
    }
    assert_int_equal(said, 1);
    assert_in_range(lost, 1, LINES);
    assert_int_equal(n + lost, LINES + 2);
}

TEST(full_pipe_drops_lines_and_does_not_block)
{
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    lines_are_left_out(ends);
    close(ends[0]);
    close(ends[1]);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    lines_are_left_out(ends);
    close(ends[0]);
    close(ends[1]);
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
