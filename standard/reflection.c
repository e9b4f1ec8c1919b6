/* `files` are in the order of the set, in which each file follows its imports. */
#include "standard/reflection.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <google/protobuf/descriptor.pb-c.h>
#include <lockstock/rpc/scan.h>

#include "grpc/reflection/v1/reflection.pb-c.h"

typedef Google__Protobuf__FileDescriptorProto file_proto;
typedef Grpc__Reflection__V1__ServerReflectionRequest request_message;
typedef Grpc__Reflection__V1__ServerReflectionResponse response_message;

struct reflection {
    Google__Protobuf__FileDescriptorSet *set;
    ProtobufCBinaryData *files; /* each serialised */
    Grpc__Reflection__V1__ServiceResponse *services;
    size_t n_services;
};

typedef struct inquiry {
    reflection *reflection;
    grpc_stream *call;
} inquiry;

/* ---- the files -------------------------------------------------------------------- */

/* Removes files that occur again. */
static void drop_repeated(Google__Protobuf__FileDescriptorSet *set)
{
    size_t n = 0;

    for (size_t i = 0; i < set->n_file; i++) {
        size_t at = 0;
        while (at < n && strcmp(set->file[at]->name, set->file[i]->name) != 0)
            at++;
        if (at == n)
            set->file[n++] = set->file[i];
        else
            google__protobuf__file_descriptor_proto__free_unpacked(set->file[i], NULL);
    }
    set->n_file = n;
}

static bool serialise(reflection *r)
{
    r->files = calloc(r->set->n_file, sizeof *r->files);
    for (size_t i = 0; r->files && i < r->set->n_file; i++) {
        const ProtobufCMessage *file = &r->set->file[i]->base;
        r->files[i].len = protobuf_c_message_get_packed_size(file);
        r->files[i].data = malloc(r->files[i].len);
        if (!r->files[i].data)
            return false;
        protobuf_c_message_pack(file, r->files[i].data);
    }
    return r->files;
}

/* Lists the services by their names, "package.Name". */
static bool list_services(reflection *r)
{
    size_t n = 0;

    for (size_t i = 0; i < r->set->n_file; i++)
        n += r->set->file[i]->n_service;
    r->services = calloc(n + 1, sizeof *r->services);
    for (size_t i = 0; r->services && i < r->set->n_file; i++) {
        const file_proto *file = r->set->file[i];
        const char *package = file->package ? file->package : "";
        for (size_t s = 0; s < file->n_service; s++) {
            Grpc__Reflection__V1__ServiceResponse *service = &r->services[r->n_services];
            grpc__reflection__v1__service_response__init(service);
            if (asprintf(&service->name, "%s%s%s", package, package[0] ? "." : "", file->service[s]->name) < 0)
                return false;
            r->n_services++;
        }
    }
    return r->services;
}

lks_code reflection_new(const void *files, size_t len, reflection **ret, lks_error *error)
{
    reflection *r = calloc(1, sizeof *r);

    if (!r)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    r->set = google__protobuf__file_descriptor_set__unpack(NULL, len, files);
    if (!r->set) {
        reflection_free(r);
        return lks_error_set(error, LKS_INTERNAL, LKS_APPLIED_NO, "the descriptors cannot be read");
    }
    drop_repeated(r->set);
    if (!serialise(r) || !list_services(r)) {
        reflection_free(r);
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    }
    *ret = r;
    return LKS_OK;
}

void reflection_free(reflection *r)
{
    if (!r)
        return;
    for (size_t i = 0; r->files && i < r->set->n_file; i++)
        free(r->files[i].data);
    free(r->files);
    for (size_t i = 0; i < r->n_services; i++)
        free(r->services[i].name);
    free(r->services);
    google__protobuf__file_descriptor_set__free_unpacked(r->set, NULL);
    free(r);
}

static size_t file_of_name(const reflection *r, const char *name)
{
    size_t i = 0;

    while (i < r->set->n_file && strcmp(r->set->file[i]->name, name) != 0)
        i++;
    return i;
}

/* ---- names: "package.Outer.Inner" ---------------------------------------------------- */

/* Returns the rest of `name` after "prefix.", or NULL. */
static const char *after(const char *name, const char *prefix)
{
    size_t len = prefix ? strlen(prefix) : 0;

    if (len == 0)
        return name;
    return strncmp(name, prefix, len) == 0 && name[len] == '.' ? name + len + 1 : NULL;
}

static bool message_defines(const Google__Protobuf__DescriptorProto *message, const char *name)
{
    if (strcmp(message->name, name) == 0)
        return true;
    const char *rest = after(name, message->name);
    if (!rest)
        return false;
    for (size_t i = 0; i < message->n_nested_type; i++)
        if (message_defines(message->nested_type[i], rest))
            return true;
    for (size_t i = 0; i < message->n_enum_type; i++)
        if (strcmp(message->enum_type[i]->name, rest) == 0)
            return true;
    for (size_t i = 0; i < message->n_field; i++)
        if (strcmp(message->field[i]->name, rest) == 0)
            return true;
    return false;
}

