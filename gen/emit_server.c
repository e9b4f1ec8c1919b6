/* STEM.lks_server.{h,c}: typed handlers bound to methods. The skeleton allocates nothing and has no state. A service
 * without methods has no skeleton. */
#include "emit.h"

#include <string.h>

enum { BYTES_A_LINE = 19 };

static void emit_handlers(FILE *out, const gen_service *service)
{
    fputc('\n', out);
    emit_comment(out, "", service->comment);
    fprintf(out, "typedef struct %s_handlers {\n", service->name);
    for (size_t i = 0; i < service->n_methods; i++) {
        const gen_method *method = &service->methods[i];
        emit_comment(out, "    ", method->comment);
        int indent = fprintf(out, "    lks_code (*%s)(", method->member);
        fprintf(out, "void *self, lks_rpc_context *context, const %s *request,\n%*s%s *response, lks_error *error);\n",
                method->request->name, indent, "", method->response->name);
    }
    fprintf(out, "} %s_handlers;\n", service->name);
}

static void emit_header(FILE *out, const gen_file *file)
{
    emit_header_begin(out, file, &emit_server);
    fputs("#include <lockstock/rpc/service.h>\n\n", out);
    fprintf(out, "#include \"%s%s.h\"\n", file->stem, emit_types.suffix);
    emit_extern_c_begin(out);
    for (size_t i = 0; i < file->n_services; i++) {
        const gen_service *service = &file->services[i];
        if (service->n_methods == 0)
            continue;
        emit_handlers(out, service);
        fputc('\n', out);
        emit_comment(out, "",
                     "Initialises the handlers with the functions whose names begin with PREFIX; it does not\n"
                     "compile when one is missing. Also for C++.");
        fprintf(out, "#define %s_HANDLERS(PREFIX) \\\n    { \\\n", service->upper);
        for (size_t j = 0; j < service->n_methods; j++)
            fprintf(out, "        PREFIX##%s, \\\n", service->methods[j].name);
        fputs("    }\n\n", out);
        emit_comment(out, "",
                     "The service, each of whose handlers is given `self`. `handlers` must stay as long as the\n"
                     "service is used, and have no NULL. Thread-safe.");
        fprintf(out, "lks_rpc_service %s_service(const %s_handlers *handlers, void *self);\n", service->name,
                service->name);
    }
    emit_header_end(out);
}

static void emit_handle(FILE *out, const gen_service *service, const gen_method *method)
{
    int indent = (int)(sizeof "static lks_code _handle(" - 1 + strlen(method->stub));
    fprintf(out,
            "\nstatic lks_code %s_handle(const lks_rpc_service *service, lks_rpc_context *context,\n"
            "%*sconst ProtobufCMessage *request, ProtobufCMessage *response,\n"
            "%*slks_error *error)\n"
            "{\n"
            "    const %s_handlers *handlers = (const %s_handlers *)service->handlers;\n"
            "    return (handlers->%s)(service->self, context, (const %s *)request,\n"
            "                        (%s *)response, error);\n"
            "}\n",
            method->stub, indent, "", indent, "", service->name, service->name, method->member, method->request->name,
            method->response->name);
}

/* Writes the descriptors for reflection. */
static void emit_descriptors(FILE *out, const gen_file *file)
{
    fputs("\nstatic const unsigned char descriptors[] = {", out);
    for (size_t i = 0; i < file->n_descriptors; i++)
        fprintf(out, "%s0x%02x,", i % BYTES_A_LINE == 0 ? "\n    " : " ", file->descriptors[i]);
    fputs("\n};\n", out);
}

static bool has_methods(const gen_file *file)
{
    bool any = false;
    for (size_t i = 0; i < file->n_services; i++)
        any |= file->services[i].n_methods > 0;
    return any;
}

static void emit_source(FILE *out, const gen_file *file)
{
    emit_source_begin(out, file, &emit_server);
    if (has_methods(file))
        emit_descriptors(out, file);
    for (size_t i = 0; i < file->n_services; i++) {
        const gen_service *service = &file->services[i];
        if (service->n_methods == 0)
            continue;
        for (size_t j = 0; j < service->n_methods; j++) {
            emit_handle(out, service, &service->methods[j]);
            if (service->methods[j].guard)
                emit_guard(out, service->methods[j].guard);
        }
        fprintf(out, "\nstatic const lks_rpc_binding %s_bindings[] = {\n", service->name);
        for (size_t j = 0; j < service->n_methods; j++) {
            const gen_method *method = &service->methods[j];
            fprintf(out, "    {&%s, %s_handle, %s%s},\n", method->constant, method->stub, method->guard ? "&" : "",
                    method->guard ? method->guard->name : "NULL");
        }
        fprintf(out,
                "};\n\n"
                "lks_rpc_service %s_service(const %s_handlers *handlers, void *self)\n"
                "{\n"
                "    return (lks_rpc_service){\n"
                "        .name = \"%s\",\n"
                "        .n_bindings = %zu,\n"
                "        .bindings = %s_bindings,\n"
                "        .handlers = handlers,\n"
                "        .self = self,\n"
                "        .descriptors = descriptors,\n"
                "        .n_descriptors = sizeof descriptors,\n"
                "    };\n"
                "}\n",
                service->name, service->name, service->full_name, service->n_methods, service->name);
    }
}

const emit_part emit_server = {.name = "server", .suffix = ".lks_server", .header = emit_header, .source = emit_source};
