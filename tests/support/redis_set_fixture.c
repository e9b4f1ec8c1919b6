/* The script does all the work: this starts it, and calls it again with subcommands. */
#include "support/redis_set_fixture.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "support/process.h"
#include "support/tempdir.h"

enum { READY_TIMEOUT_MS = 120000, COMMAND_TIMEOUT_MS = 300000, ARGS_MAX = 32, WORDS_MAX = 24 };

struct redis_set {
    char *dir;   /* the fixture's */
    char *files; /* the set's: "set" in it */
    char url[1024];
    process *script;
};

/* Runs a subcommand on the set. Returns its output, to be freed; NULL: it failed. */
static char *run(const redis_set *set, const char *subcommand, const char *const words[])
{
    const char *args[ARGS_MAX] = {REDIS_SET_SH, subcommand, set->files};
    char *output = NULL;

    for (size_t i = 0; words && words[i] && i + 4 < ARGS_MAX; i++)
        args[i + 3] = words[i];
    process *p = process_spawn(args, NULL);
    if (p && process_exited_with(p, 0, COMMAND_TIMEOUT_MS))
        output = strdup(process_output(p));
    process_free(p);
    return output;
}

static bool done(char *output)
{
    free(output);
    return output;
}

static const char *text_of(int number, char text[static 16])
{
    snprintf(text, 16, "%d", number);
    return text;
}

redis_set *redis_sentinel_start(int replicas, int sentinels)
{
    char a[16], b[16];
    const char *args[ARGS_MAX] = {REDIS_SET_SH,  "sentinel",           NULL, "--replicas", text_of(replicas, a),
                                  "--sentinels", text_of(sentinels, b)};
    redis_set *set = calloc(1, sizeof *set);
    char path[128], line[1024] = "";

    if (!set || !(set->dir = tempdir_make()))
        goto failed;
    snprintf(path, sizeof path, "%s/set", set->dir);
    set->files = strdup(path);
    args[2] = set->files;
    set->script = process_spawn(args, NULL);
    if (set->script && process_wait_line(set->script, "url=", line, sizeof line, READY_TIMEOUT_MS)) {
        snprintf(set->url, sizeof set->url, "%s", line + strlen("url="));
        return set;
    }
    if (set->script)
        fprintf(stderr, "redis-set.sh does not come up:\n%s\n", process_output(set->script));
failed:
    redis_set_free(set);
    return NULL;
}

const char *redis_set_url(const redis_set *set)
{
    return set->url;
}

/* Finds the i-th node of a role (NULL: of any), or the node with that port. Returns false if there is none. */
static bool find(const redis_set *set, const char *role, size_t i, unsigned short port, unsigned short *found, int *pid)
{
    char *nodes = run(set, "nodes", NULL), *rest = NULL;
    bool is_found = false;

    for (char *line = nodes ? strtok_r(nodes, "\n", &rest) : NULL; line && !is_found;
         line = strtok_r(NULL, "\n", &rest)) {
        char said[32];
        if (sscanf(line, "%hu %*s %d %31s", found, pid, said) != 3 || (role && strcmp(role, said) != 0))
            continue;
        is_found = port == 0 ? i-- == 0 : *found == port;
    }
    free(nodes);
    return is_found;
}

unsigned short redis_set_port(const redis_set *set, size_t i)
{
    unsigned short port = 0;
    int pid = 0;

    return find(set, NULL, i, 0, &port, &pid) ? port : 0;
}

unsigned short redis_set_primary(const redis_set *set, size_t i)
{
    unsigned short port = 0;
    int pid = 0;

    return find(set, "master", i, 0, &port, &pid) ? port : 0;
}

pid_t redis_set_pid(const redis_set *set, unsigned short port)
{
    unsigned short found = 0;
    int pid = 0;

    return find(set, NULL, 0, port, &found, &pid) ? pid : 0;
}

bool redis_set_kill(redis_set *set, unsigned short port)
{
    char text[16];

    return done(run(set, "kill", (const char *const[]){text_of(port, text), NULL}));
}

bool redis_set_restart(redis_set *set, unsigned short port)
{
    char text[16];

    return done(run(set, "start", (const char *const[]){text_of(port, text), NULL}));
}

unsigned short redis_set_failover(redis_set *set, unsigned short port)
{
    char text[16];
    char *output = run(set, "failover", (const char *const[]){text_of(port, text), NULL});
    unsigned short now = output ? (unsigned short)atoi(output) : 0;

    free(output);
    return now;
}

bool redis_set_wait(redis_set *set)
{
    return done(run(set, "wait", NULL));
}

char *redis_set_command(const redis_set *set, unsigned short port, const char *command)
{
    char text[16], *copy = strdup(command), *rest = NULL, *output = NULL;
    const char *words[WORDS_MAX] = {text_of(port, text)};
    size_t n = 1;

    if (copy) {
        for (char *word = strtok_r(copy, " ", &rest); word && n + 1 < WORDS_MAX; word = strtok_r(NULL, " ", &rest))
            words[n++] = word;
        output = run(set, "cli", words);
    }
    free(copy);
    return output;
}

void redis_set_free(redis_set *set)
{
    if (!set)
        return;
    if (set->script) {
        process_signal(set->script, SIGTERM);
        process_wait(set->script, READY_TIMEOUT_MS, NULL);
        process_free(set->script);
    }
    tempdir_remove(set->dir);
    free(set->files);
    free(set);
}
