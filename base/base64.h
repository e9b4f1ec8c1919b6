/* Base64, RFC 4648: written in the standard alphabet with padding; read in both alphabets, padded or not. */
#ifndef LOCKSTOCK_BASE_BASE64_H
#define LOCKSTOCK_BASE_BASE64_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BASE64_ENCODED_BYTES(len) (((len) + 2) / 3 * 4)

/* Writes BASE64_ENCODED_BYTES(len) characters, no NUL. */
void base64_encode(const uint8_t *bytes, size_t len, char *text);

/* Writes at most len / 4 * 3 + 2 bytes. False: not base64. */
bool base64_decode(const char *text, size_t len, uint8_t *bytes, size_t *ret_len);

#endif
