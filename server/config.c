/* Invariant: `config_keys` is the only list of settings; flags, variables, file keys,
 * defaults and --help all come from it. Called once by main. */
#include "config.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "base/keys.h"
#include "base/similar.h"

#define AT(member) offsetof(settings, member)
const setting config_keys[] = {
    {"listen", KEY_LIST, AT(listen), "tcp://127.0.0.1:7700,grpc://127.0.0.1:7701", 0, 0,
     "addresses to serve, with commas or several times: tcp://host:port, tls://..., unix:///path,\n"
     "                               grpc://..., grpcs://..., ws://host:port/path, wss://...; nng+tcp://...\n"
     "                               and nng+ws://... are other names of tcp:// and ws://; port 0 = any"},
    {"allow-origin", KEY_LIST, AT(allow_origin), NULL, 0, 0,
     "web pages that may connect over WebSocket, as https://host or https://host:port"},
    {"store", KEY_TEXT, AT(store), "embedded:./lockstock-data", 0, 0,
     "where the state is: embedded:DIR, redis://[user:pass@]host:port/db, unix:///path,\n"
     "                               redis+sentinel://host:port,host:port/name,\n"
     "                               redis+cluster://host:port,host:port; with TLS: rediss..."},
    {"store-ca", KEY_TEXT, AT(store_ca), NULL, 0, 0,
     "with rediss://: who signs the store's certificates, PEM; without it whom the system trusts"},
    {"store-certificate", KEY_TEXT, AT(store_certificate), NULL, 0, 0, "the certificate to show to the store, PEM"},
    {"store-key", KEY_TEXT, AT(store_key), NULL, 0, 0, "its key, PEM"},
    {"store-server-name", KEY_TEXT, AT(store_server_name), NULL, 0, 0,
     "the name that the store's certificates must be for; without it its host"},
    {"store-user", KEY_TEXT, AT(store_user), NULL, 0, 0, "the user of the store, where its URL names none"},
    {"store-password-file", KEY_TEXT, AT(store_password_file), NULL, 0, 0,
     "file whose first line is the store's password; read again on SIGHUP"},
    {"store-sentinel-user", KEY_TEXT, AT(store_sentinel_user), NULL, 0, 0, "the user of the sentinels"},
    {"store-sentinel-password-file", KEY_TEXT, AT(store_sentinel_password_file), NULL, 0, 0,
     "file whose first line is their password; without it they need none"},
    {"fsync", KEY_CHOICE, AT(fsync), "always", 0, 0, "always or everysec: when the embedded store writes to disk"},
    {"allow-unsafe-store", KEY_BOOL, AT(allow_unsafe_store), "false", 0, 0, "accept a store that loses data by design"},
    {"wait-replicas", KEY_NUMBER, AT(wait_replicas), "0", 0, 16,
     "replicas of the store that must have what a call did before it is answered"},
    {"wait-ms", KEY_NUMBER, AT(wait_ms), "1000", 1, 5000, "for so long; then it is asked again, or answered MAYBE"},
    {"policy", KEY_TEXT, AT(policy), NULL, 0, 0,
     "file of principals and what they may do; without it everybody may everything"},
    {"tokens", KEY_TEXT, AT(tokens), NULL, 0, 0, "file of bearer tokens' SHA-256 digests and whose they are"},
    {"insecure", KEY_BOOL, AT(insecure), "false", 0, 0, "listen beyond this machine without TLS, or without a policy"},
    {"tls-certificate", KEY_TEXT, AT(tls_certificate), NULL, 0, 0, "the server's certificate chain, PEM"},
    {"tls-key", KEY_TEXT, AT(tls_key), NULL, 0, 0, "its key, PEM"},
    {"tls-client-ca", KEY_TEXT, AT(tls_client_ca), NULL, 0, 0,
     "who signs clients' certificates, PEM; without it none is asked for"},
    {"tls-client-required", KEY_BOOL, AT(tls_client_required), "false", 0, 0, "refuse clients without a certificate"},
    {"log-level", KEY_CHOICE, AT(log_level), "info", 0, 0, "error, warn, info or debug"},
    {"log-format", KEY_CHOICE, AT(log_format), "logfmt", 0, 0, "logfmt or json"},
    {"message-bytes", KEY_NUMBER, AT(message_bytes), "1048576", 16384, 67108864, "longest message, either way"},
    {"in-flight", KEY_NUMBER, AT(in_flight), "1024", 1, 65536, "calls under way"},
    {"in-flight-per-connection", KEY_NUMBER, AT(in_flight_per_connection), "256", 1, 65536,
     "calls under way from one connection"},
    {"in-flight-per-principal", KEY_NUMBER, AT(in_flight_per_principal), "32", 4, 65536,
     "calls under way of one principal while another calls, or of one address\nwhere principals are not known"},
    {"waiting", KEY_NUMBER, AT(waiting), "131072", 1, 1048576,
     "calls that wait (for a lock, a result, the ledger); half of them of one principal"},
    {"waiting-per-connection", KEY_NUMBER, AT(waiting_per_connection), "16384", 1, 1048576,
     "calls that wait on one connection"},
    {"memory-bytes", KEY_NUMBER, AT(memory_bytes), "268435456", 1048576, 1099511627776,
     "requests and answers held, of all connections together"},
    {"connections", KEY_NUMBER, AT(connections), "4096", 1, 65536,
     "connections; fewer where the limit of descriptors (ulimit -Hn) leaves no room for them. For one more the\n"
     "                               idlest of nobody known is given up; a 16th is unix sockets' own"},
    {"connections-per-wire", KEY_NUMBER, AT(connections_per_wire), "0", 0, 65536,
     "connections of one scheme; 0 = all, but where there are several, three quarters"},
    {"connections-per-address", KEY_NUMBER, AT(connections_per_address), "0", 0, 65536,
     "connections from one address, or by unix sockets from one user; 0 = a quarter"},
    {"timeout-ms", KEY_NUMBER, AT(timeout_ms), "5000", 1, 86400000, "deadline of a call that names none"},
    {"timeout-max-ms", KEY_NUMBER, AT(timeout_max_ms), "30000", 1, 86400000,
     "latest deadline, beyond what a call asks to wait"},
    {"request-ms", KEY_NUMBER, AT(request_ms), "30000", 100, 86400000,
     "time in which a gRPC call's headers and body must have come"},
    {"drain-ms", KEY_NUMBER, AT(drain_ms), "10000", 0, 600000, "time to finish what runs after SIGTERM"},
    {"sweep-ms", KEY_NUMBER, AT(sweep_ms), "600000", 100, 86400000,
     "how often to look for ended holds of servers that are gone"},
    {"namespace-keys", KEY_NUMBER, AT(namespace_keys), "0", 0, 1000000000000,
     "keys that a namespace may have in the store; 0 = no quota"},
    {"namespace-bytes", KEY_NUMBER, AT(namespace_bytes), "0", 0, 1000000000000000,
     "bytes that a namespace may have in the store; 0 = no quota"},
    {"namespace-waiters", KEY_NUMBER, AT(namespace_waiters), "0", 0, 1048576,
     "calls of a namespace that may wait at this server; 0 = no quota"},
    {"remember-refusals", KEY_BOOL, AT(remember_refusals), "true", 0, 0,
     "answer SOLD_OUT to first tries, and over the limit, from memory, at most 20 ms old"},
    {"id-sequence-block", KEY_NUMBER, AT(id_sequence_block), "1", 1, 1000000,
     "ids of a SEQUENCE that this server takes at once; 1 = in one order over all servers"},
};
const size_t config_keys_len = sizeof config_keys / sizeof *config_keys;
_Static_assert(sizeof config_keys / sizeof *config_keys <= CONFIG_KEYS_MAX, "settings.set_by has room");

