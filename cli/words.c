/* Names in descriptors are ASCII. */
#include "words.h"

#include <stdio.h>
#include <string.h>

#include <lockstock/rpc/utf8.h>

static void append(char word[WORDS_BYTES], size_t *n, char c)
{
    if (*n + 1 < WORDS_BYTES)
        word[(*n)++] = c;
    word[*n] = '\0';
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c == '_' ? '-' : c;
}

void words_of_camel(const char *name, size_t len, char word[WORDS_BYTES])
{
    size_t n = 0;

    word[0] = '\0';
    for (size_t i = 0; i < len; i++) {
        if (i > 0 && name[i] >= 'A' && name[i] <= 'Z')
            append(word, &n, '-');
        append(word, &n, lower(name[i]));
    }
}

void words_upper(char *word)
{
    for (; *word; word++)
        *word = *word >= 'a' && *word <= 'z' ? (char)(*word - 'a' + 'A') : *word;
}

/* ---- fields ------------------------------------------------------------------- */

static bool ends_with(const char *text, const char *end)
{
    size_t len = strlen(text), end_len = strlen(end);

    return len > end_len && strcmp(text + len - end_len, end) == 0;
}

bool words_is_duration(const ProtobufCFieldDescriptor *field)
{
    return field->type == PROTOBUF_C_TYPE_INT64 && ends_with(field->name, "_ms") && strcmp(field->name, "at_ms") != 0;
}

void words_of_field(const ProtobufCFieldDescriptor *field, char word[WORDS_BYTES])
{
    size_t n = 0, len = strlen(field->name) - (words_is_duration(field) ? strlen("_ms") : 0);

    word[0] = '\0';
    for (size_t i = 0; i < len; i++)
        append(word, &n, lower(field->name[i]));
}

void words_of_flag(const ProtobufCFieldDescriptor *field, char word[WORDS_BYTES])
{
    words_of_field(field, word);
    size_t len = strlen(word);
    if (field->label == PROTOBUF_C_LABEL_REPEATED && len > 1 && word[len - 1] == 's')
        word[len - 1] = '\0';
}

static bool is_word(const char *word, size_t len, const char *name, size_t name_len)
{
    if (len != name_len)
        return false;
    for (size_t i = 0; i < len; i++)
        if (word[i] != lower(name[i]))
            return false;
    return true;
}

bool words_mean_field(const char *word, size_t len, const ProtobufCFieldDescriptor *field)
{
    const char *name = field->name;
    size_t name_len = strlen(name);

    return is_word(word, len, name, name_len) || (words_is_duration(field) && is_word(word, len, name, name_len - 3)) ||
           (ends_with(name, "_id") && is_word(word, len, name, name_len - 3)) ||
           (field->label == PROTOBUF_C_LABEL_REPEATED && ends_with(name, "s") &&
            is_word(word, len, name, name_len - 1));
}

/* ---- enums -------------------------------------------------------------------- */

/* Returns the length of the common prefix of the names, such as "LOCK_MODE_". */
static size_t prefix_len(const ProtobufCEnumDescriptor *type)
{
    static const char unspecified[] = "UNSPECIFIED";
    const ProtobufCEnumValue *zero = protobuf_c_enum_descriptor_get_value(type, 0);

    return zero && ends_with(zero->name, unspecified) ? strlen(zero->name) - strlen(unspecified) : 0;
}

void words_of_enum(const ProtobufCEnumDescriptor *type, int value, char word[WORDS_BYTES])
{
    const ProtobufCEnumValue *known = protobuf_c_enum_descriptor_get_value(type, value);
    size_t n = 0;

    if (!known) {
        snprintf(word, WORDS_BYTES, "%d", value);
        return;
    }
    word[0] = '\0';
    for (const char *c = known->name + prefix_len(type); *c; c++)
        append(word, &n, lower(*c));
}

bool words_find_enum(const ProtobufCEnumDescriptor *type, const char *word, int *ret)
{
    for (unsigned i = 0; i < type->n_values; i++) {
        char known[WORDS_BYTES];
        words_of_enum(type, type->values[i].value, known);
        if (strcmp(known, word) != 0 && strcmp(type->values[i].name, word) != 0)
            continue;
        *ret = type->values[i].value;
        return true;
    }
    return false;
}

/* ---- text -------------------------------------------------------------------- */

/* Returns the bytes of the character at `text`, or 0 if it cannot be printed. */
static size_t character(const char *text)
{
    unsigned char c = (unsigned char)*text;
    size_t len = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;

    if (c < ' ' || c == 0x7f || strnlen(text, len) < len || !lks_rpc_utf8_valid(text, len))
        return 0;
    if (c == 0xc2 && (unsigned char)text[1] < 0xa0) /* control characters above ASCII */
        return 0;
    return len;
}

void words_printable(const char *text, char *to, size_t size)
{
    size_t n = 0;

    while (*text) {
        size_t len = character(text);
        if (n + (len ? len : 1) >= size)
            break;
        memcpy(to + n, len ? text : "?", len ? len : 1);
        n += len ? len : 1;
        text += len ? len : 1;
    }
    to[n] = '\0';
}

/* Blocks of characters with no column (marks and joiners) or two (W and F in Unicode's EastAsianWidth.txt). */
static size_t columns_of(const char *text, size_t len)
{
    static const struct {
        uint32_t first, last;
        unsigned char columns;
    } blocks[] = {{0x300, 0x36f, 0},     {0x1100, 0x115f, 2},  {0x200b, 0x200f, 0}, {0x20d0, 0x20ff, 0},
                  {0x2e80, 0x303e, 2},   {0x3041, 0xa4cf, 2},  {0xac00, 0xd7a3, 2}, {0xf900, 0xfaff, 2},
                  {0xfe00, 0xfe0f, 0},   {0xfe30, 0xfe6f, 2},  {0xff00, 0xff60, 2}, {0xffe0, 0xffe6, 2},
                  {0x1f300, 0x1faff, 2}, {0x20000, 0x3fffd, 2}};
    uint32_t c = (unsigned char)text[0] & (len > 1 ? 0xffU >> (len + 1) : 0x7fU);

    for (size_t i = 1; i < len; i++)
        c = c << 6 | ((unsigned char)text[i] & 0x3fU);
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        if (c >= blocks[i].first && c <= blocks[i].last)
            return blocks[i].columns;
    return 1;
}

/* Returns the bytes that fit into the columns, and in *ret the columns that they take. */
static size_t walk(const char *text, size_t columns, size_t *ret)
{
    size_t n = 0, len, more;

    for (*ret = 0; text[n]; n += len, *ret += more) {
        len = character(text + n);
        len = len ? len : 1;
        more = columns_of(text + n, len);
        if (*ret + more > columns)
            break;
    }
    return n;
}

size_t words_width(const char *text)
{
    size_t columns;

    walk(text, SIZE_MAX, &columns);
    return columns;
}

size_t words_fitting(const char *text, size_t columns)
{
    size_t used;

    return walk(text, columns, &used);
}
