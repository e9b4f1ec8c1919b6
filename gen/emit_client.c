/* STEM.lks_client.{h,c}: typed stubs over lockstock/call.h. A generated function casts a callback to its own type and
 * calls it. */
#include "emit.h"

#include <string.h>

/* The parameter after the options; an inline function does not have it, because it takes the size of the caller's
 * struct. */
#define SIZED "size_t options_bytes, "

/* Writes the first parameters of both kinds of calls. Returns the indentation of the next line. */
static int emit_call_parameters(FILE *out, const gen_method *method, const char *ending, const char *sized)
{
    int indent = fprintf(out, "lks_code %s%s(", method->stub, ending);
    fprintf(out, "lks_channel *channel, const %s *request,\n%*sconst lks_call_options *options, %s",
            method->request->name, indent, "", sized);
    return indent;
}

static void emit_run_prototype(FILE *out, const gen_method *method, const char *ending, const char *sized)
{
    emit_call_parameters(out, method, ending, sized);
    fprintf(out, "%s **ret, lks_error *error)", method->response->name);
}

static void emit_start_prototype(FILE *out, const gen_method *method, const char *ending, const char *sized)
{
    int indent = emit_call_parameters(out, method, ending, sized);
    fprintf(out, "%s_done *done,\n%*svoid *arg, lks_call **ret, lks_error *error)", method->stub, indent, "");
}

static void emit_response_prototype(FILE *out, const gen_method *method)
{
    fprintf(out, "const %s *%s_response(const lks_call *call)", method->response->name, method->stub);
}

static void emit_declarations(FILE *out, const gen_method *method)
{
    fputc('\n', out);
    emit_comment(out, "", method->comment);
    emit_run_prototype(out, method, "_sized", SIZED);
    fputs(";\nstatic inline ", out);
    emit_run_prototype(out, method, "", "");
    fprintf(out,
            "\n{\n"
            "    return %s_sized(channel, request, options, sizeof(lks_call_options), ret, error);\n"
            "}\n",
            method->stub);
    int indent = fprintf(out, "typedef void %s_done(", method->stub);
    fprintf(out, "void *arg, lks_code code, const %s *response,\n%*sconst lks_error *error);\n", method->response->name,
            indent, "");
    emit_start_prototype(out, method, "_start_sized", SIZED);
    fputs(";\nstatic inline ", out);
    emit_start_prototype(out, method, "_start", "");
    fprintf(out,
            "\n{\n"
            "    return %s_start_sized(channel, request, options, sizeof(lks_call_options),\n"
            "%*sdone, arg, ret, error);\n"
            "}\n",
            method->stub, (int)(sizeof "    return _start_sized(" - 1 + strlen(method->stub)), "");
    emit_response_prototype(out, method);
    fputs(";\n", out);
}

/* A message may be the response of services in several files: the first included header defines the function. */
static void emit_free(FILE *out, const gen_message *response)
{
    fprintf(out, "\n#ifndef LOCKSTOCK_free_%s\n#define LOCKSTOCK_free_%s\n", response->name, response->name);
    fprintf(out, "static inline void %s(%s *response)\n{\n", response->free, response->name);
    fputs("    lks_message_free((ProtobufCMessage *)response);\n}\n#endif\n", out);
}

static void emit_header(FILE *out, const gen_file *file)
{
    emit_header_begin(out, file, &emit_client);
    fputs("#include <lockstock/call.h>\n\n", out);
    fprintf(out, "#include \"%s%s.h\"\n", file->stem, emit_types.suffix);
    emit_extern_c_begin(out);
    if (file->n_responses > 0) {
        fputc('\n', out);
        emit_comment(out, "",
                     "For each method: NAME runs a call and waits for it, like lks_call_run; *ret is to be\n"
                     "freed with the ..._free of its type, which takes NULL. NAME_start starts a call, like\n"
                     "lks_call_start; its NAME_done then runs once, on the channel's completion thread.\n"
                     "NAME_response is lks_call_response, typed. NAME_sized and NAME_start_sized are what\n"
                     "the inline functions call (lockstock/channel.h).");
    }
    for (size_t i = 0; i < file->n_responses; i++)
        emit_free(out, file->responses[i]);
    for (size_t i = 0; i < file->n_services; i++)
        for (size_t j = 0; j < file->services[i].n_methods; j++)
            emit_declarations(out, &file->services[i].methods[j]);
    emit_header_end(out);
}

static void emit_definitions(FILE *out, const gen_method *method)
{
    const char *response = method->response->name;
    fputc('\n', out);
    emit_run_prototype(out, method, "_sized", SIZED);
    fprintf(out,
            "\n{\n"
            "    ProtobufCMessage *response = NULL;\n"
            "    lks_code code = lks_call_run_sized(channel, &%s, (const ProtobufCMessage *)request,\n"
            "                                       options, options_bytes, ret == NULL ? NULL : &response, error);\n"
            "    if (code == LKS_OK && ret != NULL) {\n"
            "        *ret = (%s *)response;\n"
            "    }\n"
            "    return code;\n"
            "}\n",
            method->constant, response);
    fprintf(out,
            "\nstatic void %s_deliver(lks_call_function *function, void *arg, lks_code code,\n"
            "%*sconst ProtobufCMessage *response, const lks_error *error)\n"
            "{\n"
            "    %s_done *done = (%s_done *)function;\n"
            "    done(arg, code, (const %s *)response, error);\n"
            "}\n\n",
            method->stub, (int)(sizeof "static void _deliver(" - 1 + strlen(method->stub)), "", method->stub,
            method->stub, response);
    emit_start_prototype(out, method, "_start_sized", SIZED);
    fprintf(out,
            "\n{\n"
            "    return lks_call_start_sized(channel, &%s, (const ProtobufCMessage *)request,\n"
            "                                options, options_bytes, done == NULL ? NULL : %s_deliver,\n"
            "                                (lks_call_function *)done, arg, ret, error);\n"
            "}\n\n",
            method->constant, method->stub);
    emit_response_prototype(out, method);
    fprintf(out, "\n{\n    return (const %s *)lks_call_response(call);\n}\n", response);
}

static void emit_source(FILE *out, const gen_file *file)
{
    emit_source_begin(out, file, &emit_client);
    for (size_t i = 0; i < file->n_services; i++)
        for (size_t j = 0; j < file->services[i].n_methods; j++)
            emit_definitions(out, &file->services[i].methods[j]);
}

const emit_part emit_client = {.name = "client", .suffix = ".lks_client", .header = emit_header, .source = emit_source};