enum { PLACE_BYTES = 512 };

/* Which source set a key last: a later, weaker one leaves it alone. */
typedef enum source { SOURCE_DEFAULT, SOURCE_FILE, SOURCE_ENVIRONMENT, SOURCE_FLAG } source;

typedef struct loading {
    settings *config;
    lks_code in_file; /* how its reading ended */
    lks_error *error;
    const char *file;
    unsigned line_of[CONFIG_KEYS_MAX]; /* of it, where the key stands first; 0: not yet */
} loading;

static lks_code invalid(loading *loader, const char *where, const char *what)
{
    return lks_error_set(loader->error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "%s: %s", where, what);
}

static void copy_text(char **target, const char *text)
{
    free(*target);
    *target = memory_copy(text, strlen(text));
}

/* "a,b" is two. */
static lks_code add_to_list(loading *loader, config_list *list, const char *where, const char *text)
{
    do {
        char one[256];
        size_t len = strcspn(text, ",");
        if (len == 0 || len >= sizeof one)
            return invalid(loader, where, len == 0 ? "must not be empty" : "one of them is too long");
        if (list->n == CONFIG_LIST_MAX)
            return invalid(loader, where, "too many of them");
        snprintf(one, sizeof one, "%.*s", (int)len, text);
        copy_text(&list->of[list->n++], one);
        text += len;
    } while (*text++ == ',');
    return LKS_OK;
}

