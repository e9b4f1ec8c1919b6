/* Enums and messages, also nested ones, in the order of protoc-c: outer before inner. */
#include <string.h>

#include "mangle.h"
#include "build.h"
#include "options.h"

typedef Google__Protobuf__DescriptorProto message_proto;
typedef Google__Protobuf__EnumDescriptorProto enum_proto;
typedef Google__Protobuf__FieldDescriptorProto field_proto;

/* Field numbers of descriptor.proto, for source paths. */
enum {
    FILE_MESSAGE = 4,
    FILE_ENUM = 5,
    MESSAGE_FIELD = 2,
    MESSAGE_NESTED = 3,
    MESSAGE_ENUM = 4,
    ENUM_VALUE = 2,
};

enum { PATH_MAX_DEPTH = 128 };

/* The position of the walk: in the file, or in a message. */
typedef struct gen_scope {
    gen_model *model;
    gen_file *file;
    const char *full_name; /* "shop.v1", "shop.v1.Order"; may be empty */
    const char *c_name;    /* relative to the file: "", "Order" */
    const char *outer;     /* the c_name around it */
    int32_t path[PATH_MAX_DEPTH];
    size_t depth;
} gen_scope;

static const char *join(gen_pool *pool, const char *outer, const char *name)
{
    return *outer == '\0' ? name : pool_format(pool, "%s.%s", outer, name);
}

/* Returns the scope of element `index` of `field` in `outer`. */
static gen_scope enter(const gen_scope *outer, int32_t field, size_t index, const char *name)
{
    gen_pool *pool = outer->model->pool;
    gen_scope inner = *outer;
    inner.full_name = join(pool, outer->full_name, name);
    inner.c_name = join(pool, outer->c_name, name);
    inner.outer = outer->c_name;
    if (outer->depth + 2 <= PATH_MAX_DEPTH) {
        inner.path[inner.depth++] = field;
        inner.path[inner.depth++] = (int32_t)index;
    }
    return inner;
}

static const char *comment_at(const gen_scope *scope)
{
    return model_comment(scope->model, scope->file, scope->path, scope->depth);
}

static const char *at(const gen_scope *scope, const char *kind)
{
    return model_at(scope->model, scope->file, scope->path, scope->depth, kind, scope->full_name);
}

/* Returns the length of the prefix with the name of the enum, which is 12 for ORDER_STATE_OPEN of OrderState; 0
 * unless all values have it. */
static size_t common_prefix(gen_pool *pool, const enum_proto *proto)
{
    const char *prefix = pool_format(pool, "%s_", mangle_upper(pool, mangle_snake(pool, proto->name)));
    size_t len = strlen(prefix);
    for (size_t i = 0; i < proto->n_value; i++)
        if (strncmp(proto->value[i]->name, prefix, len) != 0 || proto->value[i]->name[len] == '\0')
            return 0;
    return len;
}

static void build_enum(const gen_scope *here, const enum_proto *proto)
{
    gen_pool *pool = here->model->pool;
    gen_file *file = here->file;
    const char *pb_upper = mangle_pb_upper(pool, here->full_name);
    const char *where = at(here, "enum");
    const char *name = pool_format(pool, "%s_%s", file->prefix, mangle_snake(pool, here->c_name));
    gen_enum *made = &file->enums[file->n_enums++];
    *made = (gen_enum){
        .at = where,
        .file = file,
        .outer = mangle_upper(pool, mangle_snake(pool, here->outer)),
        .full_name = here->full_name,
        .proto = proto,
        .name = model_define(here->model, file, where, name),
        .name_name = model_define(here->model, file, where, pool_format(pool, "%s_name", name)),
        .pb_name = mangle_pb_type(pool, here->full_name),
        .comment = comment_at(here),
        .n_values = proto->n_value,
        .values = pool_alloc(pool, proto->n_value, sizeof *made->values),
    };
    size_t prefix = common_prefix(pool, proto);
    for (size_t i = 0; i < proto->n_value; i++) {
        const char *value_name = proto->value[i]->name;
        gen_scope value = enter(here, ENUM_VALUE, i, value_name);
        made->values[i] = (gen_constant){
            .name = mangle_upper(pool, value_name), /* name_values adds the prefix */
            .pb_name = pool_format(pool, "%s__%s", pb_upper, value_name),
            .comment = comment_at(&value),
            .at = at(&value, "enum value"),
            .word = value_name + prefix,
        };
    }
}

/* Returns the comment of a message, with a paragraph for each field that has a comment. */
static const char *message_comment(const gen_scope *here, const message_proto *proto)
{
    gen_pool *pool = here->model->pool;
    const char *comment = comment_at(here);
    bool first = true;
    for (size_t i = 0; i < proto->n_field; i++) {
        gen_scope field = enter(here, MESSAGE_FIELD, i, proto->field[i]->name);
        const char *text = comment_at(&field);
        if (text) {
            const char *gap = !comment ? "" : first ? "\n\n" : "\n";
            comment = pool_format(pool, "%s%s%s: %s", !comment ? "" : comment, gap, proto->field[i]->name, text);
            first = false;
        }
    }
    return comment;
}

static bool is_plain_bool(const field_proto *field)
{
    return field->type == GOOGLE__PROTOBUF__FIELD_DESCRIPTOR_PROTO__TYPE__TYPE_BOOL && !field->has_oneof_index &&
           field->label != GOOGLE__PROTOBUF__FIELD_DESCRIPTOR_PROTO__LABEL__LABEL_REPEATED;
}

