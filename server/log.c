/* Invariant: one event is one line, written by one write(2), so lines of threads and processes that share the
 * descriptor never mix. A slow reader blocks nothing: a line that does not fit is dropped and counted. Other processes
 * share the descriptor, so it is not made non-blocking: a socket is written with MSG_DONTWAIT, and for a pipe poll
 * reports whether there is room for a line of PIPE_BUF. */
#include "log.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <lockstock/rpc/utf8.h>

#include "base/clock.h"

/* A pair takes three times its length at most; a line is PIPE_BUF at most. */
enum { PAIRS_BYTES = 1024, LINE_BYTES = 4096 };

static const char *const level_names[] = {"error", "warn", "info", "debug"};
static const char *const format_names[] = {"logfmt", "json"};
static log_level threshold = LOG_LEVEL_INFO;
static log_format written = LOG_FORMAT_LOGFMT;
static atomic_uint left_out; /* dropped lines since the last written one */
static atomic_ullong lost;   /* dropped lines, in all */

/* Returns the index of a word in a list; -1: not found. */
static int index_of(const char *text, const char *const words[], int n)
{
    while (--n >= 0 && strcmp(text, words[n]) != 0)
        ;
    return n;
}

bool log_level_parse(const char *text, log_level *ret)
{
    int level = index_of(text, level_names, LOG_LEVEL_DEBUG + 1);

    if (level >= 0)
        *ret = (log_level)level;
    return level >= 0;
}

bool log_format_parse(const char *text, log_format *ret)
{
    int format = index_of(text, format_names, LOG_FORMAT_JSON + 1);

    if (format >= 0)
        *ret = (log_format)format;
    return format >= 0;
}

void log_set(log_level level, log_format format)
{
    threshold = level;
    written = format;
}

/* ---- a line ---------------------------------------------------------------------- */

typedef struct text {
    char *at;
    size_t len, size; /* one byte is reserved for the NUL */
} text;

static void put(text *to, char c)
{
    if (to->len + 1 < to->size)
        to->at[to->len++] = c;
}

static void put_text(text *to, const char *from)
{
    while (*from)
        put(to, *from++);
}

/* Puts a quoted value, for both formats. */
static void put_quoted(text *to, const char *from, size_t len)
{
    const char *end = from + len;

    put(to, '"');
    while (from < end) {
        size_t n = 1;
        while (n < 4 && from + n < end && ((unsigned char)from[n] & 0xC0) == 0x80)
            n++;
        bool is_character = lks_rpc_utf8_valid(from, n);
        if (is_character && (*from == '"' || *from == '\\'))
            put(to, '\\');
        for (size_t i = 0; i < n && is_character; i++)
            put(to, (unsigned char)from[i] < ' ' ? ' ' : from[i]);
        if (!is_character) {
            put(to, '?');
            n = 1;
        }
        from += n;
    }
    put(to, '"');
}

static bool is_number(const char *value, size_t len)
{
    size_t digits = 0;

    while (digits < len && value[digits] >= '0' && value[digits] <= '9')
        digits++;
    return len > 0 && len <= 15 && digits == len && (len == 1 || value[0] != '0');
}

static bool is_plain(const char *value, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)value[i] <= ' ' || (unsigned char)value[i] > '~' || value[i] == '"' || value[i] == '=')
            return false;
    return len > 0;
}

static void put_pair(text *to, log_format format, const char *key, size_t key_len, const char *value, size_t len)
{
    bool json = format == LOG_FORMAT_JSON;

    put_text(to, to->len == 0 ? (json ? "{" : "") : json ? "," : " ");
    if (json)
        put_quoted(to, key, key_len);
    else
        for (size_t i = 0; i < key_len; i++)
            put(to, key[i]);
    put(to, json ? ':' : '=');
    if (json ? is_number(value, len) : is_plain(value, len))
        for (size_t i = 0; i < len; i++)
            put(to, value[i]);
    else
        put_quoted(to, value, len);
}

