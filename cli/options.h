/* Flags of commands: parsing with messages, help, and errors of the library that name flags. */
#ifndef LOCKSTOCK_CLI_OPTIONS_H
#define LOCKSTOCK_CLI_OPTIONS_H

#include <lockstock/status.h>

#include "base/options.h"

typedef enum options_result { OPTIONS_OTHER, OPTIONS_TAKEN, OPTIONS_WRONG } options_result;

/* Sets the member of the option that `arg` names. Returns OPTIONS_OTHER if the set has no such option, and
 * OPTIONS_WRONG after printing an error. */
options_result options_take(const option_set *set, arguments *args, const argument *arg);

/* Returns the value of a flag, or NULL after printing that there is none. */
const char *options_value(arguments *args, const argument *arg);

/* Gives the range of a time its units: "lease_ms: must be 10 to 86400000" becomes "lease: must be 10ms to 1d". Changes
 * nothing if the error is not about the range of a field "..._ms". */
void options_write_times(lks_error *error);

/* Replaces `field` by `flag` in an error message that begins with "field:", and writes times. Returns false if it begins
 * otherwise. */
bool options_rename(lks_error *error, const char *field, const char *flag);

/* Replaces the parameter of the library that an error message begins with by the flag of the same name:
 * "options.lease_ms: ..." becomes "--lease: ...". */
void options_name_flag(const option *options, size_t n, lks_error *error);

/* Prints a line for each option, for --help. */
void options_print(const option *options, size_t n);

#endif
