#include "commands.h"

#include <string.h>

#include <lockstock/v1/guard.lks.h>

static const char run_help[] =
    "Runs a program while it holds a lock. Ends the program if the lock is lost.\nThe fence is in LOCKSTOCK_FENCE.";

const command commands[] = {
    {"run", run_command, "--lock NAME [--wait TIME] -- PROGRAM...", run_help, COMMAND_RUNS_PROGRAM, &flags_of_run,
     "lock"},
    {"once", once_command, "--key KEY [--wait TIME] -- PROGRAM...",
     "Runs a program once for a key. Later calls with the key get its standard output and its exit code.\nAfter exit "
     "code "
     "75, or if a signal ended it, the program may be run again.",
     COMMAND_RUNS_PROGRAM, &flags_of_once, "key"},
    {"limit", limit_command, "--key KEY --rate N/TIME [--wait TIME] -- PROGRAM...",
     "Runs a program if the rate limit allows it.", COMMAND_RUNS_PROGRAM, &flags_of_limit, "key"},
    {"lock exec", run_command, "NAME [--wait TIME] -- PROGRAM...", "The same as run --lock NAME.", COMMAND_RUNS_PROGRAM,
     &flags_of_run, "lock", "lock"},
    {"guard run", guard_run_command, "[--FLAG VALUE]... [--result TEXT|--store-output] -- PROGRAM...",
     "Enters, runs a program while what was taken is renewed, and leaves. Exit code 0 completes the attempt and "
     "confirms the\nstock; with any other end it has failed, and the next call may run the program. If the attempt "
     "was completed before,\nprints the stored result and runs nothing. The fences are in LOCKSTOCK_FENCE and "
     "LOCKSTOCK_FENCES.",
     COMMAND_RUNS_PROGRAM, &flags_of_guard_run, NULL, NULL, &lks_guard_enter_method},
    {"stock ledger", ledger_command, "GROUP [--after ID] [--follow]", "Prints the ledger of a group, one entry a line.",
     COMMAND_CALLS, &flags_of_ledger, "group", "group"},
    {"stock watch", watch_command, "SKU [--group GROUP] [--every TIME]", "Prints an item whenever it changes.",
     COMMAND_CALLS, &flags_of_watch, "sku", "sku"},
    {"status", status_command, "", "Prints whether each server of --server and its store answer."},
    {"doctor", doctor_command, "",
     "Checks each server of --server, its store and persistence, clocks and latency, and prints what to do about\n"
     "problems. Exits with 0 if nothing is wrong, 1 if something is, 3 if a server or its store does not answer."},
    {"watch", live_command, "[--prefix TEXT] [--every TIME] [--times N]",
     "Shows servers with their latency, locks with their waiters, and stock: a live table at a terminal (q or Ctrl-C\n"
     "ends it), else rows at each interval. Shows the first hundred locks and items.",
     COMMAND_CALLS, &flags_of_live},
    {"metrics", metrics_command, "[--raw] [--all]",
     "Prints what a server counts: calls by method and outcome, their times, connections, the store.", COMMAND_CALLS,
     &flags_of_metrics},
    {"completion", completion_command, "bash|zsh|fish",
     "Prints the completion script of a shell for commands, flags and their values.", COMMAND_IS_LOCAL, NULL, NULL, ""},
    {"bench", bench_command, "[ARGUMENT...]", "Runs lockstock-bench, which has its own --help.",
     COMMAND_PASSES_ARGUMENTS},
};
const size_t commands_len = sizeof commands / sizeof *commands;

const char *commands_word(const command *its, const char *service)
{
    size_t len = strlen(service);

    return strncmp(its->name, service, len) == 0 && its->name[len] == ' ' ? its->name + len + 1 : NULL;
}

const command *commands_find(const char *first, const char *second)
{
    for (size_t i = 0; i < commands_len; i++) {
        const char *word = commands_word(&commands[i], first);
        if (strcmp(commands[i].name, first) == 0 || (word && second && strcmp(word, second) == 0))
            return &commands[i];
    }
    return NULL;
}
