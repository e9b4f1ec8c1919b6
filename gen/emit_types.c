/* STEM.lks.{h,c}: names for the types of protoc-c, and the method table. Used by clients and servers. */
#include "emit.h"

static void emit_constant(FILE *out, const gen_constant *constant)
{
    emit_comment(out, "", constant->comment);
    fprintf(out, "#define %s %s\n", constant->name, constant->pb_name);
}

static void emit_enum(FILE *out, const gen_enum *type)
{
    fputc('\n', out);
    emit_comment(out, "", type->comment);
    fprintf(out, "typedef %s %s;\n", type->pb_name, type->name);
    for (size_t i = 0; i < type->n_values; i++)
        emit_constant(out, &type->values[i]);
    fprintf(out, "const char *%s(%s value);\n", type->name_name, type->name);
}

static void emit_setter(FILE *out, const gen_message *message, const gen_setter *setter)
{
    if (setter->deprecated)
        fputs("#pragma GCC diagnostic push\n#pragma GCC diagnostic ignored \"-Wdeprecated-declarations\"\n"
              "PROTOBUF_C__DEPRECATED\n",
              out);
    fprintf(out, "static inline void %s(%s *message, %svalue)\n{\n", setter->name, message->name, setter->type);
    fprintf(out, "    message->%s = value;\n", setter->member);
    fprintf(out, "    message->%s = %s;\n}\n", setter->chosen, setter->pb_case);
    if (setter->deprecated)
        fputs("#pragma GCC diagnostic pop\n", out);
}

/* The setters follow all types, because they use them. */
static void emit_setters(FILE *out, const gen_file *file)
{
    bool first = true;
    for (size_t i = 0; i < file->n_messages; i++) {
        const gen_message *message = &file->messages[i];
        for (size_t j = 0; j < message->n_setters; j++) {
            fputc('\n', out);
            if (first)
                emit_comment(
                    out, "",
                    "Each setter sets a member of a oneof and the case of the oneof. It stores `value` without a\n"
                    "copy, and does not free the previous value.");
            first = false;
            emit_setter(out, message, &message->setters[j]);
        }
    }
}

static void emit_message(FILE *out, const gen_message *message)
{
    fputc('\n', out);
    emit_comment(out, "", message->comment);
    fprintf(out, "typedef %s %s;\n", message->pb_name, message->name);
    fprintf(out, "#define %s %s\n", message->init, message->pb_init);
    for (size_t i = 0; i < message->n_cases; i++)
        emit_constant(out, &message->cases[i]);
}

static void emit_service(FILE *out, const gen_service *service)
{
    fputc('\n', out);
    emit_comment(out, "", service->comment);
    fprintf(out, "#define %s_METHODS(X)", service->upper);
    for (size_t i = 0; i < service->n_methods; i++) {
        const gen_method *method = &service->methods[i];
        fprintf(out, " \\\n    X(%s, %s, %s, %s, %s)", method->name, method->proto_name, method->request->name,
                method->response->name, method->constant);
    }
    fputs("\n", out);
    for (size_t i = 0; i < service->n_methods; i++) {
        const gen_method *method = &service->methods[i];
        fputc('\n', out);
        emit_comment(out, "", method->comment);
        fprintf(out, "extern const lks_rpc_method %s;\n", method->constant);
    }
}

static void emit_header(FILE *out, const gen_file *file)
{
    emit_header_begin(out, file, &emit_types);
    fputs("#include <lockstock/rpc/method.h>\n\n", out);
    fprintf(out, "#include \"%s.pb-c.h\"\n", file->stem);
    for (size_t i = 0; i < file->n_imports; i++)
        fprintf(out, "#include \"%s%s.h\"\n", file->imports[i]->stem, emit_types.suffix);
    emit_extern_c_begin(out);
    for (size_t i = 0; i < file->n_enums; i++)
        emit_enum(out, &file->enums[i]);
    for (size_t i = 0; i < file->n_messages; i++)
        emit_message(out, &file->messages[i]);
    emit_setters(out, file);
    for (size_t i = 0; i < file->n_services; i++)
        emit_service(out, &file->services[i]);
    emit_header_end(out);
}

static void emit_undo(FILE *out, const gen_method *method)
{
    fprintf(out, "    .undo = &(const lks_rpc_undo){\n        .method = &%s,\n        .n_fields = %zu,\n", method->undo,
            method->undo_option->n_fields);
    fputs("        .fields = (const lks_rpc_undo_field[]){\n", out);
    for (size_t i = 0; i < method->undo_option->n_fields; i++) {
        const Lockstock__Rpc__V1__UndoField *field = method->undo_option->fields[i];
        fprintf(out, "            {.field = \"%s\", .from = (const char *const[]){", field->field);
        for (size_t j = 0; j < field->n_from; j++)
            fprintf(out, "\"%s\", ", field->from[j]);
        fputs("NULL}},\n", out);
    }
    fputs("        },\n    },\n", out);
}

static void emit_method(FILE *out, const gen_method *method)
{
    fprintf(out, "\nconst lks_rpc_method %s = {\n", method->constant);
    fprintf(out, "    .path = \"%s\",\n", method->path);
    fprintf(out, "    .request = &%s,\n", method->request->pb_descriptor);
    fprintf(out, "    .response = &%s,\n", method->response->pb_descriptor);
    fprintf(out, "    .effect = %s,\n", method->effect);
    if (method->natural_id)
        fprintf(out, "    .natural_id = \"%s\",\n", method->natural_id);
    fprintf(out, "    .fill = %s,\n", method->fill);
    if (method->settles)
        fprintf(out, "    .settles = true,\n");
    if (method->coalesce)
        fprintf(out, "    .coalesce = true,\n");
    if (method->request->first_try)
        fprintf(out, "    .first_try = \"%s\",\n", method->request->first_try);
    if (method->undo)
        emit_undo(out, method);
    fputs("};\n", out);
}

static bool is_reported(const gen_enum *type, size_t value)
{
    for (size_t i = 0; i < value; i++)
        if (type->proto->value[i]->number == type->proto->value[value]->number)
            return true;
    return false;
}

/* Of several values with the same number, the first gives the name. */
static void emit_name(FILE *out, const gen_enum *type)
{
    fprintf(out, "\nconst char *%s(%s value)\n{\n    switch ((int)value) {\n", type->name_name, type->name);
    for (size_t i = 0; i < type->n_values; i++)
        if (!is_reported(type, i))
            fprintf(out, "    case %s:\n        return \"%s\";\n", type->values[i].pb_name, type->values[i].word);
    fputs("    default:\n        return \"UNKNOWN\";\n    }\n}\n", out);
}

static void emit_source(FILE *out, const gen_file *file)
{
    emit_source_begin(out, file, &emit_types);
    for (size_t i = 0; i < file->n_enums; i++)
        emit_name(out, &file->enums[i]);
    for (size_t i = 0; i < file->n_services; i++)
        for (size_t j = 0; j < file->services[i].n_methods; j++)
            emit_method(out, &file->services[i].methods[j]);
}

const emit_part emit_types = {.name = "types", .suffix = ".lks", .header = emit_header, .source = emit_source};
