/* One-line structured logs on standard error:
 *
 *     2026-11-21T03:14:15.926Z level=info event=listening url=tcp://127.0.0.1:7700
 *
 * Never logged: owners, buyers, names, keys, tokens, payloads, passwords. */
#ifndef LOCKSTOCK_SERVER_LOG_H
#define LOCKSTOCK_SERVER_LOG_H

#include <stdbool.h>

typedef enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG } log_level;

/* "error", "warn", "info", "debug". False: none of them. */
bool log_level_parse(const char *text, log_level *ret);

/* Before other threads start. */
void log_set_level(log_level level);

/* `event` is one word; the rest are key=value pairs, a value with spaces in
 * double quotes. Line breaks are written as spaces. Thread-safe. */
void log_error(const char *event, const char *format, ...) __attribute__((format(printf, 2, 3)));
void log_warn(const char *event, const char *format, ...) __attribute__((format(printf, 2, 3)));
void log_info(const char *event, const char *format, ...) __attribute__((format(printf, 2, 3)));
void log_debug(const char *event, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
