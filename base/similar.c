/* Invariant: `distance` is that of `best`, or one above what is similar at all. */
#include "base/similar.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PREFIX "LOCKSTOCK_"

/* Levenshtein's: characters to leave out, to add or to replace. Both have fewer than SIMILAR_BYTES. */
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

void similar_variable(const char *setting, char variable[SIMILAR_BYTES])
{
    snprintf(variable, SIMILAR_BYTES, PREFIX "%s", setting);
    for (char *c = variable; *c; c++)
        *c = *c == '-' ? '_' : *c >= 'a' && *c <= 'z' ? (char)(*c - 'a' + 'A') : *c;
}

bool similar_misspelt_variable(similar_setting *setting, similar *s)
{
    for (char **variable = environ; *variable; variable++) {
        char name[SIMILAR_BYTES], known[SIMILAR_BYTES];
        size_t len = strcspn(*variable, "=");
        if (strncmp(*variable, PREFIX, strlen(PREFIX)) != 0 || len >= sizeof name)
            continue;
        memcpy(name, *variable, len);
        name[len] = '\0';
        *s = (similar){.word = name};
        for (size_t i = 0; setting(i); i++) {
            similar_variable(setting(i), known);
            similar_offer(s, known);
        }
        s->word = *variable;
        if (s->best[0] && s->distance > 0)
            return true;
    }
    return false;
}