/* Returns the end of a value, which may be in quotes. `value` begins after the "=". */
static const char *end_of_value(const char *value)
{
    if (*value != '"')
        return value + strcspn(value, " ");
    for (const char *quote = strchr(value + 1, '"'); quote; quote = strchr(quote + 1, '"')) {
        size_t word = quote[1] == ' ' ? strcspn(quote + 2, " =\"") : 0;
        if (quote[1] == '\0' || (word > 0 && quote[2 + word] == '='))
            return quote;
    }
    return value + strlen(value);
}

size_t log_line(log_format format, const char *time, const char *level, const char *event, const char *pairs,
                char *line, size_t size)
{
    text to = {line, 0, size - 1}; /* one more byte for the end of JSON */

    put_pair(&to, format, "time", 4, time, strlen(time));
    put_pair(&to, format, "level", 5, level, strlen(level));
    put_pair(&to, format, "event", 5, event, strlen(event));
    while (*pairs) {
        size_t key_len = strcspn(pairs, "= ");
        const char *value = pairs + key_len + (pairs[key_len] == '=');
        const char *end = end_of_value(value);
        bool quoted = *value == '"';
        if (key_len > 0)
            put_pair(&to, format, pairs, key_len, value + quoted, (size_t)(end - value) - quoted);
        pairs = *end == '"' ? end + 1 : end;
        pairs += strspn(pairs, " ");
    }
    to.size++;
    if (format == LOG_FORMAT_JSON)
        put(&to, '}');
    line[to.len] = '\0';
    return to.len;
}

/* Returns false if there is no room for the line now. When stderr is closed the line counts as written. */
static bool write_now(const char *line, size_t len)
{
    struct pollfd room = {.fd = STDERR_FILENO, .events = POLLOUT};
    ssize_t n = send(STDERR_FILENO, line, len, MSG_DONTWAIT | MSG_NOSIGNAL);

    if (n < 0 && errno == ENOTSOCK) {
        if (poll(&room, 1, 0) == 0)
            return false;
        n = write(STDERR_FILENO, line, len);
    }
    return n >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
}

static void write_event(log_level level, const char *event, const char *pairs)
{
    char line[LINE_BYTES], time[32];
    int64_t now_ms = clock_unix_ms();
    struct tm utc;

    gmtime_r(&(const time_t){now_ms / 1000}, &utc);
    size_t len = strftime(time, sizeof time, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(time + len, sizeof time - len, ".%03dZ", (int)(now_ms % 1000));
    len = log_line(written, time, level_names[level], event, pairs, line, sizeof line - 1);
    line[len++] = '\n';
    if (!write_now(line, len)) {
        atomic_fetch_add(&left_out, 1);
        atomic_fetch_add(&lost, 1);
    }
}

void log_tell(void *arg, bool warns, const char *event, const char *line)
{
    (void)arg;
    log_event(warns ? LOG_LEVEL_WARN : LOG_LEVEL_DEBUG, event, "%s", line);
}

uint64_t log_lines_lost(void)
{
    return atomic_load(&lost);
}

static void report_left_out(void)
{
    unsigned n = atomic_exchange(&left_out, 0);

    if (n > 0)
        log_warn("log-lines-lost", "count=%u", n);
    if (n > 0 && atomic_load(&left_out) > 0)
        atomic_fetch_add(&left_out, n - 1); /* the line above was lost, too */
}

__attribute__((format(printf, 3, 0))) static void write_line(log_level level, const char *event, const char *format,
                                                             va_list args)
{
    char pairs[PAIRS_BYTES];

    vsnprintf(pairs, sizeof pairs, format, args);
    report_left_out();
    write_event(level, event, pairs);
}

void log_audit(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    write_line(LOG_LEVEL_INFO, "audit", format, args);
    va_end(args);
}

void log_event(log_level level, const char *event, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    if (level <= threshold)
        write_line(level, event, format, args);
    va_end(args);
}
