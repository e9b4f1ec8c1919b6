/* Invariant: if `best` is not empty, `distance` is its distance from `word`. */
#include "base/similar.h"

#include <stdio.h>
#include <string.h>

/* Returns the Levenshtein distance of two words of fewer than SIMILAR_BYTES bytes. */
static size_t distance(const char *a, const char *b)
{
    size_t row[SIMILAR_BYTES], len = strlen(b);

    for (size_t j = 0; j <= len; j++)
        row[j] = j;
    for (size_t i = 0; a[i]; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < len; j++) {
            size_t replaced = diagonal + (a[i] != b[j]), above = row[j + 1], left = row[j];
            size_t changed = (above < left ? above : left) + 1;
            diagonal = above;
            row[j + 1] = replaced < changed ? replaced : changed;
        }
    }
    return row[len];
}

void similar_offer(similar *s, const char *candidate)
{
    size_t len = strlen(s->word);

    if (len >= SIMILAR_BYTES || strlen(candidate) >= SIMILAR_BYTES)
        return;
    size_t found = distance(s->word, candidate), most = len < 4 ? 1 : 2;
    if (found > most || (s->best[0] && found >= s->distance))
        return;
    s->distance = found;
    strcpy(s->best, candidate);
}

const char *similar_question(const similar *s, char question[2 * SIMILAR_BYTES])
{
    question[0] = '\0';
    if (s->best[0])
        snprintf(question, 2 * SIMILAR_BYTES, ", did you mean %s?", s->best);
    return question;
}
