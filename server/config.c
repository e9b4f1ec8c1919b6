/* `config_keys` is the only list of settings: flags, variables, lines of the file, defaults and --help come from it. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"

#define AT(member) offsetof(settings, member)
#define TEXT(name, member) name, OPTION_TEXT, AT(member), "TEXT"
#define LIST(name, member) name, OPTION_LIST, AT(member), "TEXT"
#define CHOICE(name, member) name, OPTION_CHOICE, AT(member), "WORD"
#define BOOL(name, member) name, OPTION_BOOL, AT(member), NULL
#define NUMBER(name, member) name, OPTION_NUMBER, AT(member), "NUMBER"
const option config_keys[] = {
    {LIST("listen", listen),
     "addresses to listen on, separated by commas or given several times: tcp://host:port,\n"
     "                               tls://..., unix:///path, http://..., https://..., http+unix:///path,\n"
     "                               grpc://..., grpcs://..., grpc+unix:///path,\n"
     "                               ws://host:port/path, wss://...; host * = all addresses;\n"
     "                               nng+tcp:// and nng+ws:// are other names of tcp:// and ws://; port 0 = any free "
     "port;\n"
     "                               tcp+fd://NAME, grpc+fd://... (tls, http, https, grpcs, ws, wss too): a socket of "
     "systemd's\n"
     "                               socket activation, by its name or its number",
     "tcp://127.0.0.1:7700,grpc://127.0.0.1:7701,http://127.0.0.1:7702"},
    {LIST("allow-origin", allow_origin),
     "origins of web pages that may call over WebSocket and HTTP: https://host or https://host:port"},
    {BOOL("console", console), "serve a page for people at /console/ of http:// and https:// addresses", "false"},
    {TEXT("store", store),
     "where state is stored: embedded:DIR, redis://[user:pass@]host:port/db, unix:///path,\n"
     "                               redis+sentinel://host:port,host:port/name,\n"
     "                               redis+cluster://host:port,host:port; with TLS: rediss...",
     "embedded:./lockstock-data"},
    {TEXT("store-ca", store_ca),
     "with rediss://: CA certificates that sign the store's certificate, PEM; without it, the system's"},
    {TEXT("store-certificate", store_certificate), "client certificate for the store, PEM"},
    {TEXT("store-key", store_key), "private key of that certificate, PEM"},
    {TEXT("store-server-name", store_server_name),
     "name that the store's certificate must have; without it, the host of the store's URL"},
    {TEXT("store-user", store_user), "user name at the store, if its URL has none"},
    {TEXT("store-password-file", store_password_file),
     "file whose first line is the store's password; read again on SIGHUP"},
    {TEXT("store-sentinel-user", store_sentinel_user), "user name at the sentinels"},
    {TEXT("store-sentinel-password-file", store_sentinel_password_file),
     "file whose first line is the sentinels' password; without it, none is sent"},
    {TEXT("lock-store", lock_store),
     "where locks are stored instead: zookeeper://[user:password@]host:port,host:port/path"},
    {LIST("lock-store-namespaces", lock_store_namespaces),
     "namespaces whose locks are there, separated by commas; without it, all"},
    {CHOICE("fsync", fsync), "always or everysec: when the embedded store writes to disk", "always"},
    {BOOL("allow-unsafe-store", allow_unsafe_store), "accept a store whose configuration can lose data", "false"},
    {NUMBER("wait-replicas", wait_replicas),
     "replicas of the store that must confirm a write before the call is answered", "0", 0, 16},
    {NUMBER("wait-ms", wait_ms), "time to wait for replicas; after it the server asks again, or answers MAYBE", "1000",
     1, 5000},
    {TEXT("policy", policy), "file of principals and their permissions; without it, everyone has full access"},
    {TEXT("tokens", tokens), "file of SHA-256 digests of bearer tokens, each with its principal"},
    {BOOL("insecure", insecure), "listen on addresses other than loopback without TLS, or without a policy", "false"},
    {TEXT("tls-certificate", tls_certificate), "the server's certificate chain, PEM"},
    {TEXT("tls-key", tls_key), "private key of the certificate, PEM"},
    {TEXT("tls-client-ca", tls_client_ca),
     "CA certificates that sign client certificates, PEM; without it, none is requested"},
    {BOOL("tls-client-required", tls_client_required), "reject clients without a certificate", "false"},
    {CHOICE("log-level", log_level), "error, warn, info or debug", "info"},
    {CHOICE("log-format", log_format), "logfmt or json", "logfmt"},
    {NUMBER("message-bytes", message_bytes), "maximum length of a request or an answer", "1048576", 16384, 67108864},
    {NUMBER("in-flight", in_flight), "maximum number of running calls", "1024", 1, 65536},
    {NUMBER("in-flight-per-connection", in_flight_per_connection), "maximum number of running calls of one connection",
     "256", 1, 65536},
    {NUMBER("in-flight-per-principal", in_flight_per_principal),
     "maximum number of running calls of one principal while others call, or of one\n"
     "address if principals are not known",
     "32", 4, 65536},
    {NUMBER("waiting", waiting),
     "maximum number of waiting calls (for a lock, a result, the ledger); one principal may\n"
     "                               have half of them",
     "131072", 1, 1048576},
    {NUMBER("waiting-per-connection", waiting_per_connection), "maximum number of waiting calls of one connection",
     "16384", 1, 1048576},
    {NUMBER("memory-bytes", memory_bytes), "maximum memory for requests and answers of all connections", "268435456",
     1048576, 1099511627776},
    {NUMBER("connections", connections),
     "maximum number of connections; lower if the limit of file descriptors (ulimit -Hn) is lower.\n"
     "                               At the maximum, a new connection replaces the idlest one without a principal. "
     "One\n"
     "                               sixteenth is reserved for unix sockets",
     "4096", 1, 65536},
    {NUMBER("connections-per-wire", connections_per_wire),
     "maximum number of connections of one scheme; 0 = all, or three quarters with several schemes", "0", 0, 65536},
    {NUMBER("connections-per-address", connections_per_address),
     "maximum number of connections of one address, or of one user of unix sockets;\n"
     "                               0 = a quarter of all",
     "0", 0, 65536},
    {NUMBER("timeout-ms", timeout_ms), "deadline of a call that has none", "5000", 1, 86400000},
    {NUMBER("timeout-max-ms", timeout_max_ms), "latest deadline, not counting the time that a call asks to wait",
     "30000", 1, 86400000},
    {NUMBER("request-ms", request_ms), "time within which the headers and the body of a gRPC call must arrive", "30000",
     100, 86400000},
    {NUMBER("keepalive-ms", keepalive_ms), "silence of a gRPC client after which it is pinged; 0 = it is not", "0", 0,
     86400000},
    {NUMBER("keepalive-timeout-ms", keepalive_timeout_ms), "time for anything to come after that ping", "20000", 1000,
     86400000},
    {NUMBER("ping-min-ms", ping_min_ms),
     "time between pings of a gRPC client; one that pings more often is disconnected; 0 = it is not", "0", 0, 86400000},
    {NUMBER("connection-age-ms", connection_age_ms),
     "age at which a gRPC client is told to make another connection, give or take a tenth; 0 = never", "0", 0,
     86400000},
    {NUMBER("connection-age-grace-ms", connection_age_grace_ms), "time for the calls of such a connection to end",
     "30000", 1000, 86400000},
    {NUMBER("slow-call-ms", slow_call_ms),
     "a call that takes as long, without the wait that it asked for, is logged; 0 = none", "0", 0, 86400000},
    {NUMBER("drain-ms", drain_ms), "time for running calls to finish after SIGTERM", "10000", 0, 600000},
    {NUMBER("sweep-ms", sweep_ms), "interval of the search for expired holds of servers that stopped or died", "600000",
     100, 86400000},
    {NUMBER("namespace-keys", namespace_keys), "maximum number of keys of a namespace in the store; 0 = no quota", "0",
     0, 1000000000000},
    {NUMBER("namespace-bytes", namespace_bytes), "maximum number of bytes of a namespace in the store; 0 = no quota",
     "0", 0, 1000000000000000},
    {NUMBER("namespace-waiters", namespace_waiters),
     "maximum number of waiting calls of a namespace at this server; 0 = no quota", "0", 0, 1048576},
    {BOOL("remember-refusals", remember_refusals),
     "answer SOLD_OUT to first tries, and refusals of rate limits, from memory for at most 20 ms", "true"},
    {NUMBER("id-sequence-block", id_sequence_block),
     "ids of a SEQUENCE that this server reserves at once; 1 = ids in one order over all servers", "1", 1, 1000000},
};
const size_t config_keys_len = sizeof config_keys / sizeof *config_keys;
_Static_assert(sizeof config_keys / sizeof *config_keys <= CONFIG_KEYS_MAX, "settings.set_by has room");

enum { PLACE_BYTES = 512 };

/* The source that set a setting last, weakest first. A weaker source does not change it. */
typedef enum source { SOURCE_DEFAULT, SOURCE_FILE, SOURCE_ENVIRONMENT, SOURCE_FLAG } source;