/* Returns the name of the field with the option first_try, or NULL. */
static const char *find_first_try(const gen_scope *here, const message_proto *proto)
{
    const char *found = NULL;
    for (size_t i = 0; i < proto->n_field; i++) {
        gen_scope field = enter(here, MESSAGE_FIELD, i, proto->field[i]->name);
        const char *problem = NULL;
        bool is_set;
        if (!options_of_field(proto->field[i]->options, &is_set))
            problem = "(lockstock.rpc.v1.first_try) is not a bool: another option has its number";
        else if (is_set && !is_plain_bool(proto->field[i]))
            problem = "(lockstock.rpc.v1.first_try) is for one bool field, outside of a oneof";
        else if (is_set && found)
            problem = "(lockstock.rpc.v1.first_try) is already set on another field of the message";
        else if (is_set)
            found = proto->field[i]->name;
        if (problem && here->file->wanted)
            model_error(here->model, at(&field, "field"), "%s", problem);
    }
    return found;
}

static void build_message(const gen_scope *here, const message_proto *proto)
{
    gen_pool *pool = here->model->pool;
    gen_file *file = here->file;
    const char *where = at(here, "message");
    const char *name = pool_format(pool, "%s_%s", file->prefix, mangle_snake(pool, here->c_name));
    gen_message *made = &file->messages[file->n_messages++];
    *made = (gen_message){
        .at = where,
        .full_name = here->full_name,
        .file = file,
        .proto = proto,
        .name = model_define(here->model, file, where, name),
        .init = model_define(here->model, file, where, pool_format(pool, "%s_INIT", mangle_upper(pool, name))),
        .pb_name = mangle_pb_type(pool, here->full_name),
        .pb_init = pool_format(pool, "%s__INIT", mangle_pb_upper(pool, here->full_name)),
        .pb_descriptor = pool_format(pool, "%s__descriptor", mangle_pb_lower(pool, here->full_name)),
        .comment = message_comment(here, proto),
        .first_try = find_first_try(here, proto),
        .path = memcpy(pool_alloc(pool, here->depth, sizeof *here->path), here->path, here->depth * sizeof *here->path),
        .depth = here->depth,
    };
    for (size_t i = 0; i < proto->n_enum_type; i++) {
        gen_scope inner = enter(here, MESSAGE_ENUM, i, proto->enum_type[i]->name);
        build_enum(&inner, proto->enum_type[i]);
    }
    for (size_t i = 0; i < proto->n_nested_type; i++) {
        gen_scope inner = enter(here, MESSAGE_NESTED, i, proto->nested_type[i]->name);
        build_message(&inner, proto->nested_type[i]);
    }
}

static bool share_a_name(const gen_enum *a, const gen_enum *b)
{
    for (size_t i = 0; i < a->n_values; i++)
        for (size_t j = 0; j < b->n_values; j++)
            if (strcmp(a->values[i].name, b->values[j].name) == 0)
                return true;
    return false;
}

/* Constants of a nested enum get the name of the message if another enum of the file has a value of the same name. */
static void name_values(gen_model *model, const gen_file *file)
{
    bool *longer = pool_alloc(model->pool, file->n_enums, sizeof *longer);
    for (size_t i = 0; i < file->n_enums; i++)
        for (size_t j = 0; j < file->n_enums && *file->enums[i].outer != '\0'; j++)
            longer[i] |= j != i && share_a_name(&file->enums[i], &file->enums[j]);
    for (size_t i = 0; i < file->n_enums; i++) {
        const gen_enum *of = &file->enums[i];
        for (size_t j = 0; j < of->n_values; j++) {
            gen_constant *value = &of->values[j];
            value->name = pool_format(model->pool, "%s_%s%s%s", file->upper, longer[i] ? of->outer : "",
                                      longer[i] ? "_" : "", value->name);
            model_define(model, file, value->at, value->name);
        }
    }
}

static size_t count_messages(size_t n, message_proto *const *protos)
{
    size_t total = n;
    for (size_t i = 0; i < n; i++)
        total += count_messages(protos[i]->n_nested_type, protos[i]->nested_type);
    return total;
}

static size_t count_enums(size_t n, message_proto *const *protos)
{
    size_t total = 0;
    for (size_t i = 0; i < n; i++)
        total += protos[i]->n_enum_type + count_enums(protos[i]->n_nested_type, protos[i]->nested_type);
    return total;
}

void types_build(gen_model *model, gen_file *file)
{
    const Google__Protobuf__FileDescriptorProto *proto = file->proto;
    size_t n_messages = count_messages(proto->n_message_type, proto->message_type);
    size_t n_enums = proto->n_enum_type + count_enums(proto->n_message_type, proto->message_type);
    file->messages = pool_alloc(model->pool, n_messages, sizeof *file->messages);
    file->enums = pool_alloc(model->pool, n_enums, sizeof *file->enums);

    gen_scope top = {
        .model = model, .file = file, .full_name = !proto->package ? "" : proto->package, .c_name = "", .outer = ""};
    for (size_t i = 0; i < proto->n_enum_type; i++) {
        gen_scope inner = enter(&top, FILE_ENUM, i, proto->enum_type[i]->name);
        build_enum(&inner, proto->enum_type[i]);
    }
    for (size_t i = 0; i < proto->n_message_type; i++) {
        gen_scope inner = enter(&top, FILE_MESSAGE, i, proto->message_type[i]->name);
        build_message(&inner, proto->message_type[i]);
    }
    name_values(model, file);
}
