/* Invariant: one event is one line, written by one write(2), so that lines of
 * threads and processes that share the descriptor never mix. */
#include "log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const level_names[] = {"error", "warn", "info", "debug"};
static log_level threshold = LOG_LEVEL_INFO;

bool log_level_parse(const char *text, log_level *ret)
{
    for (int level = LOG_LEVEL_ERROR; level <= LOG_LEVEL_DEBUG; level++) {
        if (strcmp(text, level_names[level]) == 0) {
            *ret = (log_level)level;
            return true;
        }
    }
    return false;
}

void log_set_level(log_level level)
{
    threshold = level;
}

__attribute__((format(printf, 3, 0))) static void write_line(log_level level, const char *event, const char *format,
                                                             va_list args)
{
    char line[1024];
    struct timespec now;
    struct tm utc;
    size_t len;

    if (level > threshold)
        return;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    len = strftime(line, sizeof line, "%Y-%m-%dT%H:%M:%S", &utc);
    len += (size_t)snprintf(line + len, sizeof line - len, ".%03ldZ level=%s event=%s ", now.tv_nsec / 1000000,
                            level_names[level], event);
    int more = vsnprintf(line + len, sizeof line - len, format, args);
    if (more > 0)
        len += (size_t)more;
    if (len > sizeof line - 1)
        len = sizeof line - 1;
    for (size_t i = 0; i < len; i++)
        if (line[i] == '\n' || line[i] == '\r')
            line[i] = ' ';
    line[len++] = '\n';
    if (write(STDERR_FILENO, line, len) < 0)
        return; /* nobody listens */
}

void log_error(const char *event, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_line(LOG_LEVEL_ERROR, event, format, args);
    va_end(args);
}

void log_warn(const char *event, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_line(LOG_LEVEL_WARN, event, format, args);
    va_end(args);
}

void log_info(const char *event, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_line(LOG_LEVEL_INFO, event, format, args);
    va_end(args);
}

void log_debug(const char *event, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_line(LOG_LEVEL_DEBUG, event, format, args);
    va_end(args);
}
