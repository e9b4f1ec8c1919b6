/* The server's settings. Flags beat the environment (LOCKSTOCK_*) beat the
 * configuration file (ini, section-less); every key is one row of one table. */
#ifndef LOCKSTOCK_SERVER_CONFIG_H
#define LOCKSTOCK_SERVER_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include <lockstock/status.h>

#include "setting.h"

enum { CONFIG_LIST_MAX = 16, CONFIG_KEYS_MAX = 64 };

/* Values with commas between, or of a flag that stands several times. */
typedef struct config_list {
    char *of[CONFIG_LIST_MAX];
    size_t n;
} config_list;

typedef struct settings {
    config_list listen;
    config_list allow_origin; /* of web pages */
    char *store;
    char *store_ca, *store_certificate, *store_key, *store_server_name; /* NULL: none; so these four */
    char *store_user, *store_password_file, *store_sentinel_user, *store_sentinel_password_file;
    char *fsync;
    char *log_level;
    char *log_format;
    char *policy, *tokens; /* NULL: none */
    bool allow_unsafe_store;
    long wait_replicas, wait_ms;
    bool insecure;
    char *tls_certificate, *tls_key, *tls_client_ca; /* NULL: none */
    bool tls_client_required;
    long message_bytes;
    long in_flight;
    long in_flight_per_connection;
    long in_flight_per_principal;
    long waiting;
    long waiting_per_connection;
    long memory_bytes;
    long connections;
    long connections_per_wire;
    long connections_per_address;
    long timeout_ms;
    long timeout_max_ms;
    long request_ms;
    long drain_ms;
    long sweep_ms;
    long namespace_keys, namespace_bytes, namespace_waiters;
    long id_sequence_block;
    bool remember_refusals;
    unsigned char set_by[CONFIG_KEYS_MAX]; /* config.c's: where each comes from, */
    char *where[CONFIG_KEYS_MAX];          /* and what that is called */
} settings;

typedef enum config_action { CONFIG_RUN, CONFIG_CHECK, CONFIG_PRINT, CONFIG_HELP, CONFIG_VERSION } config_action;

/* Fills in *config from everything. LKS_INVALID_ARGUMENT names the flag, the
 * variable, or the file and the line. config_free in any case. */
lks_code config_load(int argc, char **argv, settings *config, config_action *action, lks_error *error);
void config_free(settings *config);

/* Every setting; of TEXT and CHOICE the members are copies. */
extern const setting config_keys[];
extern const size_t config_keys_len;

/* Where a setting stands, as errors name it: the flag, the variable, or the file, the line and the key. The config's. */
const char *config_where(const settings *config, const char *name);

/* What else the program can be told to do. */
void config_each_action(void (*visit)(void *arg, const char *flag, const char *help), void *arg);

/* Prints every flag with its default to standard output. */
void config_print_help(void);

/* Prints every setting that has a value, as a file that --config takes, and where it comes from; of a password in
 * the store's URL stars. */
void config_print(const settings *config);

#endif
