/* Strict UTF-8 (RFC 3629). */
#ifndef LOCKSTOCK_RPC_UTF8_H
#define LOCKSTOCK_RPC_UTF8_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns whether the text is UTF-8: no overlong form, no surrogate, nothing above U+10FFFF, no incomplete
 * character. NUL is a character. Thread-safe. */
bool lks_rpc_utf8_valid(const void *text, size_t len);

#ifdef __cplusplus
}
#endif

#endif
