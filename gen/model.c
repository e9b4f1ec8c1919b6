/* The model is built in two passes over all files, types before services, since
 * a method's messages may stand in any of them. */
#include "model.h"

#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include "mangle.h"
#include "options.h"

typedef Google__Protobuf__SourceCodeInfo__Location proto_location;

static const proto_location *find_location(const gen_file *file, const int32_t *path, size_t depth)
{
    const Google__Protobuf__SourceCodeInfo *info = file->proto->source_code_info;
    for (size_t i = 0; info && i < info->n_location; i++) {
        const proto_location *at = info->location[i];
        if (at->n_path == depth && (depth == 0 || memcmp(at->path, path, depth * sizeof *path) == 0))
            return at;
    }
    return NULL;
}

const char *model_at(const gen_model *model, const gen_file *file, const int32_t *path, size_t depth, const char *kind,
                     const char *full_name)
{
    const proto_location *at = find_location(file, path, depth);
    int line = at && at->n_span > 0 ? at->span[0] + 1 : 0;
    if (line == 0)
        return pool_format(model->pool, "%s: %s %s", file->proto->name, kind, full_name);
    return pool_format(model->pool, "%s:%d: %s %s", file->proto->name, line, kind, full_name);
}

const char *model_comment(const gen_model *model, const gen_file *file, const int32_t *path, size_t depth)
{
    const proto_location *at = find_location(file, path, depth);
    const char *raw = !at ? NULL : at->leading_comments ? at->leading_comments : at->trailing_comments;
    if (!raw)
        return NULL;
    /* One space after the slashes is layout, and so is what ends a line. */
    char *clean = pool_alloc(model->pool, strlen(raw) + 1, 1);
    char *out = clean;
    for (const char *line = raw; *line != '\0';) {
        size_t len = strcspn(line, "\n");
        const char *next = line + len + (line[len] == '\n');
        if (len > 0 && *line == ' ') {
            line++;
            len--;
        }
        while (len > 0 && strchr(" \t\r", line[len - 1]))
            len--;
        memcpy(out, line, len);
        out += len;
        *out++ = '\n';
        line = next;
    }
    while (out > clean && out[-1] == '\n')
        *--out = '\0';
    size_t blank = strspn(clean, "\n");
    return clean[blank] == '\0' ? NULL : clean + blank;
}

void model_error(gen_model *model, const char *at, const char *format, ...)
{
    va_list args;
    fprintf(model->errors, "%s: ", at);
    va_start(args, format);
    vfprintf(model->errors, format, args);
    va_end(args);
    fputc('\n', model->errors);
}

gen_message *model_find_message(const gen_model *model, const char *type_name)
{
    for (size_t i = 0; i < model->n_files && type_name && *type_name == '.'; i++) {
        const gen_file *file = &model->files[i];
        for (size_t j = 0; j < file->n_messages; j++)
            if (strcmp(file->messages[j].full_name, type_name + 1) == 0)
                return &file->messages[j];
    }
    return NULL;
}

const gen_enum *model_find_enum(const gen_model *model, const char *type_name)
{
    for (size_t i = 0; i < model->n_files && type_name && *type_name == '.'; i++) {
        const gen_file *file = &model->files[i];
        for (size_t j = 0; j < file->n_enums; j++)
            if (strcmp(file->enums[j].full_name, type_name + 1) == 0)
                return &file->enums[j];
    }
    return NULL;
}

/* The library's own names begin with lks: a message Error would become lks_error. */
static bool prefix_is_reserved(const char *prefix, const char *package)
{
    bool library = strcmp(prefix, "lks") == 0 || strncmp(prefix, "lks_", 4) == 0;
    bool ours = strcmp(package, "lockstock") == 0 || strncmp(package, "lockstock.", 10) == 0;
    return library && !ours;
}

/* The path stands in comments and in #include lines of what is generated, by protoc-c too. */
static void check_path(gen_model *model, const gen_file *file)
{
    const char *path = file->proto->name;
    bool ends = strstr(path, "*/") || strstr(path, "/*");

    for (const char *c = path; *c != '\0'; c++)
        ends |= *c == '"' || *c == '\\' || (unsigned char)*c < ' ' || *c == 0x7f;
    if (file->wanted && ends) {
        model_error(model, path,
                    "the path must not contain */, /*, a quotation mark, a backslash or a control character");
    }
}

static void file_names(gen_model *model, gen_file *file)
{
    const char *path = file->proto->name;
    const char *package = !file->proto->package ? "" : file->proto->package;
    size_t len = strlen(path);
    size_t ending = len > 6 && strcmp(path + len - 6, ".proto") == 0 ? 6 : 0;
    file->stem = pool_format(model->pool, "%.*s", (int)(len - ending), path);
    file->guard = mangle_guard(model->pool, path);

    file_options options;
    if (!options_of_file(file->proto->options, model->pool, &options) && file->wanted)
        model_error(model, path, "(lockstock.rpc.v1.c_prefix) is not a string: another option has its number");
    file->prefix =
        options.c_prefix && *options.c_prefix != '\0' ? options.c_prefix : mangle_package(model->pool, package);
    file->upper = mangle_upper(model->pool, file->prefix);
    if (!file->wanted)
        return;
    if (*file->prefix == '\0') {
        model_error(model, path, "has neither a package nor (lockstock.rpc.v1.c_prefix): C names need one");
    } else if (!mangle_is_prefix(file->prefix)) {
        model_error(model, path, "(lockstock.rpc.v1.c_prefix) is no C identifier that begins with a letter: \"%s\"",
                    file->prefix);
    } else if (prefix_is_reserved(file->prefix, package)) {
        model_error(model, path, "(lockstock.rpc.v1.c_prefix) \"%s\" is the library's own", file->prefix);
    }
    if (options.pb_c_file)
        model_error(model, path, "option (pb_c_file) changes the names that the generated code stands on");
}

void model_build(gen_model *model, const Google__Protobuf__Compiler__CodeGeneratorRequest *request)
{
    model->n_files = request->n_proto_file;
    model->files = pool_alloc(model->pool, model->n_files, sizeof *model->files);
    for (size_t i = 0; i < model->n_files; i++) {
        gen_file *file = &model->files[i];
        file->proto = request->proto_file[i];
        for (size_t j = 0; j < request->n_file_to_generate; j++)
            file->wanted |= strcmp(request->file_to_generate[j], file->proto->name) == 0;
        check_path(model, file);
        file_names(model, file);
        types_build(model, file);
    }
    for (size_t i = 0; i < model->n_files; i++) {
        members_build(model, &model->files[i]);
        services_build(model, &model->files[i]);
        descriptors_build(model, &model->files[i]);
    }
    names_clashes(&model->names, model->pool, model->errors);
}