static bool service_defines(const Google__Protobuf__ServiceDescriptorProto *service, const char *name)
{
    if (strcmp(service->name, name) == 0)
        return true;
    const char *rest = after(name, service->name);
    for (size_t i = 0; rest && i < service->n_method; i++)
        if (strcmp(service->method[i]->name, rest) == 0)
            return true;
    return false;
}

static bool file_defines(const file_proto *file, const char *symbol)
{
    const char *name = after(symbol, file->package);

    if (!name)
        return false;
    for (size_t i = 0; i < file->n_service; i++)
        if (service_defines(file->service[i], name))
            return true;
    for (size_t i = 0; i < file->n_message_type; i++)
        if (message_defines(file->message_type[i], name))
            return true;
    for (size_t i = 0; i < file->n_enum_type; i++)
        if (strcmp(file->enum_type[i]->name, name) == 0)
            return true;
    for (size_t i = 0; i < file->n_extension; i++)
        if (strcmp(file->extension[i]->name, name) == 0)
            return true;
    return false;
}

static size_t file_of_symbol(const reflection *r, const char *symbol)
{
    size_t i = 0;

    while (i < r->set->n_file && !file_defines(r->set->file[i], symbol))
        i++;
    return i;
}

/* The extendee has a leading dot. */
static size_t file_of_extension(const reflection *r, const char *type, int32_t number)
{
    for (size_t i = 0; i < r->set->n_file; i++) {
        const file_proto *file = r->set->file[i];
        for (size_t e = 0; e < file->n_extension; e++)
            if (file->extension[e]->number == number && strcmp(file->extension[e]->extendee + 1, type) == 0)
                return i;
    }
    return r->set->n_file;
}

void reflection_each_service(const reflection *r, void (*see)(void *to, const char *service), void *to)
{
    for (size_t i = 0; i < r->n_services; i++)
        see(to, r->services[i].name);
}

bool reflection_has_service(const reflection *r, const char *wanted)
{
    size_t i = 0;

    while (i < r->n_services && strcmp(r->services[i].name, wanted) != 0)
        i++;
    return i < r->n_services;
}

/* ---- answers ---------------------------------------------------------------------- */

