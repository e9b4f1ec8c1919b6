/* A message is gathered as rows of cells, then printed with columns as wide as their widest cell. */
#include "answer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/base64.h"
#include "rpc/json/field.h"
#include "rpc/json/json.h"
#include "base/duration.h"
#include "words.h"

/* Outcomes that are not refusals, besides the first value of each enum. */
static const char *const agreeing[] = {"BEGIN_OUTCOME_REPLAY", "ENTER_OUTCOME_REPLAY",
                                       "REFUND_OUTCOME_ALREADY_REFUNDED"};

static bool outcome_refuses(const ProtobufCEnumDescriptor *type, int value)
{
    const ProtobufCEnumValue *known = protobuf_c_enum_descriptor_get_value(type, value);

    for (size_t i = 0; known && i < sizeof agreeing / sizeof *agreeing; i++)
        if (strcmp(known->name, agreeing[i]) == 0)
            return false;
    return value > 1;
}

bool answer_refuses(const ProtobufCMessage *message)
{
    const field_descriptor *outcome = protobuf_c_message_descriptor_get_field_by_name(message->descriptor, "outcome");
    const field_descriptor *results = protobuf_c_message_descriptor_get_field_by_name(message->descriptor, "results");

    if (outcome && outcome->type == PROTOBUF_C_TYPE_ENUM)
        return outcome_refuses(outcome->descriptor, *(const int *)field_member(message, outcome));
    if (!results || results->label != PROTOBUF_C_LABEL_REPEATED || results->type != PROTOBUF_C_TYPE_MESSAGE)
        return false;
    for (size_t i = 0; i < *(const size_t *)field_quantifier(message, results); i++)
        if (answer_refuses((*(ProtobufCMessage ***)field_member(message, results))[i]))
            return true;
    return false;
}

void answer_print_json(const ProtobufCMessage *message, bool indent, lks_rpc_arena *arena)
{
    const lks_rpc_json_options options = {.defaults = true, .indent = indent};
    lks_rpc_slice text;

    if (lks_rpc_json_print(message, &options, arena, &text, NULL) == LKS_OK)
        printf("%.*s\n", (int)text.len, text.data);
}

exit_code answer_print_line(json_t *json, unsigned digits)
{
    char *text = json ? json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(digits)) : NULL;
    exit_code code = text ? EXIT_DONE : EXIT_OTHER;

    if (text)
        printf("%s\n", text);
    else
        exits_wrong("--json", "the answer cannot be written as JSON");
    free(text);
    json_decref(json);
    return code;
}

/* ---- values ------------------------------------------------------------------ */

const char *answer_printable(const char *text, lks_rpc_arena *arena)
{
    size_t size = strlen(text) + 1;
    char *copy = lks_rpc_arena_alloc(arena, size);

    if (copy)
        words_printable(text, copy, size);
    return copy ? copy : "";
}

/* -1: never, or not known. */
static void write_duration(const field_descriptor *field, int64_t ms, char word[WORDS_BYTES])
{
    if (ms < 0)
        snprintf(word, WORDS_BYTES, "%s", strcmp(field->name, "retry_after_ms") == 0 ? "never" : "unknown");
    else
        duration_write(ms, word);
}

/* Returns bytes as text if they are printable text, else as base64. */
static const char *bytes_text(const ProtobufCBinaryData *bytes, lks_rpc_arena *arena)
{
    char *text = lks_rpc_arena_copy(arena, bytes->data, bytes->len);
    char *shown = text ? lks_rpc_arena_alloc(arena, bytes->len + 1) : NULL;

    if (!shown)
        return "";
    words_printable(text, shown, bytes->len + 1);
    if (strlen(text) == bytes->len && strcmp(text, shown) == 0)
        return text;
    char *encoded = lks_rpc_arena_alloc(arena, BASE64_ENCODED_BYTES(bytes->len) + 1);
    if (encoded)
        base64_encode(bytes->data, bytes->len, encoded);
    return encoded ? encoded : "";
}

/* Returns the text of a value, in the arena; "" when out of memory. */
static const char *answer_text(const field_descriptor *field, const void *value, lks_rpc_arena *arena)
{
    char word[WORDS_BYTES] = "";

    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
        return answer_printable(*(const char *const *)value, arena);
    case PROTOBUF_C_TYPE_BYTES:
        return bytes_text(value, arena);
    case PROTOBUF_C_TYPE_ENUM:
        words_of_enum(field->descriptor, *(const int *)value, word);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        snprintf(word, sizeof word, "%s", *(const protobuf_c_boolean *)value ? "yes" : "no");
        break;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        if (words_is_duration(field))
            write_duration(field, *(const int64_t *)value, word);
        else
            snprintf(word, sizeof word, "%" PRId64, *(const int64_t *)value);
        break;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        snprintf(word, sizeof word, "%" PRIu64, *(const uint64_t *)value);
        break;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        snprintf(word, sizeof word, "%" PRIu32, *(const uint32_t *)value);
        break;
    case PROTOBUF_C_TYPE_FLOAT:
        snprintf(word, sizeof word, "%g", (double)*(const float *)value);
        break;
    case PROTOBUF_C_TYPE_DOUBLE:
        snprintf(word, sizeof word, "%g", *(const double *)value);
        break;
    default:
        snprintf(word, sizeof word, "%" PRId32, *(const int32_t *)value);
        break;
    }
    const char *text = lks_rpc_arena_copy(arena, word, strlen(word));
    return text ? text : "";
}