static lks_code set_key(loading *loader, const setting *key, source from, const char *where, const char *text)
{
    settings *config = loader->config;
    unsigned char *set_by = &config->set_by[key - config_keys];
    char why[SETTING_WHY_BYTES];
    config_list *list;

    if (*set_by > from)
        return LKS_OK;
    bool first_of_source = *set_by < from;
    *set_by = (unsigned char)from;
    copy_text(&config->where[key - config_keys], where);
    if (!setting_takes(key, text, why))
        return invalid(loader, where, why);
    switch (key->type) {
    case KEY_TEXT:
    case KEY_CHOICE:
        if (*text == '\0')
            return invalid(loader, where, "must not be empty");
        copy_text((char **)(void *)((char *)config + key->offset), text);
        break;
    case KEY_LIST:
        list = (config_list *)(void *)((char *)config + key->offset);
        if (first_of_source)
            list->n = 0;
        return add_to_list(loader, list, where, text);
    default:
        setting_fill(key, config, text);
    }
    return LKS_OK;
}

/* Only lists go on in a second line: of two values of one key one would be lost. */
static lks_code set_key_of_file(loading *loader, const setting *key, unsigned line, const char *where,
                                const char *value)
{
    unsigned *first = &loader->line_of[key - config_keys];
    char why[64];

    if (*first == 0 || key->type == KEY_LIST) {
        *first = line;
        return set_key(loader, key, SOURCE_FILE, where, value);
    }
    snprintf(why, sizeof why, "given more than once, first in line %u", *first);
    return invalid(loader, where, why);
}

static bool take_key(void *arg, unsigned line, const char *name, const char *value)
{
    loading *loader = arg;
    const setting *key = name ? setting_find(config_keys, config_keys_len, name, strlen(name)) : NULL;
    char where[PLACE_BYTES];

    if (line == 0)
        snprintf(where, sizeof where, "--config %s", loader->file);
    else
        snprintf(where, sizeof where, "%s:%u%s%s", loader->file, line, name ? ": " : "", name ? name : "");
    loader->in_file =
        key ? set_key_of_file(loader, key, line, where, value) : invalid(loader, where, name ? "unknown key" : value);
    return loader->in_file == LKS_OK;
}

static lks_code load_file(loading *loader)
{
    keys_read(loader->file, take_key, loader);
    return loader->in_file;
}

static const char *nth_setting(size_t i)
{
    return i < config_keys_len ? config_keys[i].name : NULL;
}

