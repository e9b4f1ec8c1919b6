/* Strict UTF-8, as RFC 3629 has it. */
#ifndef LOCKSTOCK_RPC_UTF8_H
#define LOCKSTOCK_RPC_UTF8_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Whether all of it is UTF-8: no overlong form, no surrogate, nothing above
 * U+10FFFF, no character cut short. NUL is a character. Pure; thread-safe. */
bool lks_rpc_utf8_valid(const void *text, size_t len);

#ifdef __cplusplus
}
#endif

#endif
