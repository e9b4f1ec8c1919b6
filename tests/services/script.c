/* Invariant: a line is empty when it is given out, and whole or cut at its end. */
#include "services/script.h"

#include <stdio.h>

enum { LINES = 64 };

harness *script_harness;

static char lines[LINES][LINE_BYTES];
static size_t next_line;

int script_open(void **state)
{
    script_harness = harness_new();
    return script_harness ? 0 : -1;
}

int script_reset(void **state)
{
    harness_reset(script_harness);
    return 0;
}

int script_close(void **state)
{
    harness_free(script_harness);
    return 0;
}

void says_begin(const char *said, const char *expected)
{
    if (strncmp(said, expected, strlen(expected)) != 0)
        fail_msg("\"%s\" does not begin with \"%s\"", said, expected);
}

void pass_seconds(int64_t seconds)
{
    harness_advance_ms(script_harness, seconds * 1000);
}

void about(int64_t left_ms, int64_t expected_ms)
{
    if (left_ms > expected_ms || left_ms < expected_ms - 90000)
        fail_msg("%lld ms are left, not %lld", (long long)left_ms, (long long)expected_ms);
}

const char *token_of(const char *alias)
{
    char *token = new_line();

    add(token, LINE_BYTES, "%s", alias);
    while (strlen(token) < SERVICE_TOKEN_BYTES_MIN)
        add(token, LINE_BYTES, ".");
    return token;
}

char *new_line(void)
{
    char *line = lines[next_line++ % LINES];

    line[0] = '\0';
    return line;
}

void add(char *text, size_t size, const char *format, ...)
{
    size_t len = strlen(text);
    va_list args;

    va_start(args, format);
    vsnprintf(text + len, size - len, format, args);
    va_end(args);
}

void add_error(char *line, const lks_error *error)
{
    add(line, LINE_BYTES, "%s %s %s", lks_code_name(error->code), lks_applied_name(error->applied), error->message);
}

const void *run_line(const service *s, const char *method, const void *request, char *line)
{
    lks_error error;
    const void *response = harness_call(script_harness, s, method, request, &error);

    if (!response)
        add_error(line, &error);
    return response;
}
