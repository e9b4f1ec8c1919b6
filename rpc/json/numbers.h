/* Numbers of JSON, exactly. jansson gives a number as a 64-bit integer or a double, and so loses the sign of -0 and the
 * digits of 9007199254740993.0. Before jansson reads the text, each number becomes a string that begins with a mark,
 * the character U+007F; a string that begins with that character gets one more. Pure; thread-safe. */
#ifndef RPC_JSON_NUMBERS_H
#define RPC_JSON_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

/* The most bytes that marking makes of a text. */
#define NUMBERS_MARKED_BYTES(len) ((len) / 2 * 5 + 8)

/* Marks the numbers of a text. What is not JSON stays as it is, for jansson to find. Returns the length. */
size_t numbers_mark(const char *text, size_t len, char *out);

/* How many of the characters of the marked text's line that ends at `position` are not in the text. */
int numbers_inserted(const char *marked, size_t position);

/* The characters of a value that is a string: without a mark; NULL: it is not a string. */
const char *numbers_string(const json_t *json, size_t *len);

/* The same for the name of a member. */
const char *numbers_name(const char *name);

/* The characters of a number: of a value that is one, or that is a string; NULL: it is neither. is_string NULL: a string
 * will do. Else sets whether it was one. */
const char *numbers_text(const json_t *json, bool *is_string);

typedef enum numbers_result { NUMBERS_GOOD, NUMBERS_NOT_WHOLE, NUMBERS_TOO_LARGE } numbers_result;

/* The absolute value of a whole number of JSON: "15", "-15", "1.5e1", "15.0". */
numbers_result numbers_whole(const char *text, bool *negative, uint64_t *magnitude);

/* A number of JSON as the nearest double. False: it is not one, or beyond the largest double. *is_number: which. */
bool numbers_real(const char *text, double *ret, bool *is_number);

/* Whether a text is a whole number as the name of a member writes it: "-15", not "015", "15.0" or "-0". */
bool numbers_is_canonical(const char *text);

#endif
