/* torture_caller URLS: makes the calls that it reads, one a line, and writes what became of each.
 *
 *   in   {"k": 7, "m": "StockService/Deduct", "t": 2000, "r": {...}}          t: timeout in ms
 *   out  {"k": 7, "b": 1, "e": 2, "code": "OK", "applied": "YES", "a": {...}}  b, e: ns of CLOCK_MONOTONIC, from before
 *        the call was started to after it was answered; "why" in place of "a" when it failed
 *
 * All calls that were read run at once, on one channel. It ends with its input, when all are answered. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>
#include <lockstock/call.h>
#include <lockstock/v1/guard.lks.h>
#include <lockstock/v1/id.lks.h>
#include <lockstock/v1/idempotency.lks.h>
#include <lockstock/v1/lock.lks.h>
#include <lockstock/v1/ratelimit.lks.h>
#include <lockstock/v1/stock.lks.h>

#include "base/clock.h"
#include "rpc/json/json.h"

#define METHOD(name, Name, request, response, constant) &(constant),
static const lks_rpc_method *const methods[] = {LKS_LOCK_METHODS(METHOD) LKS_STOCK_METHODS(METHOD)
                                                    LKS_IDEMPOTENCY_METHODS(METHOD) LKS_RATE_LIMIT_METHODS(METHOD)
                                                        LKS_ID_METHODS(METHOD) LKS_GUARD_METHODS(METHOD)};

typedef struct asked {
    json_int_t k;
    long long begun;
} asked;

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    size_t open;
} calls = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};

_Noreturn static void die(const char *what)
{
    fprintf(stderr, "torture_caller: %s\n", what);
    _exit(EXIT_FAILURE);
}

static const lks_rpc_method *method_of(const char *path)
{
    for (size_t i = 0; path && i < sizeof methods / sizeof *methods; i++)
        if (strcmp(strrchr(methods[i]->path, '.') + 1, path) == 0)
            return methods[i];
    die("unknown method");
}

/* By one thread at a time: the completion thread, or the first before a call has begun. */
static void write_line(const char *text, size_t len)
{
    pthread_mutex_lock(&calls.mutex);
    for (size_t at = 0; at < len;) {
        ssize_t n = write(STDOUT_FILENO, text + at, len - at);
        if (n <= 0)
            _exit(EXIT_FAILURE); /* the reader has closed the pipe */
        at += (size_t)n;
    }
    pthread_mutex_unlock(&calls.mutex);
}

static void report(const asked *call, const ProtobufCMessage *response, const lks_error *error)
{
    static const lks_rpc_json_options as_it_is;
    long long ended = (long long)clock_now_ns();
    lks_rpc_arena *arena = lks_rpc_arena_new();
    lks_rpc_slice answer = {0};
    lks_error fault;

    if (response && lks_rpc_json_print(response, &as_it_is, arena, &answer, &fault) != LKS_OK)
        die(fault.message);
    json_t *why = json_string(response ? "" : error->message);
    char *why_text = json_dumps(why, JSON_ENCODE_ANY);
    const char *line = lks_rpc_arena_printf(
        arena, "{\"k\": %lld, \"b\": %lld, \"e\": %lld, \"code\": \"%s\", \"applied\": \"%s\", \"%s\": %.*s}\n",
        (long long)call->k, call->begun, ended, response ? "OK" : lks_code_name(error->code),
        response ? "YES" : lks_applied_name(error->applied), response ? "a" : "why",
        response ? (int)answer.len : (int)strlen(why_text), response ? (const char *)answer.data : why_text);
    if (!line)
        die("out of memory");
    write_line(line, strlen(line));
    free(why_text);
    json_decref(why);
    lks_rpc_arena_free(arena);
}

static void done(lks_call_function *function, void *arg, lks_code code, const ProtobufCMessage *response,
                 const lks_error *error)
{
    report(arg, code == LKS_OK ? response : NULL, error);
    free(arg);
    pthread_mutex_lock(&calls.mutex);
    calls.open--;
    pthread_cond_signal(&calls.changed);
    pthread_mutex_unlock(&calls.mutex);
}

static void start(lks_channel *channel, const char *line, size_t len)
{
    json_error_t where;
    json_t *root = json_loadb(line, len, 0, &where);
    json_t *request = root ? json_object_get(root, "r") : NULL;
    asked *call = calloc(1, sizeof *call);
    lks_rpc_arena *arena = lks_rpc_arena_new();
    ProtobufCMessage *message;
    lks_error error = {0};

    if (!request || !call || !arena)
        die(root ? "no request" : where.text);
    const lks_rpc_method *method = method_of(json_string_value(json_object_get(root, "m")));
    const lks_call_options options = {.timeout_ms = (uint32_t)json_integer_value(json_object_get(root, "t"))};
    char *text = json_dumps(request, 0);
    if (lks_rpc_json_parse(method->request, text, strlen(text), &lks_rpc_scan_defaults, arena, &message, &error) !=
        LKS_OK)
        die(error.message);
    call->k = json_integer_value(json_object_get(root, "k"));
    pthread_mutex_lock(&calls.mutex);
    calls.open++;
    pthread_mutex_unlock(&calls.mutex);
    call->begun = (long long)clock_now_ns();
    if (lks_call_start(channel, method, message, &options, done, NULL, call, NULL, &error) != LKS_OK)
        done(NULL, call, error.code, NULL, &error);
    free(text);
    lks_rpc_arena_free(arena);
    json_decref(root);
}

int main(int argc, char **argv)
{
    const lks_channel_options options = {.timeout_ms = 10000};
    lks_channel *channel;
    lks_error error;
    char *line = NULL;
    size_t size = 0;
    ssize_t n;

    if (argc != 2 || lks_channel_open(argv[1], &options, &channel, &error) != LKS_OK)
        die(argc == 2 ? error.message : "usage: torture_caller URLS");
    while ((n = getline(&line, &size, stdin)) > 0)
        start(channel, line, (size_t)n);
    free(line);
    pthread_mutex_lock(&calls.mutex);
    while (calls.open > 0)
        pthread_cond_wait(&calls.changed, &calls.mutex);
    pthread_mutex_unlock(&calls.mutex);
    lks_channel_close(channel);
    return EXIT_SUCCESS;
}
