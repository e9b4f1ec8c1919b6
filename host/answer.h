/* Checks the answers of handlers, which are the user's code, before they are sent. */
#ifndef HOST_ANSWER_H
#define HOST_ANSWER_H

#include <lockstock/rpc/method.h>
#include <lockstock/status.h>

/* Replaces an answer that cannot be sent by INTERNAL: an unknown code, or an error or a response whose text is not
 * UTF-8. Returns the reason, static text; NULL: the answer is valid. */
const char *answer_check(const lks_rpc_method *method, const ProtobufCMessage *response, lks_error *error);

#endif
