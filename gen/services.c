/* A method without both messages, or with wrong options, is reported and stays incomplete. */
#include <string.h>

#include "mangle.h"
#include "build.h"
#include "options.h"
#include "paths.h"

enum { FILE_SERVICE = 6, SERVICE_METHOD = 2 };

/* Checks the path that lks_rpc_may_repeat follows. */
static void check_natural_id(gen_model *model, const gen_method *method, const method_options *options)
{
    const char *name = options->natural_id;
    bool random = options->fill == LOCKSTOCK__RPC__V1__FILL__FILL_RANDOM;
    gen_path path;
    const char *problem = paths_follow(model, method->request, name, &path);
    if (problem) {
        model_error(model, method->at, "natural_id \"%s\": %s", name, problem);
    } else if (path.oneof) {
        model_error(model, method->at, "natural_id \"%s\": %s is a member of a oneof", name, path.oneof);
    } else if (!paths_is_key(path.field) || paths_is_repeated(path.field) ||
               path.field->type == GOOGLE__PROTOBUF__FIELD_DESCRIPTOR_PROTO__TYPE__TYPE_ENUM) {
        model_error(model, method->at, "natural_id \"%s\" is not one string, bytes or integer field", name);
    } else if (random && (path.message != method->request ||
                          path.field->type != GOOGLE__PROTOBUF__FIELD_DESCRIPTOR_PROTO__TYPE__TYPE_STRING)) {
        model_error(model, method->at, "natural_id \"%s\": FILL_RANDOM needs a string field of %s itself", name,
                    method->request->full_name);
    }
}

static bool is_text(const gen_field *field)
{
    return field->type == GOOGLE__PROTOBUF__FIELD_DESCRIPTOR_PROTO__TYPE__TYPE_STRING && !paths_is_repeated(field);
}

/* Checks the path that lks_rpc_undo_request follows. */
static bool leads_to_text(const gen_model *model, const gen_message *message, const char *name)
{
    gen_path path;
    return !paths_follow(model, message, name, &path) && is_text(path.field);
}

static void check_undo(gen_model *model, const gen_method *method, const gen_message *request,
                       const Lockstock__Rpc__V1__Undo *undo)
{
    if (undo->n_fields == 0)
        model_error(model, method->at, "undo \"%s\" must have fields", undo->method);
    for (size_t i = 0; i < undo->n_fields; i++) {
        const Lockstock__Rpc__V1__UndoField *made = undo->fields[i];
        const gen_field *field = paths_field(request, made->field);
        if (!field || !is_text(field) || field->has_oneof_index) {
            model_error(model, method->at, "undo \"%s\": \"%s\" is not one string field of %s, outside of a oneof",
                        undo->method, made->field, request->full_name);
        }
        if (made->n_from == 0)
            model_error(model, method->at, "undo \"%s\": \"%s\" has no source", undo->method, made->field);
        for (size_t j = 0; j < made->n_from; j++) {
            if (!leads_to_text(model, method->request, made->from[j])) {
                model_error(model, method->at, "undo \"%s\": \"%s\" is not a string field of %s", undo->method,
                            made->from[j], method->request->full_name);
            }
        }
    }
}

/* The named method must be of the same service, and may follow this one. */
static void read_undo(gen_model *model, const Google__Protobuf__ServiceDescriptorProto *proto,
                      const gen_service *service, gen_method *method, const Lockstock__Rpc__V1__Undo *undo, bool wanted)
{
    for (size_t i = 0; i < proto->n_method; i++) {
        if (strcmp(proto->method[i]->name, undo->method) != 0)
            continue;
        const gen_message *request = model_find_message(model, proto->method[i]->input_type);
        method->undo = pool_format(model->pool, "%s_%s_method", service->name, mangle_snake(model->pool, undo->method));
        method->undo_option = undo;
        if (wanted && method->request && request)
            check_undo(model, method, request, undo);
        return;
    }
    if (wanted)
        model_error(model, method->at, "undo \"%s\" is not a method of %s", undo->method, service->full_name);
}

/* Whether Connect clients may call the method with GET. */
static bool has_no_side_effects(const Google__Protobuf__MethodOptions *options)
{
    return options && options->has_idempotency_level &&
           options->idempotency_level == GOOGLE__PROTOBUF__METHOD_OPTIONS__IDEMPOTENCY_LEVEL__NO_SIDE_EFFECTS;
}

static void read_options(gen_model *model, const Google__Protobuf__ServiceDescriptorProto *service_proto,
                         const gen_service *service, const Google__Protobuf__MethodDescriptorProto *proto,
                         gen_method *method, bool wanted)
{
    static const char *const effects[] = {
        [LOCKSTOCK__RPC__V1__EFFECT__EFFECT_UNSPECIFIED] = "LKS_RPC_EFFECT_WRITE",
        [LOCKSTOCK__RPC__V1__EFFECT__EFFECT_READ] = "LKS_RPC_EFFECT_READ",
        [LOCKSTOCK__RPC__V1__EFFECT__EFFECT_WRITE] = "LKS_RPC_EFFECT_WRITE",
        [LOCKSTOCK__RPC__V1__EFFECT__EFFECT_ADMIN] = "LKS_RPC_EFFECT_ADMIN",
    };
    method_options options;
    if (!options_of_method(proto->options, model->pool, &options)) {
        if (wanted) {
            model_error(model, method->at,
                        "its lockstock.rpc.v1 options are of a later version, or another option has their number");
        }
        return;
    }
    method->effect = effects[options.effect];
    if (wanted && options.effect != LOCKSTOCK__RPC__V1__EFFECT__EFFECT_READ && has_no_side_effects(proto->options))
        model_error(model, method->at, "idempotency_level NO_SIDE_EFFECTS needs the effect EFFECT_READ");
    method->natural_id = options.natural_id;
    method->settles = options.settles;
    method->coalesce = options.coalesce;
    if (options.undo)
        read_undo(model, service_proto, service, method, options.undo, wanted);
    method->fill = options.fill == LOCKSTOCK__RPC__V1__FILL__FILL_RANDOM ? "LKS_RPC_FILL_RANDOM" : "LKS_RPC_FILL_NONE";
    if (!wanted)
        return;
    if (options.natural_id && method->request)
        check_natural_id(model, method, &options);
    if (options.guard && method->request && method->response)
        guards_build(model, method, options.guard);
}

