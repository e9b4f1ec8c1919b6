#include "cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/similar.h"
#include "request.h"
#include "words.h"

#define AT(member) offsetof(cli, member)
/* Also variables such as LOCKSTOCK_SERVER, and lines such as `server = ...` of the file. */
const option cli_settings[] = {
    {"server", OPTION_TEXT, AT(server), "URL,...", "the servers (tcp://127.0.0.1:7700)"},
    {"namespace", OPTION_TEXT, AT(ns), "NAME", "the namespace of locks, stock and keys"},
    {"token-file", OPTION_TEXT, AT(token_file), "FILE", "file with a bearer token"},
    {"tls-ca", OPTION_TEXT, AT(tls_ca), "FILE", "CA certificates for tls://, PEM; else the system's"},
    {"tls-certificate", OPTION_TEXT, AT(tls_certificate), "FILE", "client certificate, PEM"},
    {"tls-key", OPTION_TEXT, AT(tls_key), "FILE", "private key of the certificate, PEM"},
    {"tls-name", OPTION_TEXT, AT(tls_name), "NAME",
     "name that the server's certificate must have; else the URL's host"},
    {"timeout", OPTION_DURATION, AT(timeout), "TIME", "time limit of a call, in addition to its --wait (5s)"},
};
const size_t cli_settings_len = sizeof cli_settings / sizeof *cli_settings;

const option cli_flags[] = {
    {"config", OPTION_TEXT, AT(config), "FILE",
     "file of settings, such as `server = URL`; else ~/.config/lockstock/config"},
    {"json", OPTION_BOOL, AT(json), NULL,
     "answer in JSON; the request may follow ('{...}') or be in a file (--json=@FILE)"},
    {"help", OPTION_BOOL, AT(help), NULL, "print this text, or the help of a command"},
};
const size_t cli_flags_len = sizeof cli_flags / sizeof *cli_flags;

void cli_write_time(int64_t at_ms, char text[CLI_TIME_BYTES])
{
    time_t seconds = (time_t)(at_ms / 1000);
    struct tm parts;

    text[0] = '\0';
    if (localtime_r(&seconds, &parts))
        strftime(text, CLI_TIME_BYTES, "%Y-%m-%d %H:%M:%S", &parts);
}

options_result cli_take(cli *c, arguments *args, const argument *arg)
{
    if (argument_is(arg, "json")) {
        const char *next = args->at < args->argc ? args->argv[args->at] : "";
        c->json = true;
        exits_in_json();
        if (arg->value || next[0] == '{')
            c->json_request = options_value(args, arg);
        return OPTIONS_TAKEN;
    }
    options_result taken = options_take(OPTION_SET(cli_settings, c), args, arg);
    return taken == OPTIONS_OTHER ? options_take(OPTION_SET(cli_flags, c), args, arg) : taken;
}

void cli_unknown(const option_set *set, const ProtobufCMessageDescriptor *type, const argument *arg)
{
    char flag[WORDS_BYTES], name[WORDS_BYTES], question[2 * SIMILAR_BYTES], why[3 * SIMILAR_BYTES];
    similar s = {.word = flag};

    if (!arg->name) {
        exits_wrong(arg->text, "unexpected argument; see --help");
        return;
    }
    snprintf(flag, sizeof flag, "--%.*s", (int)arg->name_len, arg->name);
    if (set)
        options_offer(set->options, set->n, &s);
    for (unsigned i = 0; type && i < type->n_fields; i++) {
        words_of_flag(&type->fields[i], name);
        options_offer(&(const option){.name = name}, 1, &s);
    }
    options_offer(cli_settings, cli_settings_len, &s);
    options_offer(cli_flags, cli_flags_len, &s);
    snprintf(why, sizeof why, "unknown flag%s; see --help", similar_question(&s, question));
    exits_wrong(flag, why);
}

/* Takes the value of --json, if it was given since the last call. */
static bool take_request(cli *c, request *r)
{
    const char *text = r ? c->json_request : NULL;

    c->json_request = NULL;
    return !text || request_take_json(r, text);
}

static bool take(cli *c, const option_set *set, request *r, const char **word, arguments *args, const argument *arg)
{
    if (!arg->name && word && !*word) {
        *word = arg->text;
        return arguments_give(args, word);
    }
    if (!arg->name && r)
        return request_take_word(r, arg);
    options_result taken = options_take(set, args, arg);
    if (taken == OPTIONS_OTHER)
        taken = cli_take(c, args, arg);
    if (taken == OPTIONS_OTHER && r)
        taken = request_take_flag(r, args, arg);
    if (taken == OPTIONS_OTHER)
        cli_unknown(set, r ? r->type : NULL, arg);
    return taken == OPTIONS_TAKEN;
}

bool cli_take_all(cli *c, const option_set *set, request *r, const char **word, arguments *args)
{
    bool good = take_request(c, r); /* --json may also be given before the command */
    argument arg;

    while (good && arguments_next(args, &arg))
        good = take(c, set, r, word, args, &arg) && take_request(c, r);
    return good;
}

void cli_print_options(void)
{
    printf("\nflags of all commands; --config and those before it are also variables, such as LOCKSTOCK_SERVER:\n");
    options_print(cli_settings, cli_settings_len);
    options_print(cli_flags, cli_flags_len);
}

