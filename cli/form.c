#include "form.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "catalog.h"
#include "request.h"
#include "words.h"

typedef struct text {
    char *at;
    size_t size, n;
} text;

__attribute__((format(printf, 2, 3))) static void add(text *t, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    int n = vsnprintf(t->at + t->n, t->size - t->n, format, args);
    va_end(args);
    t->n += n > 0 ? (size_t)n : 0;
    if (t->n >= t->size)
        t->n = t->size - 1;
}

static void add_enum(text *t, const ProtobufCEnumDescriptor *of)
{
    char word[WORDS_BYTES];

    for (unsigned i = 0, n = 0; i < of->n_values; i++)
        if (of->values[i].value != 0) {
            words_of_enum(of, of->values[i].value, word);
            add(t, "%s%s", n++ > 0 ? "|" : "", word);
        }
}

/* Writes SKU=QUANTITY for two fields, else the first field and the others with their names. */
static void add_message(text *t, const ProtobufCMessageDescriptor *type)
{
    char word[WORDS_BYTES];

    for (unsigned i = 0; i < type->n_fields; i++) {
        words_of_field(&type->fields[i], word);
        if (type->n_fields == 2 || i == 0)
            words_upper(word);
        add(t, "%s%s%s",
            i == 0                ? ""
            : type->n_fields == 2 ? "="
                                  : ",",
            word, type->n_fields > 2 && i > 0 ? "=..." : "");
    }
}

void form_of_field(const ProtobufCFieldDescriptor *field, char *form, size_t size)
{
    text t = {.at = form, .size = size};

    form[0] = '\0';
    if (words_is_duration(field))
        add(&t, "TIME");
    else if (field->type == PROTOBUF_C_TYPE_STRING)
        add(&t, "TEXT");
    else if (field->type == PROTOBUF_C_TYPE_BYTES)
        add(&t, "TEXT|@FILE");
    else if (field->type == PROTOBUF_C_TYPE_ENUM)
        add_enum(&t, field->descriptor);
    else if (field->type == PROTOBUF_C_TYPE_MESSAGE)
        add_message(&t, field->descriptor);
    else if (field->type != PROTOBUF_C_TYPE_BOOL)
        add(&t, "NUMBER");
}

void form_usage(const lks_rpc_method *method, char *form, size_t size)
{
    char service[WORDS_BYTES], name[WORDS_BYTES];
    text t = {.at = form, .size = size};

    catalog_words(method, service, name);
    add(&t, "%s %s", service, name);
    for (unsigned i = 0; i < REQUEST_POSITIONS; i++) {
        const ProtobufCFieldDescriptor *field = request_position(method->request, i);
        char word[WORDS_BYTES];
        if (!field)
            break;
        words_of_flag(field, word);
        words_upper(word);
        bool repeated = field->label == PROTOBUF_C_LABEL_REPEATED;
        add(&t, " [%s%s]", word, repeated ? "..." : "");
        if (repeated)
            break;
    }
    add(&t, " [--FLAG VALUE]...");
}
