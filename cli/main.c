/* lockstock: every method of the servers, and what shells need around them. docs/cli.md */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <lockstock/v1/lock.lks.h>
#include <lockstock/version.h>

#include "catalog.h"
#include "cli.h"
#include "help.h"

static cli_command bench_command;

static const struct {
    const char *name, *second; /* NULL = it has one word */
    cli_command *run;
} commands[] = {
    {"run", NULL, run_command},       {"once", NULL, once_command},        {"limit", NULL, limit_command},
    {"status", NULL, status_command}, {"doctor", NULL, doctor_command},    {"bench", NULL, bench_command},
    {"lock", "exec", exec_command},   {"stock", "ledger", ledger_command}, {"stock", "watch", watch_command},
};

/* The program beside this one, or in PATH. */
static exit_code bench_command(cli *c, arguments *args)
{
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - sizeof "-bench");
    char **argv = args->argv + args->at - 1;

    (void)c;
    argv[0] = "lockstock-bench";
    if (n > 0) {
        strcpy(path + n, "-bench");
        execv(path, argv);
    }
    execvp(argv[0], argv);
    exit_code code = errno == ENOENT ? EXIT_NO_PROGRAM : EXIT_CANNOT_RUN;
    exits_wrong(argv[0], strerror(errno));
    return code;
}

/* `lock release --force` is force-release: the flag goes. */
static const lks_rpc_method *without_force(const lks_rpc_method *method, arguments *args)
{
    if (method != &lks_lock_release_method)
        return method;
    for (int i = args->at; i < args->argc && strcmp(args->argv[i], "--") != 0; i++)
        if (strcmp(args->argv[i], "--force") == 0) {
            memmove(args->argv + i, args->argv + i + 1, (size_t)(args->argc - i) * sizeof *args->argv);
            args->argc--;
            return &lks_lock_force_release_method;
        }
    return method;
}

/* The command behind the flags that stand first. */
static exit_code dispatch(cli *c, arguments *args)
{
    const char *words[2] = {NULL, NULL};
    argument arg;

    for (size_t n = 0; n < 2 && arguments_next(args, &arg);) {
        if (!arg.name) {
            words[n++] = arg.text;
            if (n == 1 && !catalog_find_service(arg.text))
                break;
            continue;
        }
        if (argument_is(&arg, "version")) {
            printf("lockstock %s\n", LOCKSTOCK_VERSION);
            return EXIT_DONE;
        }
        options_result taken = cli_take(c, args, &arg);
        if (taken == OPTIONS_OTHER)
            exits_wrong(arg.text, "unknown flag; see --help");
        if (taken != OPTIONS_TAKEN)
            return EXIT_USAGE;
    }
    if (!words[0])
        return c->help ? help_all() : exits_wrong("no command", "see --help");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strcmp(commands[i].name, words[0]) == 0 &&
            (!commands[i].second || (words[1] && strcmp(commands[i].second, words[1]) == 0)))
            return commands[i].run(c, args);
    const lks_rpc_method *service = catalog_find_service(words[0]);
    if (!service)
        return exits_wrong(words[0], "unknown command; see --help");
    if (!words[1])
        return c->help ? help_service(service) : exits_wrong(words[0], "needs a method; see --help");
    const lks_rpc_method *method = catalog_find(words[0], words[1]);
    if (!method)
        return exits_wrong(words[1], "unknown method; see --help");
    return rpc_command(c, without_force(method, args), args);
}

int main(int argc, char **argv)
{
    arguments args = {.argc = argc, .argv = argv, .at = 1};
    cli c = {.arena = lks_rpc_arena_new()};

    if (!c.arena) {
        exits_wrong("lockstock", "out of memory");
        return EXIT_OTHER;
    }
    exit_code code = dispatch(&c, &args);
    lks_rpc_arena_free(c.arena);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        exits_wrong("standard output", "cannot be written");
        code = code == EXIT_DONE ? EXIT_OTHER : code;
    }
    return (int)code;
}
