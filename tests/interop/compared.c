/* For compare_hosts.py: a host and a channel.
 *   compared server [DIR]        writes its port; reads "go", "reload" and "drain MS"; ends with its input
 *   compared client ADDRESS CASE [cancel]
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <lockstock/host.h>
#include <lockstock/lockstock.h>

#include "compared/v1/compared.lks_client.h"
#include "compared/v1/compared.lks_server.h"

enum { LINE = 64, PATH = 256, POLL_NS = 5000000, TIMEOUT_MS = 1000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool open_gate;
static lks_host *host;
static lks_rpc_service service;

static void say(const char *line)
{
    pthread_mutex_lock(&lock);
    puts(line);
    fflush(stdout);
    pthread_mutex_unlock(&lock);
}

/* ---- the host --------------------------------------------------------------------------------------- */

static const char *values(lks_rpc_context *context, const char *key)
{
    char *all = lks_rpc_arena_copy(context->arena, "", 0);

    for (size_t i = 0; i < context->n_metadata; i++) {
        const lks_rpc_metadata *entry = &context->metadata[i];
        if (strcmp(entry->key, key) == 0)
            all = lks_rpc_arena_printf(context->arena, "%s%s%.*s", all, *all ? "," : "", (int)entry->value.len,
                                       entry->value.data);
    }
    return all;
}

/* A handler without a callback polls; the sleep between polls is part of the measurement. */
static void hold(lks_rpc_context *context)
{
    say("began");
    while (!lks_host_is_cancelled(context))
        nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
    say("cancelled");
}

