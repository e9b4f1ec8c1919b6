#include "machine/glob.h"

/* Returns whether the set that begins with the '[' at *at has the byte. Moves *at past the ']', or to the end if there
 * is none. */
static bool set_has(const char **at, const char *end, unsigned char byte)
{
    const char *c = *at + 1;
    bool is_not = c < end && *c == '^', has = false;

    if (is_not)
        c++;
    while (c < end && *c != ']') {
        if (*c == '\\' && c + 1 < end)
            c++;
        unsigned char first = (unsigned char)*c, last = first;
        if (end - c > 2 && c[1] == '-') {
            last = (unsigned char)c[2];
            c += 2;
        }
        has = has || (first <= last ? byte >= first && byte <= last : byte >= last && byte <= first);
        c++;
    }
    *at = c < end ? c + 1 : end;
    return has != is_not;
}

/* Returns whether the next part of the pattern, which is not a star, matches the byte. Moves *at past that part. */
static bool matches_byte(const char **at, const char *end, unsigned char byte)
{
    if (**at == '[')
        return set_has(at, end, byte);
    if (**at == '?') {
        ++*at;
        return true;
    }
    if (**at == '\\' && end - *at > 1)
        ++*at;
    return (unsigned char)*(*at)++ == byte;
}

bool glob_matches(const char *pattern, size_t pattern_len, const char *text, size_t text_len)
{
    const char *at = pattern, *end = pattern + pattern_len;
    const char *c = text, *text_end = text + text_len;
    const char *after_star = NULL; /* in the pattern: the last star */
    const char *star_text = NULL;  /* the end of the text that it covers so far */

    while (c < text_end) {
        if (at < end && *at == '*') {
            after_star = ++at;
            star_text = c;
        } else if (at < end && matches_byte(&at, end, (unsigned char)*c)) {
            c++;
        } else if (after_star) {
            at = after_star;
            c = ++star_text;
        } else {
            return false;
        }
    }
    while (at < end && *at == '*')
        at++;
    return at == end;
}
