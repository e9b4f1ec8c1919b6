/* Builds plans. Invariant: once a plan has failed, no helper changes it, so the first error is the answer; an error of
 * a plan is always applied NO, because nothing was sent. Called by the services' prepare. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/hex.h"
#include "memory.h"
#include "services/service.h"

bool plan_failed(const plan *p)
{
    return p->error.code != LKS_OK;
}

void plan_invalid(plan *p, const char *format, ...)
{
    char text[LKS_ERROR_MESSAGE_MAX];
    va_list args;

    if (plan_failed(p))
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    lks_error_set(&p->error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "%s", text);
}

void plan_check_text(plan *p, const char *field, const char *value, size_t min_bytes, size_t max_bytes)
{
    size_t len = strlen(value);

    if (len == 0 && min_bytes > 0)
        plan_invalid(p, "%s: must not be empty", field);
    else if (len < min_bytes || len > max_bytes)
        plan_invalid(p, "%s: must be %zu to %zu bytes long", field, min_bytes, max_bytes);
}

void plan_check_name(plan *p, const char *field, const char *value)
{
    plan_check_text(p, field, value, 1, SERVICE_NAME_BYTES_MAX);
}

void plan_check_name_or_empty(plan *p, const char *field, const char *value)
{
    plan_check_text(p, field, value, 0, SERVICE_NAME_BYTES_MAX);
}

void plan_check_range(plan *p, const char *field, int64_t value, int64_t min, int64_t max)
{
    if (value < min || value > max)
        plan_invalid(p, "%s: must be %lld to %lld", field, (long long)min, (long long)max);
}

static bool is_plain(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '~' || c == '-';
}

/* Writes the encoding of text to `out` and returns its end. */
static char *encode_to(char *out, const char *text, size_t len)
{
    static const char hex[] = "0123456789ABCDEF";

    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        if (is_plain(c)) {
            *out++ = (char)c;
        } else {
            *out++ = '%';
            *out++ = hex[c >> 4];
            *out++ = hex[c & 15];
        }
    }
    return out;
}

char *plan_encode_bytes(lks_rpc_arena *arena, const void *data, size_t len)
{
    char *out = memory_in(arena, 3 * len + 1);

    *encode_to(out, data, len) = '\0';
    return out;
}

char *plan_encode(lks_rpc_arena *arena, const char *text)
{
    return plan_encode_bytes(arena, text, strlen(text));
}

char *plan_decode(lks_rpc_arena *arena, lks_rpc_slice encoded)
{
    char *out = memory_in(arena, encoded.len + 1);
    size_t n = 0;

    for (size_t i = 0; i < encoded.len; i++) {
        int high = -1;
        int low = -1;
        if (encoded.data[i] == '%' && i + 2 < encoded.len) {
            high = hex_value(encoded.data[i + 1]);
            low = hex_value(encoded.data[i + 2]);
        }
        if (high >= 0 && low >= 0) {
            out[n++] = (char)(high << 4 | low);
            i += 2;
        } else {
            out[n++] = encoded.data[i];
        }
    }
    return out;
}

lks_rpc_slice plan_base(plan *p, const char *group, const char *second)
{
    static const char open[] = "ls:{";
    size_t group_len = strlen(group);
    size_t second_len = second ? strlen(second) : 0;
    char *base = memory_in(p->arena, sizeof open + 3 * (p->ns.len + group_len + second_len) + sizeof "//}:");
    char *end = base;

    memcpy(end, open, sizeof open - 1);
    end = encode_to(end + sizeof open - 1, p->ns.data, p->ns.len);
    *end++ = '/';
    end = encode_to(end, group, group_len);
    if (second) {
        *end++ = '/';
        end = encode_to(end, second, second_len);
    }
    memcpy(end, "}:", 2);
    return (lks_rpc_slice){.data = base, .len = (size_t)(end + 2 - base)};
}

/* Makes room for one more call: the array doubles when its count is a power of two. */
static store_call *next_call(plan *p)
{
    size_t n = p->n_calls;

    if (n == 0 || (n & (n - 1)) == 0) {
        store_call *grown = memory_in(p->arena, 2 * (n + 1) * sizeof *grown);
        if (n > 0)
            memcpy(grown, p->calls, n * sizeof *grown);
        p->calls = grown;
    }
    return &p->calls[p->n_calls++];
}

