/* lockstock SERVICE METHOD: calls any method by its descriptors. */
#ifndef LOCKSTOCK_CLI_RPC_H
#define LOCKSTOCK_CLI_RPC_H

#include <lockstock/rpc/method.h>

#include "cli.h"

struct request;

/* How much of a list is read. */
typedef struct rpc_pages {
    size_t rows, n;      /* until it has so many rows, or so many pages were read; n 0: any number */
    bool (*stops)(void); /* checked after each page; may be NULL */
} rpc_pages;

/* Makes a call. pages NULL: reads one page of a list. The answer is in the arena, with the rows of all pages and the
 * token of the next one. */
lks_code rpc_call(lks_channel *channel, const lks_rpc_method *method, ProtobufCMessage *asking, const rpc_pages *pages,
                  lks_rpc_arena *arena, ProtobufCMessage **ret, lks_error *error);

/* Calls the method and prints its answer. Reads all pages of a list unless a page was named. */
exit_code rpc_run(cli *c, const lks_rpc_method *method, const struct request *r);

#endif