/* ---- environment and file -------------------------------------------------------- */

static bool is_empty(const cli *c, const option *o)
{
    const char *at = (const char *)c + o->offset;

    return o->type == OPTION_TEXT ? !*(const char *const *)(const void *)at : *(const int64_t *)(const void *)at == 0;
}

/* Sources are read from the strongest to the weakest: an option that is set stays as it is. An empty text sets
 * nothing. */
static bool take_setting(void *arg, const option *o, const char *where, const char *text)
{
    cli *c = arg;
    const char *copy = lks_rpc_arena_copy(c->arena, text, strlen(text));
    char why[OPTION_WHY_BYTES];

    if (o && copy && (!is_empty(c, o) || !*text || options_store(o, c, copy, why)))
        return true;
    exits_wrong(where, !copy ? "out of memory" : o ? why : text);
    return false;
}

/* Returns the default settings file, or NULL if it does not exist. */
static const char *usual_file(const cli *c)
{
    const char *base = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    const char *path = NULL;

    if (base && *base == '/')
        path = lks_rpc_arena_printf(c->arena, "%s/lockstock/config", base);
    else if (home && *home)
        path = lks_rpc_arena_printf(c->arena, "%s/.config/lockstock/config", home);
    return path && access(path, F_OK) == 0 ? path : NULL;
}

static bool take_file(cli *c)
{
    const char *path = c->config ? c->config : getenv("LOCKSTOCK_CONFIG");

    if (!path || !*path)
        path = usual_file(c);
    if (!path)
        return true;
    return options_read_file(cli_settings, cli_settings_len, path, take_setting, c);
}

/* Returns whether one of the servers is called over TLS. */
static bool has_tls(const char *urls)
{
    return strncmp(urls, "tls:", 4) == 0 || strncmp(urls, "grpcs:", 6) == 0 || strstr(urls, ",tls:") ||
           strstr(urls, ",grpcs:");
}

/* Returns the first flag of TLS that is set, or NULL. */
static const char *tls_flag(const cli *c)
{
    return c->tls_ca            ? "--tls-ca"
           : c->tls_certificate ? "--tls-certificate"
           : c->tls_key         ? "--tls-key"
           : c->tls_name        ? "--tls-name"
                                : NULL;
}

/* Variables and lines of the file are for the servers over TLS, if there are any. */
exit_code cli_settle(cli *c)
{
    const char *needs_tls = tls_flag(c);

    if (!options_read_environment(cli_settings, cli_settings_len, take_setting, c) || !take_file(c))
        return EXIT_USAGE;
    if (!c->server)
        c->server = "tcp://127.0.0.1:7700";
    if (!has_tls(c->server))
        return needs_tls ? exits_wrong(needs_tls, "needs a --server of tls:// or grpcs://") : EXIT_DONE;
    if (!c->tls_certificate != !c->tls_key)
        return exits_wrong(c->tls_key ? "--tls-certificate" : "--tls-key",
                           c->tls_key ? "is needed with --tls-key" : "is needed with --tls-certificate");
    return EXIT_DONE;
}

/* ---- the channel ----------------------------------------------------------------- */

enum { TOKEN_BYTES = 4096 + 2 };

/* Reads the first line of the file. */
static exit_code read_token(const char *path, char token[TOKEN_BYTES])
{
    FILE *file = fopen(path, "re");

    if (!file)
        return exits_wrong("--token-file", strerror(errno));
    size_t read = fread(token, 1, TOKEN_BYTES - 1, file);
    bool good = !ferror(file);
    int why = errno;
    fclose(file);
    if (!good)
        return exits_wrong("--token-file", strerror(why));
    token[read] = '\0';
    size_t len = strcspn(token, "\r\n");
    if (len < read && token[len] == '\0')
        return exits_wrong("--token-file", "contains a NUL in its first line");
    token[len] = '\0';
    return *token ? EXIT_DONE : exits_wrong("--token-file", "its first line is empty");
}

/* Errors of the library name its parameters. */
static exit_code not_opened(const lks_error *error)
{
    static const struct {
        const char *field, *flag;
    } names[] = {{"urls", "--server"}, {"options.token", "--token-file"}};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(error->field, names[i].field) == 0)
            return exits_wrong(names[i].flag, error->message + strlen(names[i].field) + strlen(": "));
    return exits_failed(error, true);
}

exit_code cli_open(const cli *c, lks_channel **ret)
{
    char token[TOKEN_BYTES];
    lks_error error;
    lks_channel_options options = {.timeout_ms = cli_ms(c->timeout), .ns = c->ns};

    if (has_tls(c->server)) {
        options.ca_file = c->tls_ca;
        options.certificate_file = c->tls_certificate;
        options.key_file = c->tls_key;
        options.server_name = c->tls_name;
    }
    if (c->token_file) {
        exit_code code = read_token(c->token_file, token);
        if (code != EXIT_DONE)
            return code;
        options.token = token;
    }
    return lks_channel_open(c->server, &options, ret, &error) == LKS_OK ? EXIT_DONE : not_opened(&error);
}

lks_code error_repeated_page(lks_error *error)
{
    return lks_error_set(error, LKS_INTERNAL, LKS_APPLIED_NO,
                         "the server returns the same page again; its version may differ from lockstock's");
}
