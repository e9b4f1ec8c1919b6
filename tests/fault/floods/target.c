#include "target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openssl/evp.h>

#include "support/redis_fixture.h"
#include "support/server_fixture.h"
#include "support/tempdir.h"

enum { STOP_MS = 60000, ARGS_MAX = 48 };

static struct {
    redis_fixture *store;
    server_fixture *server;
    char urls[N_WIRES][192];
    char policy[160], tokens[160];
    const char *args[ARGS_MAX];
    const char *env[2];
    char sanitizer[512];
} here;

static const char *const schemes[N_WIRES] = {
    [WIRE_TCP] = "tcp", [WIRE_UNIX] = "unix", [WIRE_TLS] = "tls",
    [WIRE_WS] = "ws",   [WIRE_GRPC] = "grpc", [WIRE_GRPCS] = "grpcs",
};

/* $LOCKSTOCK_FLOODS_SERVER, else that of this build. */
static const char *program(void)
{
    const char *path = getenv("LOCKSTOCK_FLOODS_SERVER");

    return path ? path : server_fixture_program();
}

static void add_token(char *text, size_t size, const char *token, const char *principal)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned len = 0;

    EVP_Digest(token, strlen(token), digest, &len, EVP_sha256(), NULL);
    for (unsigned i = 0; i < len; i++)
        snprintf(text + strlen(text), size - strlen(text), "%02x", digest[i]);
    snprintf(text + strlen(text), size - strlen(text), " %s\n", principal);
}

static bool write_policy(const char *dir)
{
    static const char policy[] = "[others]\n* = READ, WRITE, ADMIN\n[attackers]\n* = READ, WRITE, ADMIN\n"
                                 "grpc.reflection.v1.ServerReflection = READ\n";
    char tokens[512] = "";

    snprintf(here.policy, sizeof here.policy, "%s/policy", dir);
    snprintf(here.tokens, sizeof here.tokens, "%s/tokens", dir);
    add_token(tokens, sizeof tokens, TARGET_OTHERS_TOKEN, "others");
    add_token(tokens, sizeof tokens, TARGET_ATTACKERS_TOKEN, "attackers");
    return tempdir_write(here.policy, policy) && tempdir_write(here.tokens, tokens);
}

/* The fixture makes the certificate for tls:// and listens on it; the other wires are more arguments. */
static bool start_server(const char *const *args)
{
    const char *inherited = getenv("ASAN_OPTIONS");
    size_t n = 0;

    for (wire w = 0; w < N_WIRES; w++) {
        if (w == WIRE_TLS)
            continue;
        if (w == WIRE_UNIX)
            snprintf(here.urls[w], sizeof here.urls[w], "unix://%s/server", redis_fixture_dir(here.store));
        else
            snprintf(here.urls[w], sizeof here.urls[w], "%s://127.0.0.1:%u%s", schemes[w], server_fixture_free_port(),
                     w == WIRE_WS ? "/" : "");
        here.args[n++] = "--listen";
        here.args[n++] = here.urls[w];
    }
    here.args[n++] = "--allow-unsafe-store"; /* the disk is not measured */
    here.args[n++] = "--policy";
    here.args[n++] = here.policy;
    here.args[n++] = "--tokens";
    here.args[n++] = here.tokens;
    while (args && *args && n < ARGS_MAX - 1)
        here.args[n++] = *args++;
    here.args[n] = NULL;
    /* ASan keeps freed memory for a while: not what is measured here. */
    snprintf(here.sanitizer, sizeof here.sanitizer, "ASAN_OPTIONS=%s:quarantine_size_mb=16",
             inherited ? inherited : "");
    here.env[0] = here.sanitizer;
    here.server = server_fixture_start(&(server_fixture_options){.program = program(),
                                                                 .store = redis_fixture_url(here.store),
                                                                 .args = here.args,
                                                                 .env = here.env,
                                                                 .scheme = schemes[WIRE_TLS]});
    if (here.server)
        snprintf(here.urls[WIRE_TLS], sizeof here.urls[0], "%s", server_fixture_url(here.server));
    return here.server;
}

bool target_start(const char *const *args)
{
    if (access(program(), X_OK) != 0) {
        fprintf(stderr, "there is no server at %s: cmake --preset release && cmake --build --preset release\n",
                program());
        return false;
    }
    here.store = redis_fixture_start(NULL);
    if (here.store && write_policy(redis_fixture_dir(here.store)) && start_server(args))
        return true;
    target_stop();
    return false;
}

bool target_stop(void)
{
    bool clean = !here.server || server_fixture_stop(here.server, STOP_MS);

    server_fixture_free(here.server);
    redis_fixture_free(here.store);
    here.server = NULL;
    here.store = NULL;
    return clean;
}

bool target_is_alive(void)
{
    if (!here.server || !here.store)
        return false;
    if (!process_wait(server_fixture_process(here.server), 0, NULL))
        return true;
    process_exited_with(server_fixture_process(here.server), 0, 0);
    server_fixture_free(here.server);
    here.server = NULL;
    target_stop();
    return false;
}

const char *target_url(wire w)
{
    return here.urls[w];
}

unsigned short target_port(wire w)
{
    return w == WIRE_UNIX ? 0 : (unsigned short)strtoul(strrchr(here.urls[w], ':') + 1, NULL, 10);
}

const char *target_certificate(wire w)
{
    return target_has_tls(w) ? server_fixture_certificate(here.server) : NULL;
}

bool target_uses_h2(wire w)
{
    return w == WIRE_GRPC || w == WIRE_GRPCS;
}

bool target_has_tls(wire w)
{
    return w == WIRE_TLS || w == WIRE_GRPCS;
}

const wire_driver *target_driver(wire w)
{
    return target_uses_h2(w) ? &grpc_driver : w == WIRE_WS ? &ws_driver : &sp_driver;
}

const char *target_wire_name(wire w)
{
    return schemes[w];
}

static double cpu_seconds(pid_t pid)
{
    char path[64], text[1024] = "";
    unsigned long user = 0, kernel = 0;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[n] = '\0';
    const char *after_name = strrchr(text, ')'); /* field 3, the state, follows; utime and stime are 14 and 15 */
    if (after_name)
        sscanf(after_name + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &kernel);
    return (double)(user + kernel) / (double)sysconf(_SC_CLK_TCK);
}

target_figures target_measure(void)
{
    pid_t pid = here.server ? server_fixture_pid(here.server) : 0;

    return pid == 0 ? (target_figures){0}
                    : (target_figures){.rss_kib = process_rss_kib(pid),
                                       .descriptors = process_fd_count(pid),
                                       .cpu_s = cpu_seconds(pid)};
}
