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
#include "request.h"
#include "rpc.h"
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

    for (size_t i = 0; i < commands_len; i++) {
        const char *offered = service ? commands_word(&commands[i], service) : commands[i].name;
        if (offered)
            similar_offer(&s, offered);
    }
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

/* ---- running -------------------------------------------------------------------------------------- */

/* Returns the member of a text flag. */
static const char **text_of(const option_set *set, const char *name)
{
    const option *o = options_find(set->options, set->n, name, strlen(name));

    return (const char **)(void *)((char *)set->into + o->offset);
}

/* Checks the required arguments, and reads the settings. */
static exit_code prepare(cli *c, const command *its, const option_set *set, const arguments *args)
{
    char flag[WORDS_BYTES];

    if (its->needs && (!*text_of(set, its->needs) || !**text_of(set, its->needs))) {
        snprintf(flag, sizeof flag, "--%s", its->needs);
        return exits_wrong(flag, "is needed");
    }
    if (its->kind == COMMAND_RUNS_PROGRAM && (!args->ended || args->at == args->argc))
        return exits_wrong("--", "a program to run is needed after it");
    return its->kind == COMMAND_IS_LOCAL ? EXIT_DONE : cli_settle(c);
}

static exit_code run_command_with(cli *c, const command *its, arguments *args)
{
    static const command_flags none = {.n = 0};
    const command_flags *flags = its->flags ? its->flags : &none;
    const option_set set = {
        .options = flags->options, .n = flags->n, .into = lks_rpc_arena_alloc(c->arena, flags->size)};
    request r = {.json = NULL};
    invocation in = {.flags = set.into, .request = &r};
    bool good = set.into && (!its->method || request_init(&r, its->method->request));

    if (!good)
        exits_wrong("lockstock", "out of memory");
    else
        good = cli_take_all(c, &set, its->method ? &r : NULL,
                            !its->word   ? NULL
                            : *its->word ? text_of(&set, its->word)
                                         : &in.word,
                            args);
    exit_code code = !good ? EXIT_USAGE : c->help ? EXIT_DONE : prepare(c, its, &set, args);
    in.argv = args->argv + args->at;
    if (code != EXIT_DONE)
        code += its->kind == COMMAND_RUNS_PROGRAM ? EXIT_AROUND : 0;
    else
        code = c->help ? help_command(its) : its->run(c, &in);
    request_clear(&r);
    return code;
}

static exit_code call_method(cli *c, const lks_rpc_method *method, arguments *args)
{
    exit_code code = EXIT_USAGE;
    request r;

    bool good = request_init(&r, method->request) && cli_take_all(c, &(const option_set){0}, &r, NULL, args);
    if (good && c->help)
        code = help_method(method);
    else if (good && args->ended && args->at < args->argc)
        exits_wrong("--", "this command runs no program");
    else if (good && request_is_complete(&r))
        code = rpc_run(c, method, &r);
    request_clear(&r);
    return code;
}

static exit_code pass_arguments(cli *c, const command *its, const arguments *args)
{
    if (args->at > 2) /* flags before the command would be lost */
        return exits_wrong(its->name, "flags must follow the command");
    return its->run(c, &(const invocation){.argv = args->argv + args->at - 1});
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
            if (n == 1 && !catalog_find(arg.text, NULL))
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
    c->runs_program = found && found->kind == COMMAND_RUNS_PROGRAM;
    if (found)
        return found->kind == COMMAND_PASSES_ARGUMENTS ? pass_arguments(c, found, args)
                                                       : run_command_with(c, found, args);
    const lks_rpc_method *service = catalog_find(words[0], NULL);
    if (!service)
        return unknown_command(NULL, words[0]);
    if (!words[1])
        return c->help ? help_service(service) : exits_wrong(words[0], "needs a method; see --help");
    const lks_rpc_method *method = catalog_find(words[0], words[1]);
    if (!method)
        return unknown_command(words[0], words[1]);
    return call_method(c, without_force(method, args), args);
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
    return (int)exits_flush(code, c.runs_program ? EXIT_AROUND + EXIT_OTHER : EXIT_OTHER);
}
