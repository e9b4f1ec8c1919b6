/* Strict UTF-8, as RFC 3629 has it. */
#ifndef RPC_UTF8_H
#define RPC_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether all of it is UTF-8: no overlong form, no surrogate, nothing above
 * U+10FFFF, no character cut short. NUL is a character. */
bool utf8_valid(const uint8_t *text, size_t len);

#endif
