/* What all commands of lockstock begin with: which servers, as whom, and how to answer. */
#ifndef LOCKSTOCK_CLI_CLI_H
#define LOCKSTOCK_CLI_CLI_H

#include <stdbool.h>
#include <stdint.h>

#include <lockstock/channel.h>
#include <lockstock/rpc/arena.h>
#include <protobuf-c/protobuf-c.h>

#include "exits.h"
#include "options.h"

typedef struct cli {
    lks_rpc_arena *arena; /* of the whole run */
    /* Flags; else LOCKSTOCK_... of the environment; else the configuration file. */
    const char *server, *ns, *token_file, *tls_ca, *tls_certificate, *tls_key, *tls_name, *config;
    int64_t timeout;
    /* Flags alone. */
    bool json, help;
    const char *json_request; /* what followed --json; NULL = none */
} cli;

#define NS_PER_MS UINT64_C(1000000)
enum { CLI_TIMEOUT_MS = 5000 }; /* of a call, without --timeout */

/* A flag's time, as the library takes it: cut to what it can say. */
static inline uint32_t cli_ms(int64_t ms)
{
    return ms > UINT32_MAX ? UINT32_MAX : (uint32_t)ms;
}

/* A flag that every command has. */
options_result cli_take(cli *c, arguments *args, const argument *arg);

/* All that stands before the end or "--": flags of the set, and those above; and at most one word without a flag,
 * where word is not NULL and *word is not set yet. False: said. */
bool cli_take_all(const option_set *set, cli *c, arguments *args, const char **word);

/* Says that nobody knows what to do with an argument; of a flag without its value, which may be a secret. Asks whether one
 * of the set, of the request's type (both may be NULL) or of all commands was meant. */
void cli_unknown(const option_set *set, const ProtobufCMessageDescriptor *type, const argument *arg);

/* Once all flags are known: what else there is, and the channel. Any code but EXIT_DONE: said. */
exit_code cli_settle(cli *c);
exit_code cli_open(const cli *c, lks_channel **ret);

/* Both. */
exit_code cli_connect(cli *c, lks_channel **ret);

/* The flags that every command has, but for --json and --help: settings are variables and lines of the file, too. */
extern const option cli_settings[], cli_flags[];
extern const size_t cli_settings_len, cli_flags_len;

/* All flags that every command has, for --help. */
void cli_print_options(void);

/* ---- the commands: args stand behind the command's own words ------------------------ */

typedef exit_code cli_command(cli *c, arguments *args);

cli_command exec_command;       /* lock exec NAME -- CMD */
cli_command ledger_command;     /* stock ledger GROUP */
cli_command watch_command;      /* stock watch SKU */
cli_command status_command;     /* status */
cli_command live_command;       /* watch */
cli_command bench_command;      /* bench */
cli_command completion_command; /* completion SHELL */
cli_command doctor_command;     /* doctor */
cli_command run_command;        /* run --lock NAME -- CMD */
cli_command once_command;       /* once --key KEY -- CMD */
cli_command limit_command;      /* limit --key KEY --rate 10/s -- CMD */

/* Their own flags. */
extern const option run_options[], once_options[], limit_options[], ledger_options[], watch_options[], live_options[];
extern const size_t run_options_len, once_options_len, limit_options_len, ledger_options_len, watch_options_len,
    live_options_len;

struct lks_rpc_method;

/* Any method: SERVICE METHOD. */
exit_code rpc_command(cli *c, const struct lks_rpc_method *method, arguments *args);

/* Sets the error of a server that names the page which it has just answered as the next one. Returns LKS_INTERNAL. */
lks_code cli_stuck(lks_error *error);

#endif