static void start_call(plan *p, const plan_function *f, lks_rpc_slice base, size_t each_max)
{
    size_t max_args = f->n_args + f->n_each * each_max;

    *next_call(p) = (store_call){.base = base,
                                 .function = f->name,
                                 .args = memory_in(p->arena, max_args * sizeof(lks_rpc_slice)),
                                 .max_args = max_args,
                                 .weight = 1};
    p->layout = f->layout;
}

void plan_weighs(plan *p, size_t weight)
{
    if (!plan_failed(p))
        p->calls[p->n_calls - 1].weight = weight < STORE_WEIGHT_MAX ? (unsigned)weight : STORE_WEIGHT_MAX;
}

void plan_call(plan *p, const plan_function *function, const char *group, const char *only, size_t each_max)
{
    if (group[0] == '\0' && only)
        group = only;
    if (group[0] == '\0')
        plan_invalid(p, "group: must be set unless the request names exactly one thing");
    plan_check_name(p, "group", group);
    if (!plan_failed(p))
        start_call(p, function, plan_base(p, group, NULL), each_max);
}

void plan_call_at(plan *p, const plan_function *function, lks_rpc_slice base, size_t each_max)
{
    if (!plan_failed(p))
        start_call(p, function, base, each_max);
}

void plan_moves_call(plan *p, unsigned n, unsigned k)
{
    if (plan_failed(p))
        return;
    lks_rpc_slice *base = &p->calls[p->n_calls - 1].base;
    const char *moved = memory_printf_in(p->arena, "%.*s/%u/%u}:", (int)(base->len - 2), base->data, n, k);
    *base = lks_rpc_slice_of(moved);
}

void plan_again(const ProtobufCMessage *request, plan *p)
{
    for (size_t i = 0; i < p->service->n_methods; i++)
        if (p->service->methods[i].method == p->method)
            p->service->methods[i].prepare(request, p);
}

bool plan_calls(const plan *p, const plan_function *function)
{
    return p->n_calls > 0 && strcmp(p->calls[0].function, function->name) == 0;
}

/* ---- arguments ------------------------------------------------------------------ */

/* Reports a fault in the service. */
static void fail_internal(plan *p, const char *what)
{
    lks_error_set(&p->error, LKS_INTERNAL, LKS_APPLIED_NO, "%s for %s", what, p->calls[p->n_calls - 1].function);
}

void plan_arguments_of(plan *p, int layout)
{
    if (!plan_failed(p) && p->layout != layout)
        fail_internal(p, "arguments of another function");
}

void plan_arg_bytes(plan *p, lks_rpc_slice bytes)
{
    if (plan_failed(p))
        return;
    store_call *call = &p->calls[p->n_calls - 1];
    if (call->n_args == call->max_args)
        fail_internal(p, "too many arguments");
    else
        call->args[call->n_args++] = bytes;
}

void plan_arg_text(plan *p, const char *text)
{
    if (plan_failed(p))
        return;
    if (text)
        plan_arg_bytes(p, lks_rpc_slice_of(text));
    else
        fail_internal(p, "an argument is missing");
}

void plan_arg_key(plan *p, const char *text)
{
    if (!plan_failed(p))
        plan_arg_text(p, text ? plan_encode(p->arena, text) : NULL);
}

void plan_arg_int(plan *p, int64_t value)
{
    if (!plan_failed(p))
        plan_arg_text(p, memory_printf_in(p->arena, "%lld", (long long)value));
}

void plan_arg_flag(plan *p, bool value)
{
    plan_arg_text(p, value ? "1" : "0");
}

lks_rpc_slice plan_last_base(const plan *p)
{
    return plan_failed(p) ? lks_rpc_slice_of("") : p->calls[p->n_calls - 1].base;
}

void plan_waits(plan *p, lks_rpc_slice base, const char *id)
{
    if (!plan_failed(p))
        p->wait_key = lks_rpc_slice_of(memory_printf_in(p->arena, "%.*s%s", (int)base.len, base.data, id));
}

void plan_watch(plan *p, lks_rpc_slice base, const char *function, lks_rpc_slice argument)
{
    if (plan_failed(p))
        return;
    service_watch *w = memory_in(p->arena, sizeof *w);
    *w = (service_watch){.next = p->watches, .base = base, .function = function, .argument = argument};
    p->watches = w;
}

const char *plan_id(plan *p)
{
    if (p->id[0] == '\0')
        lks_rpc_random_id(p->id);
    return p->id;
}

void plan_undo(plan *p, lks_rpc_slice base, const char *function, lks_rpc_slice argument)
{
    if (!plan_failed(p))
        p->undo = (service_alarm){.base = base, .function = function, .argument = argument, .lasting = true};
}
