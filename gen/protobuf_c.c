/* protoc-c gets the files without services, for which it generates unused code that does not compile if a method is
 * named Return or Register. An option makes strings `const char *`, so that literals need no cast. */
#include "protobuf_c.h"

#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Adds `(pb_c_file).const_strings = true` to the options of a file. */
static Google__Protobuf__FileOptions *with_const_strings(gen_pool *pool, const Google__Protobuf__FileOptions *given)
{
    enum { PB_C_FILE = 1019, CONST_STRINGS = 4 };
    static uint8_t option[] = {2, CONST_STRINGS << 3, true}; /* its length, and a bool field */
    Google__Protobuf__FileOptions *options = pool_alloc(pool, 1, sizeof *options);
    google__protobuf__file_options__init(options);
    if (given)
        *options = *given;
    size_t n = options->base.n_unknown_fields;
    ProtobufCMessageUnknownField *unknown = pool_alloc(pool, n + 1, sizeof *unknown);
    if (n > 0)
        memcpy(unknown, options->base.unknown_fields, n * sizeof *unknown);
    unknown[n] = (ProtobufCMessageUnknownField){
        .tag = PB_C_FILE, .wire_type = PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED, .len = sizeof option, .data = option};
    options->base.unknown_fields = unknown;
    options->base.n_unknown_fields = (unsigned)n + 1;
    return options;
}

static uint8_t *pack_for_child(gen_pool *pool, const plugin_request *request, size_t *len)
{
    size_t n = request->n_proto_file;
    Google__Protobuf__FileDescriptorProto *files = pool_alloc(pool, n, sizeof *files);
    Google__Protobuf__FileDescriptorProto **pointers = pool_alloc(pool, n, sizeof *pointers);
    for (size_t i = 0; i < n; i++) {
        files[i] = *request->proto_file[i];
        files[i].n_service = 0;
        files[i].options = with_const_strings(pool, files[i].options);
        pointers[i] = &files[i];
    }
    plugin_request without = *request;
    without.proto_file = pointers;
    without.parameter = NULL;
    *len = google__protobuf__compiler__code_generator_request__get_packed_size(&without);
    uint8_t *bytes = pool_alloc(pool, *len, 1);
    google__protobuf__compiler__code_generator_request__pack(&without, bytes);
    return bytes;
}

/* Uses files instead of pipes, so that the processes cannot block each other. */
static bool run_child(FILE *in, FILE *out)
{
    char name[] = "protoc-gen-c";
    char *argv[] = {name, NULL};
    posix_spawn_file_actions_t actions;
    if (posix_spawn_file_actions_init(&actions) != 0)
        return false;
    pid_t child;
    int status = -1;
    bool ran = posix_spawn_file_actions_adddup2(&actions, fileno(in), STDIN_FILENO) == 0 &&
               posix_spawn_file_actions_adddup2(&actions, fileno(out), STDOUT_FILENO) == 0 &&
               posix_spawnp(&child, name, &actions, NULL, argv, environ) == 0 && waitpid(child, &status, 0) == child;
    posix_spawn_file_actions_destroy(&actions);
    return ran && status == 0;
}

const char *protobuf_c_run(gen_pool *pool, const plugin_request *request, plugin_response **ret)
{
    const char *failure = "cannot write a temporary file";
    size_t len;
    const uint8_t *bytes = pack_for_child(pool, request, &len);
    FILE *in = tmpfile(), *out = tmpfile();
    if (!in || !out || fwrite(bytes, 1, len, in) != len || fflush(in) != 0)
        goto cleanup;
    rewind(in);
    failure = "protoc-gen-c (of protobuf-c) does not run: is it on PATH?";
    if (!run_child(in, out) || fseek(out, 0, SEEK_END) != 0)
        goto cleanup;
    long size = ftell(out);
    rewind(out);
    failure = "protoc-gen-c did not return a CodeGeneratorResponse";
    uint8_t *answer = pool_alloc(pool, size < 0 ? 0 : (size_t)size, 1);
    if (size < 0 || fread(answer, 1, (size_t)size, out) != (size_t)size)
        goto cleanup;
    *ret = google__protobuf__compiler__code_generator_response__unpack(NULL, (size_t)size, answer);
    failure = !*ret ? failure : NULL;

cleanup:
    if (in)
        fclose(in);
    if (out)
        fclose(out);
    return failure;
}
