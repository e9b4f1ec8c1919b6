/* Finds the known word that is most similar to a misspelt one, for messages with "did you mean". */
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

#endif
