#include "machine/glob.h"

/* Whether a set, whose '[' is at *at, has the byte; moves *at past its ']', or to the end without one. */
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

/* Whether the pattern's next part, which is not a star, matches the byte; moves *at past it. */
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
    const char *behind_star = NULL, *star_text = NULL; /* after the last star, and the current end of the text that
                                                        * it covers */

    while (c < text_end) {
        if (at < end && *at == '*') {
            behind_star = ++at;
            star_text = c;
        } else if (at < end && matches_byte(&at, end, (unsigned char)*c)) {
            c++;
        } else if (behind_star) {
            at = behind_star;
            c = ++star_text;
        } else {
            return false;
        }
    }
    while (at < end && *at == '*')
        at++;
    return at == end;
}