/* Returns whether a value is left out: empty text, a zero duration, false. A number 0 is printed. */
static bool is_silent(const field_descriptor *field, const void *value)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
        return **(const char *const *)value == '\0';
    case PROTOBUF_C_TYPE_BYTES:
        return ((const ProtobufCBinaryData *)value)->len == 0;
    case PROTOBUF_C_TYPE_BOOL:
    case PROTOBUF_C_TYPE_ENUM:
        return *(const int *)value == 0;
    default:
        return words_is_duration(field) && *(const int64_t *)value == 0;
    }
}

/* ---- columns ------------------------------------------------------------------ */

enum { COLUMNS_MAX = 24, PREFIX_BYTES = 96 };

static void print_cell(const char *text, size_t width, bool last)
{
    size_t used = words_width(text);

    printf("%s", text);
    if (!last)
        printf("%*s", (int)(width > used ? width - used + 2 : 2), "");
}

typedef struct pair {
    const char *name, *text;
} pair;

typedef struct pairs {
    lks_rpc_arena *arena;
    pair *of;
    size_t n, room;
} pairs;

static void add_pair(pairs *all, const char *prefix, const field_descriptor *field, const char *text)
{
    char word[WORDS_BYTES];

    if (all->n == all->room) {
        size_t room = all->room ? 2 * all->room : 32;
        pair *of = lks_rpc_arena_alloc(all->arena, room * sizeof *of);
        if (!of)
            return;
        if (all->n > 0)
            memcpy(of, all->of, all->n * sizeof *of);
        all->of = of;
        all->room = room;
    }
    words_of_field(field, word);
    const char *name = lks_rpc_arena_printf(all->arena, "%s%s", prefix, word);
    all->of[all->n++] = (pair){.name = name ? name : "", .text = text};
}

static bool is_list(const field_descriptor *field)
{
    return field->label == PROTOBUF_C_LABEL_REPEATED && field->type == PROTOBUF_C_TYPE_MESSAGE;
}

static void add_message(pairs *all, const ProtobufCMessage *message, const char *prefix);

static void add_field(pairs *all, const ProtobufCMessage *message, const field_descriptor *field, const char *prefix)
{
    const void *value = field_member(message, field);
    char inner[PREFIX_BYTES], word[WORDS_BYTES];

    if (field_in_oneof(field) && *(const uint32_t *)field_quantifier(message, field) != field->id)
        return;
    if (field->label == PROTOBUF_C_LABEL_REPEATED) {
        const char *elements = *(char **)(uintptr_t)value;
        for (size_t i = 0; i < *(const size_t *)field_quantifier(message, field); i++)
            add_pair(all, prefix, field,
                     answer_text(field, elements + i * lks_rpc_field_size(field->type), all->arena));
    } else if (field->type != PROTOBUF_C_TYPE_MESSAGE) {
        if (!is_silent(field, value))
            add_pair(all, prefix, field, answer_text(field, value, all->arena));
    } else if (*(const ProtobufCMessage *const *)value) {
        words_of_field(field, word);
        snprintf(inner, sizeof inner, "%.40s%.40s ", prefix, word);
        /* If the answer is one message, its fields need no prefix. */
        add_message(all, *(const ProtobufCMessage *const *)value,
                    message->descriptor->n_fields <= 3 && !*prefix && field == &message->descriptor->fields[0] ? ""
                                                                                                               : inner);
    }
}

static void add_message(pairs *all, const ProtobufCMessage *message, const char *prefix)
{
    for (unsigned i = 0; i < message->descriptor->n_fields; i++)
        if (!is_list(&message->descriptor->fields[i]) &&
            strcmp(message->descriptor->fields[i].name, "next_page_token") != 0)
            add_field(all, message, &message->descriptor->fields[i], prefix);
}