static void work(void)
{
    say("began");
    pthread_mutex_lock(&lock);
    while (!open_gate)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static lks_code my_ask(void *self, lks_rpc_context *context, const compared_v1_ask_request *request,
                       compared_v1_ask_response *response, lks_error *error)
{
    const char *what = request->what;
    uint32_t left_ms = lks_host_left_ms(context);

    if (strcmp(what, "deadline") == 0)
        response->text = left_ms <= 25000 ? "20 s" : left_ms <= 30000 ? "30 s" : "more";
    if (strcmp(what, "metadata") == 0)
        response->text =
            lks_rpc_arena_printf(context->arena, "%s; %s", values(context, "x-text"), values(context, "x-raw-bin"));
    if (strcmp(what, "trailers") == 0 && lks_host_add_header(context, "x-first", "1", 1, error) == LKS_OK)
        return lks_host_add_trailer(context, "x-last", "2", 1, error);
    if (strcmp(what, "peer") == 0)
        response->text = lks_rpc_arena_printf(context->arena, "%s %.*s", context->peer->wire,
                                              (int)strcspn(context->peer->address, ":"), context->peer->address);
    for (size_t i = 0; strcmp(what, "names") == 0 && i < context->peer->n_names; i++)
        response->text = lks_rpc_arena_printf(context->arena, "%s%s%s", response->text, i > 0 ? ", " : "",
                                              context->peer->names[i].text);
    if (strcmp(what, "fail") == 0 && request->text.len > 0 &&
        lks_host_set_text(context, lks_rpc_arena_copy(context->arena, request->text.data, request->text.len), error) ==
            LKS_RESOURCE_EXHAUSTED)
        return error->code;
    if (strcmp(what, "fail") == 0)
        return lks_error_set(error, (lks_code)request->code, LKS_APPLIED_NO, "%.*s", (int)request->text.len,
                             (const char *)request->text.data);
    if (strcmp(what, "hold") == 0)
        hold(context);
    if (strcmp(what, "work") == 0)
        work();
    return LKS_OK;
}

static lks_code my_write(void *self, lks_rpc_context *context, const compared_v1_ask_request *request,
                         compared_v1_ask_response *response, lks_error *error)
{
    return my_ask(self, context, request, response, error);
}

static void *drain(void *arg)
{
    lks_host_close(host, (uint32_t) * (const int *)arg);
    host = NULL;
    say("closed");
    return NULL;
}

static lks_code listen_on(const char *dir, uint16_t *port, lks_error *error)
{
    static char certificate[PATH], key[PATH], authority[PATH]; /* they stay for a reload */
    char socket[PATH + LINE];
    lks_host_options options = {0};

    if (dir) {
        snprintf(certificate, sizeof certificate, "%s/cert.pem", dir);
        snprintf(key, sizeof key, "%s/key.pem", dir);
        snprintf(authority, sizeof authority, "%s/ca.pem", dir);
        snprintf(socket, sizeof socket, "grpc+unix://%s/socket", dir);
        options = (lks_host_options){.tls_certificate = certificate, .tls_key = key, .tls_client_ca = authority};
    }
    lks_code code = lks_host_open(&options, &host, error);
    if (code == LKS_OK)
        code = lks_host_add(host, &service, error);
    if (code == LKS_OK)
        code = lks_host_listen(host, dir ? "grpcs://127.0.0.1:0" : "grpc://127.0.0.1:0", port, error);
    return code == LKS_OK && dir ? lks_host_listen(host, socket, NULL, error) : code;
}

static int serve(const char *dir)
{
    static const compared_v1_compared_handlers handlers = COMPARED_V1_COMPARED_HANDLERS(my_);
    char line[LINE];
    int drain_ms = 0;
    pthread_t drains;
    lks_error error;
    uint16_t port;

    service = compared_v1_compared_service(&handlers, NULL);
    if (listen_on(dir, &port, &error) != LKS_OK)
        return fprintf(stderr, "%s\n", error.message), 1;
    snprintf(line, sizeof line, "%u", port);
    say(line);
    while (fgets(line, sizeof line, stdin)) {
        if (sscanf(line, "drain %d", &drain_ms) == 1)
            pthread_create(&drains, NULL, drain, &drain_ms);
        if (strcmp(line, "reload\n") == 0)
            lks_host_reload_tls(host, &error);
        pthread_mutex_lock(&lock);
        open_gate |= strcmp(line, "go\n") == 0;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
    }
    if (drain_ms > 0)
        pthread_join(drains, NULL);
    lks_host_close(host, 0);
    return 0;
}

/* ---- the channel ------------------------------------------------------------------------------------ */

static void *cancel(void *call)
{
    char line[LINE];

    if (fgets(line, sizeof line, stdin))
        lks_call_cancel(call);
    return NULL;
}

static int client(const char *address, const char *what, bool cancels)
{
    const lks_call_options options = {.timeout_ms = TIMEOUT_MS};
    compared_v1_ask_request request = COMPARED_V1_ASK_REQUEST_INIT;
    lks_channel *channel;
    lks_call *call;
    lks_error error;
    char url[LINE];
    pthread_t canceller;

    snprintf(url, sizeof url, "grpc://%s", address);
    request.what = what;
    if (lks_channel_open(url, NULL, &channel, &error) != LKS_OK)
        return 1;
    lks_code code = strcmp(what, "write") == 0 || strcmp(what, "hold") == 0
                        ? compared_v1_compared_write_start(channel, &request, &options, NULL, NULL, &call, &error)
                        : compared_v1_compared_ask_start(channel, &request, &options, NULL, NULL, &call, &error);
    if (code != LKS_OK)
        return 1;
    if (cancels)
        pthread_create(&canceller, NULL, cancel, call);
    code = lks_call_wait(call, &error);
    printf("%d %zu", (int)code, strlen(lks_call_text(call)));
    lks_metadata entry;
    for (size_t i = 0; lks_call_trailer(call, i, &entry); i++)
        if (strcmp(entry.key, "x-last") == 0)
            printf(" x-last=%.*s", (int)entry.len, (const char *)entry.value);
    puts("");
    fflush(stdout);
    if (cancels)
        pthread_join(canceller, NULL);
    lks_call_free(call);
    lks_channel_close(channel);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return serve(argc < 3 ? NULL : argv[2]);
    return client(argv[2], argv[3], argc > 4);
}