static lks_code refuse_misspelt_variable(loading *loader)
{
    char question[2 * SIMILAR_BYTES];
    similar found;

    if (!similar_misspelt_variable(nth_setting, &found))
        return LKS_OK;
    return lks_error_set(loader->error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "%.*s: no such setting%s",
                         (int)strcspn(found.word, "="), found.word, similar_question(&found, question));
}

static lks_code load_environment(loading *loader)
{
    lks_code code = refuse_misspelt_variable(loader);

    for (size_t i = 0; i < config_keys_len && code == LKS_OK; i++) {
        char name[SIMILAR_BYTES];
        similar_variable(config_keys[i].name, name);
        const char *value = getenv(name);
        if (value)
            code = set_key(loader, &config_keys[i], SOURCE_ENVIRONMENT, name, value);
    }
    return code;
}

/* What else the program can be told to do. */
static const struct told {
    const char *flag, *short_flag;
    config_action action;
    const char *help;
} actions[] = {
    {"--check-config", NULL, CONFIG_CHECK, "say whether the settings are good, start nothing"},
    {"--print-config", NULL, CONFIG_PRINT, "print the settings and where each comes from, start nothing"},
    {"--help", "-h", CONFIG_HELP, "this text"},
    {"--version", NULL, CONFIG_VERSION, "the version"},
};
enum { N_ACTIONS = sizeof actions / sizeof actions[0] };

static lks_code unknown_flag(loading *loader, const char *arg)
{
    char name[SIMILAR_BYTES], known[SIMILAR_BYTES], question[2 * SIMILAR_BYTES];
    similar s = {.word = name};

    snprintf(name, sizeof name, "%.*s", (int)strcspn(arg, "="), arg);
    for (size_t i = 0; i < config_keys_len; i++) {
        snprintf(known, sizeof known, "--%s", config_keys[i].name);
        similar_offer(&s, known);
    }
    for (size_t i = 0; i < N_ACTIONS; i++)
        similar_offer(&s, actions[i].flag);
    return lks_error_set(loader->error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "%s: unknown flag%s; see --help", name,
                         similar_question(&s, question));
}

/* Takes one flag, `--name value` or `--name=value`; a bool may stand alone. Nothing but values stands
 * without dashes, so what does after a bool is its value. */
static lks_code load_flag(loading *loader, int argc, char **argv, int *at)
{
    const char *arg = argv[*at];
    if (strncmp(arg, "--", 2) != 0)
        return invalid(loader, arg, "not a flag; see --help");
    const char *value;
    char where[PLACE_BYTES];
    const setting *key = setting_of_flag(config_keys, config_keys_len, arg, &value);
    bool is_file = strcmp(arg, "--config") == 0 || strncmp(arg, "--config=", strlen("--config=")) == 0;

    if (!key && !is_file)
        return unknown_flag(loader, arg);
    if (!value && key && key->type == KEY_BOOL && (*at + 1 == argc || strncmp(argv[*at + 1], "--", 2) == 0))
        value = "true";
    if (!value) {
        if (*at + 1 == argc)
            return invalid(loader, arg, "needs a value");
        value = argv[++*at];
    }
    if (is_file) {
        loader->file = value;
        return LKS_OK;
    }
    snprintf(where, sizeof where, "--%s", key->name);
    return set_key(loader, key, SOURCE_FLAG, where, value);
}

static const struct told *find_action(const char *arg)
{
    for (size_t i = 0; i < N_ACTIONS; i++)
        if (strcmp(arg, actions[i].flag) == 0 || (actions[i].short_flag && strcmp(arg, actions[i].short_flag) == 0))
            return &actions[i];
    return NULL;
}

lks_code config_load(int argc, char **argv, settings *config, config_action *action, lks_error *error)
{
    loading loader = {.config = config, .error = error};

    lks_code code = LKS_OK;

    *config = (settings){0};
    *action = CONFIG_RUN;
    for (size_t i = 0; i < config_keys_len && code == LKS_OK; i++)
        if (config_keys[i].initial)
            code = set_key(&loader, &config_keys[i], SOURCE_DEFAULT, config_keys[i].name, config_keys[i].initial);
    for (int i = 1; i < argc && code == LKS_OK; i++) {
        const struct told *t = find_action(argv[i]);
        if (t)
            *action = t->action;
        else
            code = load_flag(&loader, argc, argv, &i);
        if (*action >= CONFIG_HELP)
            return LKS_OK;
    }
    if (code == LKS_OK)
        code = load_environment(&loader);
    if (code == LKS_OK && loader.file)
        code = load_file(&loader);
    return code;
}

