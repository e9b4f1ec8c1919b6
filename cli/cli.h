/* Options that all commands have: servers, credentials, output. */
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
    lks_rpc_arena *arena; /* freed at the end of the program */
    /* From a flag, else a variable LOCKSTOCK_..., else the settings file. */
    const char *server, *ns, *token_file, *tls_ca, *tls_certificate, *tls_key, *tls_name, *config;
    int64_t timeout;
    /* From flags only. */
    bool json, help;
    bool runs_program;        /* the command runs one: its exit codes are above EXIT_AROUND */
    const char *json_request; /* the value of --json; NULL: none */
} cli;

#define NS_PER_MS UINT64_C(1000000)
enum { CLI_TIME_BYTES = 40 };
enum { CLI_TIMEOUT_MS = 5000 }; /* default of --timeout */

/* Converts a time for the library, which has 32 bits for it. */
static inline uint32_t cli_ms(int64_t ms)
{
    return ms > UINT32_MAX ? UINT32_MAX : (uint32_t)ms;
}

/* Writes "2024-07-01 12:00:00" in the local time zone. */
void cli_write_time(int64_t at_ms, char text[CLI_TIME_BYTES]);

/* Takes a flag that all commands have. */
options_result cli_take(cli *c, arguments *args, const argument *arg);

struct request;

/* Takes all arguments up to the end or "--": flags of the set, flags of all commands, one word without a flag if word is
 * not NULL and *word is not set, and flags and words of the request, which may also be the value of --json, if r is not
 * NULL. Returns false after printing an error. */
bool cli_take_all(cli *c, const option_set *set, struct request *r, const char **word, arguments *args);

/* Prints that an argument is unknown. Does not print the value of a flag, which may be a secret. Suggests a similar
 * flag of the set, of the request's type (both may be NULL) or of all commands. */
void cli_unknown(const option_set *set, const ProtobufCMessageDescriptor *type, const argument *arg);

/* Reads environment and file, after all flags. Prints an error unless it returns EXIT_DONE. */
exit_code cli_settle(cli *c);

/* Opens the channel, after cli_settle. Prints an error unless it returns EXIT_DONE. */
exit_code cli_open(const cli *c, lks_channel **ret);

/* The flags of all commands. Only cli_settings are also variables and lines of the file. */
extern const option cli_settings[], cli_flags[];
extern const size_t cli_settings_len, cli_flags_len;

/* Prints the flags of all commands, for --help. */
void cli_print_options(void);

/* Sets the error for a server that returns the same page token again. Returns LKS_INTERNAL. */
lks_code error_repeated_page(lks_error *error);

#endif
