/* The descriptors for reflection: a file and its imports as protoc sent them, without comments and source locations. */
#include "build.h"

#include <string.h>

typedef Google__Protobuf__FileDescriptorProto file_proto;

/* Whether every host has the file. */
static bool is_known(const char *name)
{
    return strcmp(name, "google/protobuf/descriptor.proto") == 0 || strcmp(name, "lockstock/rpc/v1/options.proto") == 0;
}

/* Marks a file and its imports. */
static void mark(const gen_model *model, const char *name, bool *needed)
{
    for (size_t i = 0; i < model->n_files; i++) {
        const file_proto *proto = model->files[i].proto;
        if (needed[i] || is_known(name) || strcmp(proto->name, name) != 0)
            continue;
        needed[i] = true;
        for (size_t j = 0; j < proto->n_dependency; j++)
            mark(model, proto->dependency[j], needed);
    }
}

void descriptors_build(gen_model *model, gen_file *file)
{
    bool *needed = pool_alloc(model->pool, model->n_files, sizeof *needed);
    file_proto *bare = pool_alloc(model->pool, model->n_files, sizeof *bare);
    Google__Protobuf__FileDescriptorSet set = GOOGLE__PROTOBUF__FILE_DESCRIPTOR_SET__INIT;
    if (!file->wanted || file->n_services == 0)
        return;
    mark(model, file->proto->name, needed);
    set.file = pool_alloc(model->pool, model->n_files, sizeof *set.file);
    for (size_t i = 0; i < model->n_files; i++) {
        if (needed[i]) {
            bare[i] = *model->files[i].proto;
            bare[i].source_code_info = NULL;
            set.file[set.n_file++] = &bare[i];
        }
    }
    file->n_descriptors = google__protobuf__file_descriptor_set__get_packed_size(&set);
    uint8_t *bytes = pool_alloc(model->pool, file->n_descriptors, 1);
    google__protobuf__file_descriptor_set__pack(&set, bytes);
    file->descriptors = bytes;
}
