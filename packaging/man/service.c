/* Pages of section 7: a service, its methods, and their messages and enums. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cli/catalog.h"
#include "cli/comments.h"
#include "cli/form.h"
#include "scd.h"

enum { TYPES_MAX = 64 };

/* Messages and enums in the order in which they were found. */
typedef struct met {
    const comments *all;
    const void *messages[TYPES_MAX], *enums[TYPES_MAX]; /* descriptors */
    size_t n_messages, n_enums;
} met;

static void meet(const void **types, size_t *n, const void *type)
{
    for (size_t i = 0; i < *n; i++)
        if (types[i] == type)
            return;
    if (*n < TYPES_MAX)
        types[(*n)++] = type;
}

static const char *short_name(const char *full)
{
    const char *dot = strrchr(full, '.');

    return dot ? dot + 1 : full;
}

static const char *type_of(met *m, const ProtobufCFieldDescriptor *field)
{
    static const char *const names[] = {
        [PROTOBUF_C_TYPE_INT32] = "int32",   [PROTOBUF_C_TYPE_SINT32] = "sint32", [PROTOBUF_C_TYPE_INT64] = "int64",
        [PROTOBUF_C_TYPE_UINT32] = "uint32", [PROTOBUF_C_TYPE_UINT64] = "uint64", [PROTOBUF_C_TYPE_BOOL] = "bool",
        [PROTOBUF_C_TYPE_STRING] = "string", [PROTOBUF_C_TYPE_BYTES] = "bytes",   [PROTOBUF_C_TYPE_DOUBLE] = "double",
    };

    if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
        const ProtobufCMessageDescriptor *type = field->descriptor;
        meet(m->messages, &m->n_messages, type);
        return type->short_name;
    }
    if (field->type == PROTOBUF_C_TYPE_ENUM) {
        const ProtobufCEnumDescriptor *type = field->descriptor;
        meet(m->enums, &m->n_enums, type);
        return type->short_name;
    }
    const char *name = (size_t)field->type < sizeof names / sizeof *names ? names[field->type] : NULL;
    return name ? name : "number";
}

static void print_fields(met *m, const ProtobufCMessageDescriptor *type)
{
    for (unsigned i = 0; i < type->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &type->fields[i];
        char form[WORDS_BYTES];
        snprintf(form, sizeof form, "%s%s", field->label == PROTOBUF_C_LABEL_REPEATED ? "list of " : "",
                 type_of(m, field));
        scd_item(field->name, form, comments_of(m->all, type->name, strlen(type->name), field->name));
    }
}

static void print_method(met *m, const lks_rpc_method *method)
{
    static const char *const effects[] = {"", "It changes nothing (READ).",
                                          "It changes state on behalf of its caller (WRITE).",
                                          "It overrides other callers, or is for administrators (ADMIN)."};
    catalog_name name = catalog_split(method);
    char form[512];

    printf("## %s\n\n", name.method);
    form_usage(method, form, sizeof form);
    printf("*lockstock* ");
    scd_words(form);
    printf("\n\n");
    scd_text(comments_of(m->all, name.service, name.service_len, name.method), 0);
    printf("\n%s\n", effects[method->effect]);
    printf("\nThe request, %s%s\n\n", short_name(method->request->name),
           method->request->n_fields > 0 ? ":" : ", is empty.");
    print_fields(m, method->request);
    printf("The answer, %s%s\n\n", short_name(method->response->name),
           method->response->n_fields > 0 ? ":" : ", is empty.");
    print_fields(m, method->response);
}

static void print_type(const met *m, const char *name)
{
    const char *comment = comments_of(m->all, name, strlen(name), NULL);

    printf("## %s\n\n", short_name(name));
    if (*comment) {
        scd_text(comment, 0);
        printf("\n");
    }
}

/* The loops include types that are found during the loops. */
static void print_types(met *m)
{
    if (m->n_messages > 0)
        printf("# MESSAGES\n\n");
    for (size_t i = 0; i < m->n_messages; i++) {
        const ProtobufCMessageDescriptor *type = m->messages[i];
        print_type(m, type->name);
        print_fields(m, type);
    }
    if (m->n_enums > 0)
        printf("# ENUMS\n\n");
    for (size_t i = 0; i < m->n_enums; i++) {
        const ProtobufCEnumDescriptor *type = m->enums[i];
        print_type(m, type->name);
        for (unsigned v = 0; v < type->n_values; v++)
            scd_item(type->values[v].name, "",
                     comments_of(m->all, type->name, strlen(type->name), type->values[v].name));
    }
}

int man_service(const char *service)
{
    const lks_rpc_method *first = catalog_find(service, NULL);
    met m = {.all = comments_new()};

    if (!first || !m.all) {
        fprintf(stderr, "lockstock-man: %s: %s\n", service, first ? "out of memory" : "no such service");
        return 1;
    }
    catalog_name its = catalog_split(first);
    int len = (int)its.service_len;
    printf("lockstock-%s(7)\n\n# NAME\n\nlockstock-%s - %.*s of lockstockd\n\n", service, service, len, its.service);
    printf("# DESCRIPTION\n\n");
    scd_text(comments_of(m.all, its.service, its.service_len, NULL), 0);
    printf("\nIts methods are called with *lockstock*(1), and from any language by gRPC. Times are in milliseconds; on "
           "the "
           "command line they have units.\n\n# METHODS\n\n");
    for (size_t i = 0; i < catalog_len; i++) {
        catalog_name one = catalog_split(catalog[i]);
        if (one.service_len == its.service_len && memcmp(one.service, its.service, its.service_len) == 0)
            print_method(&m, catalog[i]);
    }
    print_types(&m);
    printf("# SEE ALSO\n\n*lockstock*(1), *lockstockd*(8)\n");
    comments_free((comments *)m.all);
    return 0;
}
