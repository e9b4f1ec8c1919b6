/* Building plans. Invariant: once a plan has failed, no helper changes it, so
 * the first error is the one that is answered; and an error of a plan is always
 * applied NO, because nothing was sent. Called by the services' prepare. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "services/service.h"

bool plan_failed(const plan *p)
{
    return p->error.code != LKS_OK;
}

void plan_no_memory(plan *p)
{
    if (!plan_failed(p))
        lks_error_set(&p->error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
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
    char *out = lks_rpc_arena_alloc(arena, 3 * len + 1);

    if (out)
        *encode_to(out, data, len) = '\0';
    return out;
}

char *plan_encode(lks_rpc_arena *arena, const char *text)
{
    return plan_encode_bytes(arena, text, strlen(text));
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

char *plan_decode(lks_rpc_arena *arena, lks_rpc_slice encoded)
{
    char *out = lks_rpc_arena_alloc(arena, encoded.len + 1);
    size_t n = 0;

    if (!out)
        return NULL;
    for (size_t i = 0; i < encoded.len; i++) {
        int high = -1;
        int low = -1;
        if (encoded.data[i] == '%' && i + 2 < encoded.len) {
            high = hex_digit(encoded.data[i + 1]);
            low = hex_digit(encoded.data[i + 2]);
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

/* "ls:{ns/a}:", or with b "ls:{ns/a/b}:". */
static lks_rpc_slice base_of(plan *p, const char *a, const char *b)
{
    static const char open[] = "ls:{";
    size_t a_len = strlen(a);
    size_t b_len = b ? strlen(b) : 0;
    char *base = lks_rpc_arena_alloc(p->arena, sizeof open + 3 * (p->ns.len + a_len + b_len) + sizeof "//}:");
    char *end = base;

    if (!base) {
        plan_no_memory(p);
        return (lks_rpc_slice){.data = "", .len = 0};
    }
    memcpy(end, open, sizeof open - 1);
    end = encode_to(end + sizeof open - 1, p->ns.data, p->ns.len);
    *end++ = '/';
    end = encode_to(end, a, a_len);
    if (b) {
        *end++ = '/';
        end = encode_to(end, b, b_len);
    }
    memcpy(end, "}:", 2);
    return (lks_rpc_slice){.data = base, .len = (size_t)(end + 2 - base)};
}

lks_rpc_slice plan_base(plan *p, const char *group)
{
    return base_of(p, group, NULL);
}

/* Room for one more call: the array doubles when its count is a power of two. */
static store_call *next_call(plan *p)
{
    size_t n = p->n_calls;

    if (n == 0 || (n & (n - 1)) == 0) {
        store_call *grown = lks_rpc_arena_alloc(p->arena, 2 * (n + 1) * sizeof *grown);
        if (!grown)
            return NULL;
        if (n > 0)
            memcpy(grown, p->calls, n * sizeof *grown);
        p->calls = grown;
    }
    return &p->calls[p->n_calls++];
}

static void start_call(plan *p, const char *function, lks_rpc_slice base, size_t max_args)
{
    lks_rpc_slice *args = lks_rpc_arena_alloc(p->arena, max_args * sizeof *args);
    store_call *call = next_call(p);

    if (!args || !call) {
        plan_no_memory(p);
        return;
    }
    *call = (store_call){.base = base, .function = function, .args = args, .max_args = max_args, .weight = 1};
}

void plan_weighs(plan *p, size_t weight)
{
    if (!plan_failed(p))
        p->calls[p->n_calls - 1].weight = weight < STORE_WEIGHT_MAX ? (unsigned)weight : STORE_WEIGHT_MAX;
}

void plan_call(plan *p, const char *function, const char *group, const char *only, size_t max_args)
{
    if (group[0] == '\0' && only)
        group = only;
    if (group[0] == '\0')
        plan_invalid(p, "group: must be set where the request does not name exactly one thing");
    plan_check_name(p, "group", group);
    if (!plan_failed(p))
        start_call(p, function, base_of(p, group, NULL), max_args);
}

void plan_call_of_pair(plan *p, const char *function, const char *first, const char *second, size_t max_args)
{
    if (!plan_failed(p))
        start_call(p, function, base_of(p, first, second), max_args);
}

void plan_arg_bytes(plan *p, const void *data, size_t len)
{
    if (plan_failed(p))
        return;
    store_call *call = &p->calls[p->n_calls - 1];
    if (call->n_args == call->max_args) {
        lks_error_set(&p->error, LKS_INTERNAL, LKS_APPLIED_NO, "too many arguments for %s", call->function);
        return;
    }
    call->args[call->n_args++] = (lks_rpc_slice){.data = data, .len = len};
}

void plan_arg(plan *p, const char *text)
{
    plan_arg_bytes(p, text, strlen(text));
}

void plan_arg_encoded(plan *p, const char *text)
{
    const char *encoded = plan_failed(p) ? NULL : plan_encode(p->arena, text);

    if (encoded)
        plan_arg(p, encoded);
    else
        plan_no_memory(p);
}

void plan_arg_int(plan *p, int64_t value)
{
    if (plan_failed(p))
        return;
    char *text = lks_rpc_arena_printf(p->arena, "%lld", (long long)value);
    if (text)
        plan_arg(p, text);
    else
        plan_no_memory(p);
}

void plan_waits(plan *p, const char *id, service_wake *wake)
{
    if (plan_failed(p))
        return;
    lks_rpc_slice base = p->calls[p->n_calls - 1].base;
    char *key = lks_rpc_arena_printf(p->arena, "%.*s%s", (int)base.len, base.data, id);
    if (!key) {
        plan_no_memory(p);
        return;
    }
    p->wait_key = lks_rpc_slice_of(key);
    p->wake = wake;
}

void plan_watch(plan *p, const char *function, lks_rpc_slice argument)
{
    if (plan_failed(p))
        return;
    service_watch *w = lks_rpc_arena_alloc(p->arena, sizeof *w);
    if (!w) {
        plan_no_memory(p);
        return;
    }
    *w = (service_watch){
        .next = p->watches, .base = p->calls[p->n_calls - 1].base, .function = function, .argument = argument};
    p->watches = w;
}

void plan_undo(plan *p, const char *function, lks_rpc_slice argument)
{
    if (!plan_failed(p))
        p->undo = (service_alarm){.base = p->calls[p->n_calls - 1].base, .function = function, .argument = argument};
}
