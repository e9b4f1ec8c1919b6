/* What handlers answer is checked before it is sent: they are the user's code. */
#ifndef HOST_ANSWER_H
#define HOST_ANSWER_H

#include <lockstock/rpc/method.h>
#include <lockstock/status.h>

/* Replaces by INTERNAL an answer that cannot be sent: a code that does not exist, an error or a response whose text is
 * not UTF-8. Returns why, static text; NULL: the answer is fine. */
const char *answer_check(const lks_rpc_method *method, const ProtobufCMessage *response, lks_error *error);

#endif
