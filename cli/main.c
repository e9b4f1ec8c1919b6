/* lockstock, the command line (docs/cli.md). */
#include <stdio.h>
#include <string.h>

#include <lockstock/v1/lock.lks.h>
#include <lockstock/version.h>

#include "catalog.h"
#include "cli.h"
#include "commands.h"
#include "commit.h"
#include "help.h"
#include "base/similar.h"
#include "base/standard_files.h"

/* `lock release --force` means force-release; removes the flag. */
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

static void offer_names(similar *s, const lks_rpc_method *method, const char *name)
{
    const char *short_name = catalog_short(method);

    similar_offer(s, name);
    if (short_name)
        similar_offer(s, short_name);
}

/* service NULL: the word should be a command or a service; else a method of the service. */
static exit_code unknown_command(const char *service, const char *word)
{
    similar s = {.word = word};
    char its_service[WORDS_BYTES], name[WORDS_BYTES], question[2 * SIMILAR_BYTES], why[3 * SIMILAR_BYTES];
    size_t len = service ? strlen(service) : 0;

    for (size_t i = 0; i < commands_len; i++)
        if (!service)
            similar_offer(&s, commands[i].name);
        else if (strncmp(commands[i].name, service, len) == 0 && commands[i].name[len] == ' ')
            similar_offer(&s, commands[i].name + len + 1);
    for (size_t i = 0; i < catalog_len; i++) {
        catalog_words(catalog[i], its_service, name);
        if (!service)
            similar_offer(&s, its_service);
        else if (strcmp(its_service, service) == 0)
            offer_names(&s, catalog[i], name);
    }
    snprintf(why, sizeof why, "unknown %s%s; see --help", service ? "method" : "command",
             similar_question(&s, question));
    return exits_wrong(word, why);
}

/* Takes leading flags and runs the command. */
static exit_code dispatch(cli *c, arguments *args)
{
    const char *words[2] = {NULL, NULL};
    argument arg;

    for (size_t n = 0; n < 2 && arguments_next(args, &arg);) {
        if (!arg.name && strcmp(arg.text, "help") == 0) {
            c->help = true;
            continue;
        }
        if (!arg.name) {
            words[n++] = arg.text;
            if (n == 1 && !catalog_find_service(arg.text))
                break;
            continue;
        }
        if (argument_is(&arg, "version")) {
            puts("lockstock " LOCKSTOCK_VERSION LOCKSTOCK_COMMIT_NOTE);
            return EXIT_DONE;
        }
        options_result taken = cli_take(c, args, &arg);
        if (taken == OPTIONS_OTHER)
            cli_unknown(NULL, NULL, &arg);
        if (taken != OPTIONS_TAKEN)
            return EXIT_USAGE;
    }
    if (!words[0])
        return c->help ? help_all() : exits_wrong("no command", "see --help");
    const command *found = commands_find(words[0], words[1]);
    if (found)
        return found->run(c, args);
    const lks_rpc_method *service = catalog_find_service(words[0]);
    if (!service)
        return unknown_command(NULL, words[0]);
    if (!words[1])
        return c->help ? help_service(service) : exits_wrong(words[0], "needs a method; see --help");
    const lks_rpc_method *method = catalog_find(words[0], words[1]);
    if (!method)
        return unknown_command(words[0], words[1]);
    return rpc_command(c, without_force(method, args), args);
}

int main(int argc, char **argv)
{
    arguments args = {.argc = argc, .argv = argv, .at = 1};
    cli c = {.arena = lks_rpc_arena_new()};

    standard_files_hold();
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
