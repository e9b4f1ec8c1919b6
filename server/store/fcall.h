/* Writes calls as an FCALL and reads its reply: the sub-call protocol of server/functions/common.lua.
 *
 *   FCALL <function>_<digest> <n> <base>... { argc arg... }...
 *   one base: for all sub-calls; several: one for each; none: the first argument of each
 *   reply: of one sub-call its reply; of several, a list. Each is a value, {OUTCOME, ...}, {'ELSEWHERE'} or
 *          {'ERR', code, applied, message, detail} */
#ifndef LOCKSTOCK_SERVER_STORE_FCALL_H
#define LOCKSTOCK_SERVER_STORE_FCALL_H

#include "store/types.h"

/* A command in RESP. */
typedef struct fcall {
    size_t len;
    char bytes[];
} fcall;

bool fcall_same_base(const store_call *a, const store_call *b);

/* Writes n >= 1 calls of one function. cluster: for a node of Redis Cluster. Free it with free(). */
fcall *fcall_new(const store_call *const calls[], size_t n, const char *digest, bool cluster);

/* Whether the reply says that the node does not have the sub-call's slot and did nothing. */
bool fcall_is_elsewhere(const store_value *reply);

/* Reads the result of a sub-call: ERR is a status, any other reply an answer. Logs the detail of an ERR. `message` and
 * `value` belong to the reply. */
store_result fcall_result(const store_value *reply, const char *function);

#endif
