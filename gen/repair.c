/* The text is split into comments, literals, words and the rest. */
#include "repair.h"

#include <string.h>

#include "mangle.h"

enum { TRIGRAPH = 3 };

size_t repair_trigraph(const char *text)
{
    return text[0] == '?' && text[1] == '?' && text[2] != '\0' && strchr("=/'()!<>-", text[2]) ? TRIGRAPH : 0;
}

/* Writes a comment or a literal, with `between` inside trigraphs. Returns the rest of the text. */
static const char *write_closed(FILE *out, const char *at, const char *end, const char *between)
{
    size_t len = strlen(end);
    const char *begin = at;
    for (; *at != '\0'; at++) {
        if (at > begin && strncmp(at, end, len) == 0) {
            fputs(end, out);
            return at + len;
        }
        fputc(*at, out);
        if (*at == '\\' && at[1] != '\0' && *begin == '"')
            fputc(*++at, out);
        else if (repair_trigraph(at) > 0)
            fputs(between, out);
    }
    return at;
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static bool is(const char *word, size_t len, const char *what)
{
    return strlen(what) == len && memcmp(word, what, len) == 0;
}

/* Returns whether a word ends the declaration of a member, or an offsetof. */
static bool is_member(const char *next)
{
    static const char attribute[] = "PROTOBUF_C__DEPRECATED";
    return *next == ';' || *next == ')' || strncmp(next, attribute, sizeof attribute - 1) == 0;
}

/* `before` is the character before the word. */
static void write_word(FILE *out, const char *word, size_t len, char before)
{
    const char *next = word + len + strspn(word + len, " ");
    bool is_value = before != '\0' && strchr(",=-{", before) && *next != ')';
    if (is_value && is(word, len, "inf"))
        fputs("__builtin_inff()", out);
    else if (is_value && is(word, len, "nan"))
        fputs("__builtin_nanf(\"\")", out);
    else if (before == '-' && is(word, len, "9223372036854775808ll"))
        fputs("9223372036854775807ll - 1", out); /* C has no constant that could be negated to this number */
    else
        fprintf(out, "%.*s%s", (int)len, word, is_member(next) && mangle_is_left_by_protobuf_c(word, len) ? "_" : "");
}

/* Writes the initialiser of the next union of a message. *from is the struct of the message, or the text after its
 * last union. */
static void write_initialiser(FILE *out, const char **from)
{
    static const char begin[] = "union {\n", bytes[] = "ProtobufCBinaryData ";
    const char *first = *from ? strstr(*from, begin) : NULL;
    if (first)
        *from = first += sizeof begin - 1;
    bool is_struct = first && strncmp(first + strspn(first, " "), bytes, sizeof bytes - 1) == 0;
    fputs(is_struct ? "{{0, NULL}}" : "{0}", out);
}

void repair_write(FILE *out, const char *text)
{
    char before = '\0';
    const char *message = NULL;
    for (const char *at = text; *at != '\0';) {
        size_t len = 0;
        if (strncmp(at, "/*", 2) == 0) {
            at = write_closed(out, at, "*/", " ");
            continue;
        }
        if (*at == '"') {
            at = write_closed(out, at, "\"", "\\");
            before = '"';
            continue;
        }
        if (strncmp(at, "{0}", 3) == 0) {
            write_initialiser(out, &message);
            at += 3;
            continue;
        }
        while (is_word(at[len]))
            len++;
        if (is(at, len, "struct"))
            message = at;
        if (len > 0)
            write_word(out, at, len, before);
        else
            fputc(*at, out);
        before = len > 0 ? at[len - 1] : strchr(" \\\n", *at) ? before : *at;
        at += len > 0 ? len : 1;
    }
}