typedef struct loading {
    settings *config;
    source source; /* the one that is being read */
    const char *file;
    lks_code code;
    lks_error *error;
} loading;

static lks_code invalid(const loading *l, const char *where, const char *what)
{
    return lks_error_set(l->error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "%s: %s", where, what);
}

static void copy_text(char **target, const char *text)
{
    free(*target);
    *target = memory_copy(text, strlen(text));
}

static lks_code add_to_list(const loading *l, config_list *list, const char *where, const char *text)
{
    do {
        char one[256];
        size_t len = strcspn(text, ",");
        if (len == 0 || len >= sizeof one)
            return invalid(l, where, len == 0 ? "must not be empty" : "an element is too long");
        if (list->n == CONFIG_LIST_MAX)
            return invalid(l, where, "too many elements");
        snprintf(one, sizeof one, "%.*s", (int)len, text);
        copy_text(&list->of[list->n++], one);
        text += len;
    } while (*text++ == ',');
    return LKS_OK;
}

static bool is_text(const option *key)
{
    return key->type == OPTION_TEXT || key->type == OPTION_CHOICE;
}

static lks_code set_key(const loading *l, const option *key, const char *where, const char *text)
{
    settings *config = l->config;
    void *member = (char *)config + key->offset;
    unsigned char *set_by = &config->set_by[key - config_keys];
    char why[OPTION_WHY_BYTES], *old = is_text(key) ? *(char **)member : NULL;

    if (*set_by > l->source)
        return LKS_OK;
    bool first_of_source = *set_by < l->source;
    *set_by = (unsigned char)l->source;
    copy_text(&config->where[key - config_keys], where);
    if (l->source == SOURCE_FLAG && !first_of_source && key->type != OPTION_LIST)
        return invalid(l, where, "given more than once");
    if (is_text(key) && *text == '\0')
        return invalid(l, where, "must not be empty");
    if (!options_store(key, config, text, why))
        return invalid(l, where, why);
    if (is_text(key)) {
        *(char **)member = memory_copy(text, strlen(text));
        free(old);
    }
    if (key->type != OPTION_LIST)
        return LKS_OK;
    if (first_of_source)
        ((config_list *)member)->n = 0;
    return add_to_list(l, member, where, text);
}