static void send_response(const inquiry *i, response_message *response, request_message *request)
{
    response->valid_host = request->host;
    response->original_request = request;
    size_t len = protobuf_c_message_get_packed_size(&response->base);
    uint8_t *bytes = malloc(len + 1);
    if (!bytes) {
        lks_error error;
        lks_error_set(&error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
        grpc_stream_finish(i->call, &error);
        return;
    }
    protobuf_c_message_pack(&response->base, bytes);
    grpc_stream_send(i->call, bytes, len);
    free(bytes);
}

static void send_error(const inquiry *i, request_message *request, lks_code code, const char *why)
{
    Grpc__Reflection__V1__ErrorResponse error = GRPC__REFLECTION__V1__ERROR_RESPONSE__INIT;
    response_message response = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__INIT;

    error.error_code = (int32_t)code;
    error.error_message = (char *)(uintptr_t)why;
    response.message_response_case = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_ERROR_RESPONSE;
    response.error_response = &error;
    send_response(i, &response, request);
}

/* Marks a file and its imports. */
static void mark(const reflection *r, size_t at, bool *wanted)
{
    const file_proto *file = at < r->set->n_file ? r->set->file[at] : NULL;

    if (!file || wanted[at])
        return;
    wanted[at] = true;
    for (size_t i = 0; i < file->n_dependency; i++)
        mark(r, file_of_name(r, file->dependency[i]), wanted);
}

/* Sends the file first, then its imports. */
static void send_file(const inquiry *i, request_message *request, size_t at)
{
    const reflection *r = i->reflection;
    Grpc__Reflection__V1__FileDescriptorResponse files = GRPC__REFLECTION__V1__FILE_DESCRIPTOR_RESPONSE__INIT;
    response_message response = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__INIT;
    bool *wanted = calloc(r->set->n_file + 1, sizeof *wanted);

    files.file_descriptor_proto = calloc(r->set->n_file + 1, sizeof *files.file_descriptor_proto);
    if (at == r->set->n_file) {
        send_error(i, request, LKS_NOT_FOUND, "not defined here");
    } else if (wanted && files.file_descriptor_proto) {
        mark(r, at, wanted);
        files.file_descriptor_proto[files.n_file_descriptor_proto++] = r->files[at];
        for (size_t f = 0; f < r->set->n_file; f++)
            if (wanted[f] && f != at)
                files.file_descriptor_proto[files.n_file_descriptor_proto++] = r->files[f];
        response.message_response_case =
            GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_FILE_DESCRIPTOR_RESPONSE;
        response.file_descriptor_response = &files;
        send_response(i, &response, request);
    } else {
        send_error(i, request, LKS_RESOURCE_EXHAUSTED, "out of memory");
    }
    free(files.file_descriptor_proto);
    free(wanted);
}

static void send_services(const inquiry *i, request_message *request)
{
    const reflection *r = i->reflection;
    Grpc__Reflection__V1__ListServiceResponse list = GRPC__REFLECTION__V1__LIST_SERVICE_RESPONSE__INIT;
    response_message response = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__INIT;

    list.service = calloc(r->n_services + 1, sizeof *list.service);
    if (!list.service) {
        send_error(i, request, LKS_RESOURCE_EXHAUSTED, "out of memory");
        return;
    }
    for (; list.n_service < r->n_services; list.n_service++)
        list.service[list.n_service] = &r->services[list.n_service];
    response.message_response_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_LIST_SERVICES_RESPONSE;
    response.list_services_response = &list;
    send_response(i, &response, request);
    free(list.service);
}

static void send_extension_numbers(const inquiry *i, request_message *request)
{
    const reflection *r = i->reflection;
    char *type = request->all_extension_numbers_of_type;
    Grpc__Reflection__V1__ExtensionNumberResponse numbers = GRPC__REFLECTION__V1__EXTENSION_NUMBER_RESPONSE__INIT;
    response_message response = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__INIT;
    int32_t list[64];

    numbers.base_type_name = type;
    numbers.extension_number = list;
    for (size_t f = 0; f < r->set->n_file; f++)
        for (size_t e = 0; e < r->set->file[f]->n_extension; e++)
            if (strcmp(r->set->file[f]->extension[e]->extendee + 1, type) == 0 && numbers.n_extension_number < 64)
                list[numbers.n_extension_number++] = r->set->file[f]->extension[e]->number;
    if (file_of_symbol(r, type) == r->set->n_file) {
        send_error(i, request, LKS_NOT_FOUND, "not defined here");
        return;
    }
    response.message_response_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_ALL_EXTENSION_NUMBERS_RESPONSE;
    response.all_extension_numbers_response = &numbers;
    send_response(i, &response, request);
}

static void answer(const inquiry *i, request_message *request)
{
    const reflection *r = i->reflection;

    switch ((int)request->message_request_case) {
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_BY_FILENAME:
        send_file(i, request, file_of_name(r, request->file_by_filename));
        break;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_SYMBOL:
        send_file(i, request, file_of_symbol(r, request->file_containing_symbol));
        break;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_EXTENSION:
        send_file(i, request,
                  file_of_extension(r, request->file_containing_extension->containing_type,
                                    request->file_containing_extension->extension_number));
        break;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_ALL_EXTENSION_NUMBERS_OF_TYPE:
        send_extension_numbers(i, request);
        break;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_LIST_SERVICES:
        send_services(i, request);
        break;
    default:
        send_error(i, request, LKS_INVALID_ARGUMENT, "message_request: must be set");
    }
}

/* ---- the method ------------------------------------------------------------------- */

static void on_message(void *state, const uint8_t *data, size_t len)
{
    const inquiry *i = state;
    request_message *request;
    lks_error error;

    if (lks_rpc_scan(&grpc__reflection__v1__server_reflection_request__descriptor, data, len, &lks_rpc_scan_defaults,
                     &error) != LKS_OK) {
        grpc_stream_finish(i->call, &error);
        return;
    }
    request = grpc__reflection__v1__server_reflection_request__unpack(NULL, len, data);
    if (request) {
        answer(i, request);
    } else {
        lks_error_set(&error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
        grpc_stream_finish(i->call, &error);
    }
    grpc__reflection__v1__server_reflection_request__free_unpacked(request, NULL);
}

static void on_half_closed(void *state)
{
    const inquiry *i = state;
    const lks_error ok = {0};

    grpc_stream_finish(i->call, &ok);
}

static void *on_open(void *arg, grpc_stream *call)
{
    inquiry *i = malloc(sizeof *i);

    if (i)
        *i = (inquiry){.reflection = arg, .call = call};
    return i;
}

void reflection_methods(reflection *r, grpc_streaming_method out[REFLECTION_METHODS])
{
    const grpc_streaming_method method = {
        .effect = LKS_RPC_EFFECT_READ,
        .open = on_open,
        .message = on_message,
        .half_closed = on_half_closed,
        .closed = free,
        .arg = r,
    };

    out[0] = out[1] = method;
    out[0].path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
    out[1].path = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";
}
