/* The server's settings. A flag overrides the environment (LOCKSTOCK_*), and the environment overrides the file. */
#ifndef LOCKSTOCK_SERVER_CONFIG_H
#define LOCKSTOCK_SERVER_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include <lockstock/status.h>

#include "base/options.h"

enum { CONFIG_LIST_MAX = 16, CONFIG_KEYS_MAX = 64 };

/* Values separated by commas, or given by several flags. */
typedef struct config_list {
    char *of[CONFIG_LIST_MAX];
    size_t n;
} config_list;

typedef struct settings {
    config_list listen;
    config_list allow_origin;
    bool console;
    char *store;
    char *store_ca, *store_certificate, *store_key, *store_server_name; /* NULL: none */
    char *store_user, *store_password_file, *store_sentinel_user, *store_sentinel_password_file;
    char *lock_store; /* NULL: none */
    config_list lock_store_namespaces;
    char *fsync;
    char *log_level;
    char *log_format;
    char *policy, *tokens; /* NULL: none */
    bool allow_unsafe_store;
    int64_t wait_replicas, wait_ms;
    bool insecure;
    char *tls_certificate, *tls_key, *tls_client_ca; /* NULL: none */
    bool tls_client_required;
    int64_t message_bytes;
    int64_t in_flight;
    int64_t in_flight_per_connection;
    int64_t in_flight_per_principal;
    int64_t waiting;
    int64_t waiting_per_connection;
    int64_t memory_bytes;
    int64_t connections;
    int64_t connections_per_wire;
    int64_t connections_per_address;
    int64_t timeout_ms;
    int64_t timeout_max_ms;
    int64_t request_ms;
    int64_t keepalive_ms, keepalive_timeout_ms, ping_min_ms, connection_age_ms, connection_age_grace_ms;
    int64_t slow_call_ms;
    int64_t drain_ms;
    int64_t sweep_ms;
    int64_t namespace_keys, namespace_bytes, namespace_waiters;
    int64_t id_sequence_block;
    bool remember_refusals;
    unsigned char set_by[CONFIG_KEYS_MAX]; /* by row of config_keys: the source of the value, for config.c */
    char *where[CONFIG_KEYS_MAX];          /* and the name of its place, for messages */
} settings;

typedef enum config_action { CONFIG_RUN, CONFIG_CHECK, CONFIG_PRINT, CONFIG_HELP, CONFIG_VERSION } config_action;

/* Fills in *config from flags, environment and file. LKS_INVALID_ARGUMENT names the flag, the variable, or the file
 * and the line. The caller frees the config in any case. */
lks_code config_load(int argc, char **argv, settings *config, config_action *action, lks_error *error);
void config_free(settings *config);

/* All settings. The members of texts and choices are copies that the config owns. */
extern const option config_keys[];
extern const size_t config_keys_len;

/* Returns where a setting was set, for messages: the flag, the variable, or the file, the line and the key. Valid until
 * config_free. */
const char *config_where(const settings *config, const char *name);

/* Calls visit for each flag that chooses an action. */
void config_each_action(void (*visit)(void *arg, const char *flag, const char *help), void *arg);

/* Prints every flag with its default. */
void config_print_help(void);

/* Prints every setting that has a value, as a file that --config reads, and the source of each. Prints stars for the
 * password in the store's URL. */
void config_print(const settings *config);

#endif