/* For options_read_environment and options_read_file. */
static bool take_value(void *arg, const option *key, const char *where, const char *text)
{
    loading *l = arg;

    l->code = key ? set_key(l, key, where, text) : invalid(l, where, text);
    return l->code == LKS_OK;
}

/* Flags that choose an action. */
static const struct action_flag {
    const char *name;
    config_action action;
    const char *help;
} actions[] = {
    {"check-config", CONFIG_CHECK, "check the settings and exit"},
    {"print-config", CONFIG_PRINT, "print the settings and the source of each, and exit"},
    {"help", CONFIG_HELP, "print this text"},
    {"version", CONFIG_VERSION, "print the version"},
};
enum { N_ACTIONS = sizeof actions / sizeof actions[0] };

static lks_code unknown_flag(const loading *l, const argument *arg)
{
    char name[SIMILAR_BYTES], question[2 * SIMILAR_BYTES];
    similar s = {.word = name};

    snprintf(name, sizeof name, "--%.*s", (int)arg->name_len, arg->name);
    options_offer(config_keys, config_keys_len, &s);
    for (size_t i = 0; i < N_ACTIONS; i++)
        options_offer(&(const option){.name = actions[i].name}, 1, &s);
    return lks_error_set(l->error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "%s: unknown flag%s; see --help", name,
                         similar_question(&s, question));
}

/* Only values begin without dashes, so an argument without dashes after a bool is the value of the bool. */
static bool is_bool_without_value(const option *key, const argument *arg, const arguments *args)
{
    return key && key->type == OPTION_BOOL && !arg->value &&
           (args->at == args->argc || strncmp(args->argv[args->at], "--", 2) == 0);
}

static lks_code load_flag(loading *l, arguments *args, const argument *arg)
{
    const option *key = arg->name ? options_find(config_keys, config_keys_len, arg->name, arg->name_len) : NULL;
    bool is_file = argument_is(arg, "config");
    char where[PLACE_BYTES];

    if (!arg->name)
        return invalid(l, arg->text, "not a flag; see --help");
    if (!key && !is_file)
        return unknown_flag(l, arg);
    const char *value = is_bool_without_value(key, arg, args) ? "true" : arguments_value(args, arg);
    if (!value)
        return invalid(l, arg->text, "needs a value");
    if (is_file && l->file)
        return invalid(l, "--config", "given more than once");
    if (is_file) {
        l->file = value;
        return LKS_OK;
    }
    snprintf(where, sizeof where, "--%s", key->name);
    return set_key(l, key, where, value);
}

