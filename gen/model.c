#include "model.h"

#include <stdarg.h>
#include <stdint.h>
#include <string.h>

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
    /* A space after the slashes, and blanks at the end of a line, are not part of the text. */
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

const char *model_define(gen_model *model, const gen_file *file, const char *at, const char *name)
{
    return names_add(&model->names, model->pool, name, at, file->wanted);
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