void config_free(settings *config)
{
    for (size_t i = 0; i < CONFIG_LIST_MAX; i++) {
        free(config->listen.of[i]);
        free(config->allow_origin.of[i]);
    }
    free(config->store);
    free(config->store_ca);
    free(config->store_certificate);
    free(config->store_key);
    free(config->store_server_name);
    free(config->store_user);
    free(config->store_password_file);
    free(config->store_sentinel_user);
    free(config->store_sentinel_password_file);
    free(config->fsync);
    free(config->log_level);
    free(config->log_format);
    free(config->policy);
    free(config->tokens);
    free(config->tls_certificate);
    free(config->tls_key);
    free(config->tls_client_ca);
    for (size_t i = 0; i < CONFIG_KEYS_MAX; i++)
        free(config->where[i]);
    *config = (settings){0};
}

const char *config_where(const settings *config, const char *name)
{
    return config->where[setting_find(config_keys, config_keys_len, name, strlen(name)) - config_keys];
}

void config_each_action(void (*visit)(void *arg, const char *flag, const char *help), void *arg)
{
    for (size_t i = 0; i < N_ACTIONS; i++)
        visit(arg, actions[i].flag, actions[i].help);
}

void config_print_help(void)
{
    printf("usage: lockstockd [--flag value]...\n\n"
           "--flag=value is the same, and --flag alone is --flag true. Each flag can also be set as LOCKSTOCK_FLAG in "
           "the environment, or as `flag = value`\n"
           "in the file that --config names; flags beat the environment, which beats the file.\n\n");
    for (size_t i = 0; i < config_keys_len; i++)
        printf("  --%-26s %s\n  %-28s default: %s\n", config_keys[i].name, config_keys[i].help, "",
               config_keys[i].initial ? config_keys[i].initial : "none");
    printf("  --%-26s %s\n", "config", "a file of settings");
    for (size_t i = 0; i < N_ACTIONS; i++)
        printf("  %-28s %s\n", actions[i].flag, actions[i].help);
}

/* A password in a URL is not for screens and logs. */
static void print_text(const char *text)
{
    const char *authority = strstr(text, "://");
    const char *at = authority ? strrchr(text, '@') : NULL;
    const char *colon = at ? memchr(authority + 3, ':', (size_t)(at - authority - 3)) : NULL;

    if (colon)
        printf("%.*s***%s", (int)(colon + 1 - text), text, at);
    else
        fputs(text, stdout);
}

void config_print(const settings *config)
{
    static const char *const sources[] = {"default", "file", "environment", "flag"};

    for (size_t i = 0; i < config_keys_len; i++) {
        const void *value = (const char *)config + config_keys[i].offset;
        const config_list *list = value;
        if ((config_keys[i].type == KEY_TEXT || config_keys[i].type == KEY_CHOICE) && !*(char *const *)value)
            continue;
        if (config_keys[i].type == KEY_LIST && list->n == 0)
            continue;
        printf("# %s\n%s = ", sources[config->set_by[i]], config_keys[i].name);
        if (config_keys[i].type == KEY_NUMBER)
            printf("%ld", *(const long *)value);
        else if (config_keys[i].type == KEY_BOOL)
            fputs(*(const bool *)value ? "true" : "false", stdout);
        else if (config_keys[i].type == KEY_LIST)
            for (size_t j = 0; j < list->n; j++)
                printf("%s%s", j > 0 ? "," : "", list->of[j]);
        else
            print_text(*(char *const *)value);
        putchar('\n');
    }
}