static gen_message *resolve(gen_model *model, const gen_method *method, const char *type_name, bool wanted)
{
    gen_message *message = model_find_message(model, type_name);
    if (!message && wanted)
        model_error(model, method->at, "the type %s is in no file that protoc sent", !type_name ? "(none)" : type_name);
    return message;
}

/* The last two names are static functions in the .c files. */
static void define_method(gen_model *model, const gen_file *file, const gen_service *service, const gen_method *method)
{
    static const char *const endings[] = {"",      "_sized",    "_method",  "_start", "_start_sized",
                                          "_done", "_response", "_deliver", "_handle"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        model_define(model, file, method->at, pool_format(model->pool, "%s%s", method->stub, endings[i]));
    model_define(model, file, method->at, pool_format(model->pool, "%s_handlers.%s", service->name, method->member));
}

static void define_service(gen_model *model, const gen_file *file, const gen_service *service)
{
    static const char *const endings[] = {"_handlers", "_service", "_bindings"};
    static const char *const macros[] = {"_METHODS", "_HANDLERS"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        model_define(model, file, service->at, pool_format(model->pool, "%s%s", service->name, endings[i]));
    for (size_t i = 0; i < sizeof macros / sizeof *macros; i++)
        model_define(model, file, service->at, pool_format(model->pool, "%s%s", service->upper, macros[i]));
}

static void build_method(gen_model *model, gen_file *file, const gen_service *service, size_t service_index,
                         size_t index, gen_method *made)
{
    gen_pool *pool = model->pool;
    const Google__Protobuf__MethodDescriptorProto *proto = file->proto->service[service_index]->method[index];
    const int32_t path[] = {FILE_SERVICE, (int32_t)service_index, SERVICE_METHOD, (int32_t)index};
    const char *full_name = pool_format(pool, "%s.%s", service->full_name, proto->name);
    *made = (gen_method){
        .at = model_at(model, file, path, 4, "method", full_name),
        .proto_name = proto->name,
        .name = mangle_snake(pool, proto->name),
        .path = pool_format(pool, "/%s/%s", service->full_name, proto->name),
        .comment = model_comment(model, file, path, 4),
    };
    made->member = mangle_member(pool, made->name);
    made->stub = pool_format(pool, "%s_%s", service->name, made->name);
    made->constant = pool_format(pool, "%s_method", made->stub);
    define_method(model, file, service, made);

    made->request = resolve(model, made, proto->input_type, file->wanted);
    made->response = resolve(model, made, proto->output_type, file->wanted);
    read_options(model, file->proto->service[service_index], service, proto, made, file->wanted);
    if (file->wanted && (proto->client_streaming || proto->server_streaming))
        model_error(model, made->at, "streaming is not supported");
}

/* Adds the messages of a method to the lists of the file, each once. */
static void note_uses(gen_model *model, gen_file *file, const gen_method *method)
{
    gen_message *response = method->response;
    const gen_file *homes[] = {method->request->file, response->file};
    for (size_t i = 0; i < 2; i++) {
        bool known = homes[i] == file;
        for (size_t j = 0; j < file->n_imports; j++)
            known |= file->imports[j] == homes[i];
        if (!known)
            file->imports[file->n_imports++] = homes[i];
    }
    for (size_t i = 0; i < file->n_responses; i++)
        if (file->responses[i] == response)
            return;
    file->responses[file->n_responses++] = response;
    if (!response->free)
        response->free = model_define(model, file, response->at, pool_format(model->pool, "%s_free", response->name));
}

void services_build(gen_model *model, gen_file *file)
{
    gen_pool *pool = model->pool;
    const Google__Protobuf__FileDescriptorProto *proto = file->proto;
    size_t n_methods = 0;
    for (size_t i = 0; i < proto->n_service; i++)
        n_methods += proto->service[i]->n_method;
    file->services = pool_alloc(pool, proto->n_service, sizeof *file->services);
    file->responses = pool_alloc(pool, n_methods, sizeof *file->responses);
    file->imports = pool_alloc(pool, 2 * n_methods, sizeof *file->imports);
    for (size_t i = 0; i < proto->n_service; i++) {
        const char *name = proto->service[i]->name;
        const char *full_name = !proto->package ? name : pool_format(pool, "%s.%s", proto->package, name);
        const int32_t path[] = {FILE_SERVICE, (int32_t)i};
        gen_service *made = &file->services[file->n_services++];
        *made = (gen_service){
            .at = model_at(model, file, path, 2, "service", full_name),
            .full_name = full_name,
            .name = pool_format(pool, "%s_%s", file->prefix, mangle_snake(pool, mangle_service(pool, name))),
            .comment = model_comment(model, file, path, 2),
            .n_methods = proto->service[i]->n_method,
            .methods = pool_alloc(pool, proto->service[i]->n_method, sizeof *made->methods),
        };
        made->upper = mangle_upper(pool, made->name);
        define_service(model, file, made);
        for (size_t j = 0; j < made->n_methods; j++) {
            gen_method *method = &made->methods[j];
            build_method(model, file, made, i, j, method);
            if (method->request && method->response)
                note_uses(model, file, method);
        }
    }
}
