/* What a misspelt word may have meant: "did you mean". Used by lockstock and lockstockd. */
#ifndef LOCKSTOCK_BASE_SIMILAR_H
#define LOCKSTOCK_BASE_SIMILAR_H

#include <stdbool.h>
#include <stddef.h>

enum { SIMILAR_BYTES = 64 };

/* Begins as {.word = word}. */
typedef struct similar {
    const char *word;
    size_t distance;
    char best[SIMILAR_BYTES]; /* the most similar candidate so far; "" = none is similar */
} similar;

/* Offers a candidate. A candidate is similar when at most two characters (in a short word, one) were left out, added or
 * replaced. */
void similar_offer(similar *s, const char *candidate);

/* ", did you mean BEST?", or "" when nothing is similar. */
const char *similar_question(const similar *s, char question[2 * SIMILAR_BYTES]);

/* The i-th setting of a program; NULL: there are no more. */
typedef const char *similar_setting(size_t i);

/* The name of the variable that sets a setting: LOCKSTOCK_TLS_KEY of tls-key. */
void similar_variable(const char *setting, char variable[SIMILAR_BYTES]);

/* Looks for a variable LOCKSTOCK_* that sets no setting but is similar to one that does. Variables that are not similar to
 * any may be another program's. False: none; else *s has the variable, which is the environment's, and what it may mean. */
bool similar_misspelt_variable(similar_setting *setting, similar *s);

#endif