static void print_pairs(const pairs *all)
{
    size_t width = 0;

    for (size_t i = 0; i < all->n; i++)
        if (words_width(all->of[i].name) > width)
            width = words_width(all->of[i].name);
    for (size_t i = 0; i < all->n; i++) {
        bool repeated = i > 0 && strcmp(all->of[i].name, all->of[i - 1].name) == 0;
        print_cell(repeated ? "" : all->of[i].name, width, false);
        print_cell(all->of[i].text, 0, true);
        printf("\n");
    }
}

/* ---- tables ------------------------------------------------------------------ */

/* Returns a message of a table in one cell: "limit=10 period=1s". */
static const char *inline_text(const ProtobufCMessage *message, lks_rpc_arena *arena)
{
    pairs all = {.arena = arena};
    const char *text = "";

    add_message(&all, message, "");
    for (size_t i = 0; i < all.n && text; i++)
        text = lks_rpc_arena_printf(arena, "%s%s%s=%s", text, i > 0 ? " " : "", all.of[i].name, all.of[i].text);
    return text ? text : "";
}

static const char *list_text(const ProtobufCMessage *message, const field_descriptor *field, lks_rpc_arena *arena)
{
    const char *elements = *(char **)field_member(message, field), *text = "";

    for (size_t i = 0; i < *(const size_t *)field_quantifier(message, field) && text; i++) {
        const char *at = elements + i * lks_rpc_field_size(field->type);
        const char *one = field->type == PROTOBUF_C_TYPE_MESSAGE
                              ? inline_text(*(const ProtobufCMessage *const *)(const void *)at, arena)
                              : answer_text(field, at, arena);
        text = lks_rpc_arena_printf(arena, "%s%s%s", text, i > 0 ? ", " : "", one);
    }
    return text ? text : "";
}

static const char *cell_text(const ProtobufCMessage *element, const field_descriptor *field, lks_rpc_arena *arena)
{
    const void *value = field_member(element, field);

    if (field->label == PROTOBUF_C_LABEL_REPEATED)
        return list_text(element, field, arena);
    if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
        const ProtobufCMessage *inner = *(const ProtobufCMessage *const *)value;
        return inner ? inline_text(inner, arena) : "";
    }
    return is_silent(field, value) ? "" : answer_text(field, value, arena);
}

static void print_table(const ProtobufCMessageDescriptor *type, ProtobufCMessage *const *elements, size_t n,
                        lks_rpc_arena *arena)
{
    const char **cells = lks_rpc_arena_alloc(arena, (n + 1) * COLUMNS_MAX * sizeof *cells);
    unsigned n_columns = type->n_fields < COLUMNS_MAX ? type->n_fields : COLUMNS_MAX, last = 0;
    size_t width[COLUMNS_MAX] = {0};

    if (!cells)
        return;
    for (unsigned c = 0; c < n_columns; c++) {
        char word[WORDS_BYTES];
        words_of_field(&type->fields[c], word);
        words_upper(word);
        const char *name = lks_rpc_arena_copy(arena, word, strlen(word));
        cells[c] = name ? name : "";
        for (size_t i = 0; i < n; i++) {
            const char *text = cell_text(elements[i], &type->fields[c], arena);
            cells[(i + 1) * COLUMNS_MAX + c] = text;
            if (words_width(text) > width[c])
                width[c] = words_width(text);
        }
        if (width[c] > 0) /* an empty column is left out */
            last = c;
        if (width[c] > 0 && words_width(word) > width[c])
            width[c] = words_width(word);
    }
    for (size_t i = 0; i <= n; i++, printf("\n"))
        for (unsigned c = 0; c <= last && c < n_columns; c++)
            if (width[c] > 0)
                print_cell(cells[i * COLUMNS_MAX + c], width[c], c == last);
}

/* Prints the lists of a message and of its inner messages. `printed`: something was printed before. */
static bool print_lists(const ProtobufCMessage *message, bool printed, lks_rpc_arena *arena)
{
    for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
        const field_descriptor *field = &message->descriptor->fields[i];
        void *value = field_member(message, field);
        if (field->type != PROTOBUF_C_TYPE_MESSAGE ||
            (field_in_oneof(field) && *(uint32_t *)field_quantifier(message, field) != field->id))
            continue;
        if (!is_list(field)) {
            if (*(ProtobufCMessage **)value)
                printed = print_lists(*(ProtobufCMessage **)value, printed, arena);
            continue;
        }
        size_t n = *(size_t *)field_quantifier(message, field);
        if (n > 0 && printed)
            printf("\n");
        if (n > 0)
            print_table(field->descriptor, *(ProtobufCMessage ***)value, n, arena);
        printed = printed || n > 0;
    }
    return printed;
}

void answer_print(const ProtobufCMessage *message, lks_rpc_arena *arena)
{
    pairs all = {.arena = arena};

    add_message(&all, message, "");
    print_pairs(&all);
    print_lists(message, all.n > 0, arena);
}
