#include "commands.h"

#include <string.h>

static const char run_help[] =
    "Runs a program while a lock is held. It is ended when the lock is lost.\nThe fence is in LOCKSTOCK_FENCE.";

const command commands[] = {
    {"run", run_command, "--lock NAME [--wait TIME] -- PROGRAM...", run_help, run_options, &run_options_len, true},
    {"once", once_command, "--key KEY [--wait TIME] -- PROGRAM...",
     "Runs a program once for a key. Whoever asks later gets what it wrote on standard output,\nand its exit code. "
     "With "
     "exit code 75, or ended by a signal, it may be run again.",
     once_options, &once_options_len, true},
    {"limit", limit_command, "--key KEY --rate N/TIME [--wait TIME] -- PROGRAM...",
     "Runs a program if that is allowed now.", limit_options, &limit_options_len, true},
    {"lock exec", exec_command, "NAME [--wait TIME] -- PROGRAM...", "The same as run --lock NAME.", run_options,
     &run_options_len, true},
    {"stock ledger", ledger_command, "GROUP [--after ID] [--follow]",
     "What happened to a group's stock, an entry a line.", ledger_options, &ledger_options_len, false},
    {"stock watch", watch_command, "SKU [--group GROUP] [--every TIME]", "An item, a line whenever it has changed.",
     watch_options, &watch_options_len, false},
    {"status", status_command, "", "Whether each server of --server answers, and its store.", NULL, NULL, false},
    {"doctor", doctor_command, "",
     "Looks for what is wrong with each server of --server, its store, what that keeps on disk, clocks and latency,\n"
     "and says what to do. Ends with 0 when nothing is wrong, 1 when something is, 3 when a server or its store\n"
     "does not answer.",
     NULL, NULL, false},
    {"watch", live_command, "[--prefix TEXT] [--every TIME] [--times N]",
     "Servers and how long they take, locks and who waits for them, items and what is left of them: a live table at a\n"
     "terminal (q or Ctrl-C ends it), else rows, again and again. The first hundred locks and items are shown.",
     live_options, &live_options_len, false},
    {"completion", completion_command, "bash|zsh|fish",
     "Prints what makes the shell complete lockstock's commands, flags and their values.", NULL, NULL, false},
    {"bench", bench_command, "[ARGUMENT...]", "lockstock-bench, which has a --help of its own.", NULL, NULL, false},
};
const size_t commands_len = sizeof commands / sizeof *commands;

const command *commands_find(const char *first, const char *second)
{
    size_t len = strlen(first);

    for (size_t i = 0; i < commands_len; i++) {
        const char *name = commands[i].name;
        if (strncmp(name, first, len) != 0)
            continue;
        if (!name[len] || (name[len] == ' ' && second && strcmp(name + len + 1, second) == 0))
            return &commands[i];
    }
    return NULL;
}

const command *commands_named(const char *name)
{
    for (size_t i = 0; i < commands_len; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}
