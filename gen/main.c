/* protoc-gen-lockstock, a plugin of protoc: reads a CodeGeneratorRequest from stdin and writes a
 * CodeGeneratorResponse to stdout. Errors in a .proto go into the response, which then has no files. Errors in the
 * request go to stderr, with an exit status. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockstock/version.h>

#include "build.h"
#include "emit.h"
#include "json_names.h"
#include "protobuf_c.h"
#include "repair.h"

static const emit_part *const parts[] = {&emit_types, &emit_client, &emit_server};
enum { N_PARTS = sizeof parts / sizeof *parts };

/* A text that is written to memory. The owner frees it. */
typedef struct output {
    FILE *stream;
    char *text;
    size_t len;
} output;

static bool output_open(output *out)
{
    out->stream = open_memstream(&out->text, &out->len);
    return out->stream;
}

static bool output_close(output *out)
{
    bool failed = ferror(out->stream) != 0;
    return fclose(out->stream) == 0 && !failed;
}

static bool read_request(plugin_request **ret)
{
    output in = {0};
    char buffer[1 << 16];
    if (!output_open(&in))
        return false;
    for (size_t len; (len = fread(buffer, 1, sizeof buffer, stdin)) > 0;)
        fwrite(buffer, 1, len, in.stream);
    bool whole = output_close(&in) && ferror(stdin) == 0;
    *ret = whole ? google__protobuf__compiler__code_generator_request__unpack(NULL, in.len, (const uint8_t *)in.text)
                 : NULL;
    free(in.text);
    return *ret;
}

/* Chooses the parts that the parameter names, separated by commas; all if it is empty. */
static void choose_parts(gen_model *model, const char *parameter, bool chosen[N_PARTS])
{
    bool all = !parameter || *parameter == '\0';
    for (size_t i = 0; i < N_PARTS; i++)
        chosen[i] = all;
    for (const char *word = parameter; !all && word;) {
        size_t len = strcspn(word, ",");
        bool known = false;
        for (size_t i = 0; i < N_PARTS; i++)
            if (strlen(parts[i]->name) == len && memcmp(parts[i]->name, word, len) == 0)
                chosen[i] = known = true;
        if (!known)
            model_error(model, "--lockstock_opt", "\"%.*s\" must be types, client or server", (int)len, word);
        word = word[len] == ',' ? word + len + 1 : NULL;
    }
}

static void add_text(plugin_response *made, gen_pool *pool, const char *name, const char *text)
{
    plugin_file *file = pool_alloc(pool, 1, sizeof *file);
    google__protobuf__compiler__code_generator_response__file__init(file);
    file->name = pool_format(pool, "%s", name);
    file->content = pool_format(pool, "%s", text);
    made->file[made->n_file++] = file;
}

static bool add_repaired(plugin_response *made, gen_pool *pool, const plugin_request *in, const plugin_file *file)
{
    output out = {0};
    const char *text = json_names_add(pool, in, file->content);
    if (!text || !output_open(&out))
        return false;
    repair_write(out.stream, text);
    bool whole = output_close(&out);
    if (whole)
        add_text(made, pool, file->name, out.text);
    free(out.text);
    return whole;
}

static bool add_ours(plugin_response *made, gen_pool *pool, const gen_file *file, const emit_part *part, char ending)
{
    output out = {0};
    if (!output_open(&out))
        return false;
    (ending == 'h' ? part->header : part->source)(out.stream, file);
    bool whole = output_close(&out);
    if (whole)
        add_text(made, pool, pool_format(pool, "%s%s.%c", file->stem, part->suffix, ending), out.text);
    free(out.text);
    return whole;
}

/* Returns NULL, or why it failed. */
static const char *add_files(plugin_response *made, const gen_model *model, const plugin_request *in,
                             const bool chosen[N_PARTS])
{
    gen_pool *pool = model->pool;
    plugin_response *base = NULL;
    const char *failure = chosen[0] ? protobuf_c_run(pool, in, &base) : NULL;
    if (failure)
        return failure;
    size_t n_base = !base ? 0 : base->n_file;
    made->file = pool_alloc(pool, n_base + 2 * N_PARTS * model->n_files, sizeof *made->file);
    bool whole = true;
    for (size_t i = 0; i < n_base; i++)
        whole &= add_repaired(made, pool, in, base->file[i]);
    if (base && base->error && *base->error != '\0')
        made->error = pool_format(pool, "protoc-gen-c: %s", base->error);
    google__protobuf__compiler__code_generator_response__free_unpacked(base, NULL);
    if (!whole)
        return "out of memory";

    for (size_t i = 0; i < model->n_files; i++) {
        for (size_t j = 0; j < N_PARTS; j++) {
            const gen_file *file = &model->files[i];
            if (file->wanted && chosen[j] &&
                !(add_ours(made, pool, file, parts[j], 'h') && add_ours(made, pool, file, parts[j], 'c')))
                return "out of memory";
        }
    }
    return NULL;
}

static bool write_response(gen_pool *pool, const plugin_response *made)
{
    size_t len = google__protobuf__compiler__code_generator_response__get_packed_size(made);
    uint8_t *bytes = pool_alloc(pool, len, 1);
    google__protobuf__compiler__code_generator_response__pack(made, bytes);
    return fwrite(bytes, 1, len, stdout) == len && fflush(stdout) == 0;
}

/* Returns NULL, or why there is no response. */
static const char *run(gen_pool *pool, const plugin_request *in)
{
    bool chosen[N_PARTS];
    output errors = {0};
    if (!output_open(&errors))
        return "out of memory";
    gen_model model = {.pool = pool, .errors = errors.stream};
    choose_parts(&model, in->parameter, chosen);
    model_build(&model, in);

    plugin_response made = GOOGLE__PROTOBUF__COMPILER__CODE_GENERATOR_RESPONSE__INIT;
    const char *failure = output_close(&errors) ? NULL : "out of memory";
    if (!failure && errors.len > 0) {
        errors.text[errors.len - 1] = '\0';
        made.error = errors.text;
    } else if (!failure) {
        failure = add_files(&made, &model, in, chosen);
    }
    if (!failure && !write_response(pool, &made))
        failure = "cannot write the response";
    free(errors.text);
    return failure;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        puts("protoc-gen-lockstock " LOCKSTOCK_VERSION);
        return EXIT_SUCCESS;
    }
    if (argc > 1) {
        fputs("protoc-gen-lockstock is run by protoc: protoc --lockstock_out=DIR FILE.proto\n", stderr);
        return EXIT_FAILURE;
    }
    gen_pool pool = {0};
    plugin_request *in = NULL;
    const char *failure = read_request(&in) ? run(&pool, in) : "stdin is not a CodeGeneratorRequest";
    if (failure)
        fprintf(stderr, "protoc-gen-lockstock: %s\n", failure);
    google__protobuf__compiler__code_generator_request__free_unpacked(in, NULL);
    pool_free(&pool);
    return !failure ? EXIT_SUCCESS : EXIT_FAILURE;
}
