/* What tests of a service are written with. A request is one expression, and what came back is a response, or one
 * line of text in the contract's own words:
 *
 *     const lks_inspect_response *seen = ask(inspect, .group = "g", .name = "a");
 *     says(line_of(ask(extend, .scope = "s", .key = "k", .fence = 1, .lease_ms = 1000)), "EXTENDED");
 *
 * Responses and snapshots live until the harness is reset or forgets. Main thread only. */
#ifndef LOCKSTOCK_TESTS_SCRIPT_H
#define LOCKSTOCK_TESTS_SCRIPT_H

#include "support/service_harness.h"
#include "test.h"

enum { LINE_BYTES = 4096 };

extern harness *h;

/* Of the last request. */
extern lks_error err;

/* For cmocka: one harness a program, emptied before each test. */
int script_open(void **state);
int script_reset(void **state);
int script_close(void **state);

/* ---- requests ---- */

/* A message of lockstock.v1 with these members; the others are empty. message(line, .sku = "a") */
#define message(type, ...) \
    ((lks_##type){.base = PROTOBUF_C_MESSAGE_INIT(&lockstock__v1__##type##__descriptor), __VA_ARGS__})

/* The response to a request with these members: ask(deduct, .group = "g", ...). NULL when it fails: `err`. */
#define ask(method, ...) ((const lks_##method##_response *)answer_to(&message(method##_request, __VA_ARGS__)))

/* The same for a request that is there. Its type says which method of which service is meant. */
const void *answer_to(const void *request);

/* A call that may wait, on that server (harness_start). */
harness_waiting *start_at(const char *server, const void *request);

/* What the service has for a request of that type. */
const service_method *method_for(const void *request, const service **ret);

/* n requests of one type in one FCALL (harness_call_together). */
void ask_together(size_t n, const void *const requests[], const void *responses[], lks_error errors[]);

/* How many FCALLs the store had since the last look. */
long fcalls_made(void);

/* Splits `copy`, of LINE_BYTES, into the words of a text; gives how many there are, WORDS_MAX at most. */
enum { WORDS_MAX = 80 };
size_t words(const char *from, char *copy, char **word);

/* "T1" is short for a token as long as it must be. */
char *token_of(const char *alias);

/* ---- answers as text ---- */

/* "STORED", "STORED again": outcome and replayed, of a response that has them; else "OK". Of NULL what `err` says:
 * "INVALID_ARGUMENT NO scope: ...". Like all lines it lives until 64 others were asked for. */
char *line_of(const void *response);

/* Whether the request is taken: "OK", or the error. */
const char *call(const void *request);

/* An empty line. */
char *new_line(void);

/* Adds to a line; to a text of that size. */
#define add_line(line, ...) add(line, LINE_BYTES, __VA_ARGS__)
void add(char *to, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* ---- checks ---- */

#define says(said, expected) assert_string_equal(said, expected)

/* For an answer of which the rest does not matter, or may be one of several. */
void says_begin(const char *said, const char *expected);

/* The last request failed with the code, changed nothing, and says the field first. */
void expect_error(lks_code code, const char *field);

/* Remembers all keys; fails unless they are the same again. */
void remember(void);
void expect_unchanged(void);

/* The request is INVALID_ARGUMENT, names the field first, and changes nothing since remember(). */
void refuses(const void *request, const char *field);

/* `r`, a copy of a good request, with one member spoilt, is refused. */
#define REFUSES(r, good, member, value, field) ((r) = (good), (r).member = (value), refuses(&(r), field))

/* The same for bytes sent as a method of a service; the field stands anywhere in the text. */
void refuses_bytes(const service *s, const char *method, const char *bytes, size_t len, const char *field);

/* Whether a time left is what it should be, less the little that the test took. */
void about(int64_t left_ms, int64_t expected_ms);

void pass_seconds(int64_t seconds);

#endif
