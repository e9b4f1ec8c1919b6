/* --help, from the descriptors and from the comments of the .proto files. */
#ifndef LOCKSTOCK_CLI_HELP_H
#define LOCKSTOCK_CLI_HELP_H

#include <lockstock/rpc/method.h>

#include "exits.h"

struct command;

/* All print to standard output and return EXIT_DONE. */
exit_code help_all(void);
exit_code help_service(const lks_rpc_method *of);
exit_code help_command(const struct command *its);
exit_code help_method(const lks_rpc_method *method);

#endif
