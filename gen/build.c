#include "build.h"

#include <string.h>

#include "mangle.h"
#include "options.h"

/* The names of the library begin with lks: a message Error would become lks_error. */
static bool prefix_is_reserved(const char *prefix, const char *package)
{
    bool library = strcmp(prefix, "lks") == 0 || strncmp(prefix, "lks_", 4) == 0;
    bool ours = strcmp(package, "lockstock") == 0 || strncmp(package, "lockstock.", 10) == 0;
    return library && !ours;
}

/* The path is in comments and #include lines of the generated files, including those of protoc-c. */
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
        model_error(model, path, "(lockstock.rpc.v1.c_prefix) is not a C identifier that begins with a letter: \"%s\"",
                    file->prefix);
    } else if (prefix_is_reserved(file->prefix, package)) {
        model_error(model, path, "(lockstock.rpc.v1.c_prefix) \"%s\" is reserved for the library", file->prefix);
    }
    if (options.pb_c_file)
        model_error(model, path, "option (pb_c_file) changes names that the generated code uses");
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
