/* One-line structured logs on standard error:
 *
 *     time=2026-11-21T03:14:15.926Z level=info event=listening url=tcp://127.0.0.1:7700
 *     {"time":"2026-11-21T03:14:15.926Z","level":"info","event":"listening","url":"tcp://127.0.0.1:7700"}
 *
 * Never logged: owners, buyers, keys, tokens, payloads, passwords; names only in the event "audit". */
#ifndef LOCKSTOCK_SERVER_LOG_H
#define LOCKSTOCK_SERVER_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG } log_level;

typedef enum log_format { LOG_FORMAT_LOGFMT, LOG_FORMAT_JSON } log_format;

/* "error", "warn", "info", "debug". False: none of them. */
bool log_level_parse(const char *text, log_level *ret);

/* "logfmt", "json". False: none of them. */
bool log_format_parse(const char *text, log_format *ret);

/* Call this before other threads start. Events below `level` are dropped. */
void log_set(log_level level, log_format format);

/* `event` is one word. `format` gives key=value pairs separated by a space; a value with spaces is in double quotes and
 * may contain anything but a quote followed by a space, a word and =. Line breaks become spaces, and invalid UTF-8
 * becomes ?. Thread-safe. Never blocks: a line is dropped when the pipe is full, and the event log-lines-lost before
 * the next line counts the dropped lines. */
void log_event(log_level level, const char *event, const char *format, ...) __attribute__((format(printf, 3, 4)));
#define log_error(...) log_event(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warn(...) log_event(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_info(...) log_event(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_event(LOG_LEVEL_DEBUG, __VA_ARGS__)

/* Logs a ready line, as warn or debug. `arg` is unused. */
void log_tell(void *arg, bool warns, const char *event, const char *line);

/* How many lines were dropped. Thread-safe. */
uint64_t log_lines_lost(void);

/* Logs the event "audit" at level info. It is written at every level of log_set. */
void log_audit(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Writes a line without its line break; also for tests. `pairs` is the formatted text of the functions above. Returns
 * its length, which is less than size. */
size_t log_line(log_format format, const char *time, const char *level, const char *event, const char *pairs,
                char *line, size_t size);

#endif
