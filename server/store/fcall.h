/* How calls of a function become Redis' FCALL, and a reply of it a result: the sub-call protocol of
 * server/functions/common.lua.
 *
 *   FCALL <function>_<digest> <n> <base>... { argc arg... }...
 *   one base: of all sub-calls; several: of each sub-call its own; none: each has it as its first argument
 *   reply: that of the one sub-call; of several a list of them.
 *   each is a value, {OUTCOME, ...}, {'ELSEWHERE'} or {'ERR', code, applied, message, detail}
 */
#ifndef LOCKSTOCK_SERVER_STORE_FCALL_H
#define LOCKSTOCK_SERVER_STORE_FCALL_H

#include "store/store.h"

/* A command as Redis reads it. */
typedef struct fcall {
    size_t len;
    char bytes[];
} fcall;

bool fcall_same_base(const store_call *a, const store_call *b);

/* n >= 1 calls of one function. cluster: to a node of Redis Cluster. To be freed with free(). */
fcall *fcall_new(const store_call *const calls[], size_t n, const char *digest, bool cluster);

/* Whether a sub-call found that the node it was sent to does not have its slot: nothing was done. */
bool fcall_is_elsewhere(const store_value *reply);

/* A sub-call's reply as its result: ERR is a status, all else an answer. Logs what an ERR says to
 * the log only. `message` and `value` are the reply's. */
store_result fcall_result(const store_value *reply, const char *function);

#endif
