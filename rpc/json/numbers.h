/* Exact numbers of JSON. jansson returns a number as a 64-bit integer or a double, and so loses the sign of -0 and the
 * digits of 9007199254740993.0. Before jansson reads the text, each number becomes a string that begins with a mark,
 * the character U+007F; a string that already begins with that character gets another one. Pure; thread-safe. */
#ifndef RPC_JSON_NUMBERS_H
#define RPC_JSON_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

/* The most bytes of a marked text. */
#define NUMBERS_MARKED_BYTES(len) ((len) / 2 * 5 + 8)

/* Marks the numbers of a text. Text that is not JSON is unchanged; jansson reports it. Returns the length. */
size_t numbers_mark(const char *text, size_t len, char *out);

/* How many characters marking has added to the line of the marked text up to `position`. */
int numbers_inserted(const char *marked, size_t position);

/* The characters of a string value, without a mark; NULL: it is not a string. */
const char *numbers_string(const json_t *json, size_t *len);

/* The same for the name of a member. */
const char *numbers_name(const char *name);

/* The characters of a value that is a number or a string; NULL: it is neither. Sets *is_string, unless it is NULL, to
 * whether it was a string. */
const char *numbers_text(const json_t *json, bool *is_string);

typedef enum numbers_result { NUMBERS_GOOD, NUMBERS_NOT_WHOLE, NUMBERS_TOO_LARGE } numbers_result;

/* The absolute value of a whole number of JSON: "15", "-15", "1.5e1", "15.0". */
numbers_result numbers_whole(const char *text, bool *negative, uint64_t *magnitude);

/* A number of JSON as the nearest double. False: it is not a number, or beyond the largest double. *is_number: whether
 * it is a number. */
bool numbers_real(const char *text, double *ret, bool *is_number);

/* Whether a text is a whole number in the form for names of members: "-15", not "015", "15.0" or "-0". */
bool numbers_is_canonical(const char *text);

#endif
