/* lockstock SERVICE METHOD: calls any method by its descriptors. */
#ifndef LOCKSTOCK_CLI_RPC_H
#define LOCKSTOCK_CLI_RPC_H

#include <lockstock/rpc/method.h>

#include "cli.h"

struct request;

/* Takes all arguments up to the end or "--": flags of the set, flags of all commands, and those and the words of the
 * request, which may also be the value of --json. Returns false after printing an error. */
bool rpc_take_all(cli *c, const option_set *set, struct request *r, arguments *args);

/* Calls the method and prints its answer. Reads all pages of a list unless a page was named. */
exit_code rpc_run(cli *c, const lks_rpc_method *method, const struct request *r);

#endif
