/* A store that keeps its calls until the test answers them. Main thread only.
 *
 *     asked_expect(&s, "lock_promote ls:{ns/g}: name");   the next question: function, base, arguments
 *     asked_answer(&s, "OK 5");                           its reply, or asked_fail
 *
 * A question about a part of the store is "function@slot" and arguments. A reply is an array of words: 5 is an
 * integer, any other word and what is in '' a string, [] a nested array, - is nil; a reply that begins with = is one
 * value, no array. */
#ifndef LOCKSTOCK_TESTS_ASKED_STORE_H
#define LOCKSTOCK_TESTS_ASKED_STORE_H

#include <uv.h>

#include "store/store.h"
#include "test.h"

enum { ASKED_MAX = 600, ASKED_TEXT_BYTES = 512 };

struct store {
    uv_loop_t *loop;
    struct asked {
        const store_call *call;
        uint64_t deadline_ns;
        store_done *done; /* NULL: it was answered */
        void *arg;
    } asked[ASKED_MAX];
    size_t n, answered; /* questions are answered in order, except by asked_answer_at */
    uint32_t n_parts;   /* at the slots 0, 10, 20...; 0 is 1 */
};

/* The next question; runs the loop until there is one. The text is valid until the next call. */
const char *asked_next(store *s);
void asked_expect(store *s, const char *text);

/* Nothing is asked that was not answered, also after a turn of the loop. */
void asked_expect_none(store *s);

void asked_answer(store *s, const char *words);
void asked_answer_at(store *s, size_t i, const char *words);
void asked_answer_with(store *s, size_t i, const store_result *result);
void asked_fail(store *s, lks_code code);

#endif