static bool choose_action(const argument *arg, config_action *action)
{
    for (size_t i = 0; i < N_ACTIONS; i++)
        if (!arg->value && argument_is(arg, actions[i].name)) {
            *action = actions[i].action;
            return true;
        }
    return false;
}

lks_code config_load(int argc, char **argv, settings *config, config_action *action, lks_error *error)
{
    loading l = {.config = config, .error = error, .source = SOURCE_DEFAULT};
    arguments args = {.argc = argc, .argv = argv, .at = 1};
    argument arg;

    *config = (settings){0};
    *action = CONFIG_RUN;
    for (size_t i = 0; i < config_keys_len && l.code == LKS_OK; i++)
        if (config_keys[i].initial)
            l.code = set_key(&l, &config_keys[i], config_keys[i].name, config_keys[i].initial);
    l.source = SOURCE_FLAG;
    while (l.code == LKS_OK && arguments_next(&args, &arg)) {
        if (!choose_action(&arg, action))
            l.code = load_flag(&l, &args, &arg);
        if (*action >= CONFIG_HELP)
            return LKS_OK;
    }
    if (l.code == LKS_OK && args.ended)
        l.code = invalid(&l, "--", "not a flag; see --help");
    l.source = SOURCE_ENVIRONMENT;
    if (l.code == LKS_OK)
        options_read_environment(config_keys, config_keys_len, take_value, &l);
    l.source = SOURCE_FILE;
    if (!l.file && (l.file = getenv("LOCKSTOCKD_CONFIG")) && !*l.file)
        l.file = NULL;
    if (l.code == LKS_OK && l.file)
        options_read_file(config_keys, config_keys_len, l.file, take_value, &l);
    return l.code;
}

void config_free(settings *config)
{
    for (size_t i = 0; i < config_keys_len; i++) {
        void *member = (char *)config + config_keys[i].offset;
        free(config->where[i]);
        if (is_text(&config_keys[i]))
            free(*(char **)member);
        for (size_t k = 0; config_keys[i].type == OPTION_LIST && k < CONFIG_LIST_MAX; k++)
            free(((config_list *)member)->of[k]);
    }
    *config = (settings){0};
}

const char *config_where(const settings *config, const char *name)
{
    return config->where[options_find(config_keys, config_keys_len, name, strlen(name)) - config_keys];
}

void config_each_action(void (*visit)(void *arg, const char *flag, const char *help), void *arg)
{
    char flag[SIMILAR_BYTES];

    for (size_t i = 0; i < N_ACTIONS; i++) {
        snprintf(flag, sizeof flag, "--%s", actions[i].name);
        visit(arg, flag, actions[i].help);
    }
}

static void print_action(void *arg, const char *flag, const char *help)
{
    (void)arg;
    printf("  %-28s %s\n", flag, help);
}

void config_print_help(void)
{
    printf("usage: lockstockd [--flag value]...\n\n"
           "--flag=value is the same, and a bool may be given as --flag alone. Each flag is also a variable "
           "LOCKSTOCK_FLAG of\nthe environment, and a line `flag = value` of the file that --config names. A flag "
           "overrides the environment, and\nthe environment overrides the file.\n\n");
    for (size_t i = 0; i < config_keys_len; i++)
        printf("  --%-26s %s\n  %-28s default: %s\n", config_keys[i].name, config_keys[i].help, "",
               config_keys[i].initial ? config_keys[i].initial : "none");
    print_action(NULL, "--config", "a file of settings; else the one that LOCKSTOCKD_CONFIG names");
    config_each_action(print_action, NULL);
}

/* Prints stars for a password in a URL. */
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
        const option *key = &config_keys[i];
        const void *value = (const char *)config + key->offset;
        const config_list *list = value;
        if ((is_text(key) && !*(char *const *)value) || (key->type == OPTION_LIST && list->n == 0))
            continue;
        printf("# %s\n%s = ", sources[config->set_by[i]], key->name);
        if (key->type == OPTION_NUMBER)
            printf("%" PRId64, *(const int64_t *)value);
        else if (key->type == OPTION_BOOL)
            fputs(*(const bool *)value ? "true" : "false", stdout);
        else if (key->type == OPTION_LIST)
            for (size_t j = 0; j < list->n; j++)
                printf("%s%s", j > 0 ? "," : "", list->of[j]);
        else
            print_text(*(char *const *)value);
        putchar('\n');
    }
}
