/* Whatever bytes come as the request of whatever method: the service plans, and its plan
 * is either an error that was applied NO, or store calls that are within bounds, all in
 * the caller's own namespace; the same request makes the same plan. With the
 * code of dispatch, without a store.
 *
 *   service (1)  method (1)  n (1)  namespace (n; empty = "default")  request */
#include <lockstock/rpc/exchange.h>

#include "fuzz.h"
#include "services/rounds.h"

#define NOW_NS (UINT64_C(1) << 40)
enum {
    CALLS_MAX = SERVICE_BATCH_MAX,
    BASE_BYTES_MAX = 3 * 3 * SERVICE_NAME_BYTES_MAX + 16,
    ARGS_SLACK = 4096, /* numbers in digits, names that arguments repeat */
};

/* Ids that a service makes up (linked in place of lks_rpc_random_id) are all the same, so
 * that plans can be compared. */
void __wrap_lks_rpc_random_id(char id[LKS_RPC_RANDOM_ID_LEN + 1]);
void __wrap_lks_rpc_random_id(char id[LKS_RPC_RANDOM_ID_LEN + 1])
{
    memset(id, 'r', LKS_RPC_RANDOM_ID_LEN);
    id[LKS_RPC_RANDOM_ID_LEN] = '\0';
}

static bool is_key_text(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || strchr("._~-%", c);
}

/* Percent-encoded; of bytes, also a NUL, which names of requests have none of. */
static const char *encoded(lks_rpc_arena *arena, lks_rpc_slice text, size_t *len)
{
    char *out = lks_rpc_arena_alloc(arena, 3 * text.len + 1);

    *len = 0;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];
        bool plain = c != '\0' && c != '%' && is_key_text(c);
        *len += (size_t)snprintf(out + *len, 4, plain ? "%c" : "%%%02X", (unsigned char)c);
    }
    return out;
}

/* "ls:{<namespace>/<name>}:" or with a second name, percent-encoded; but what servers
 * share among them is of no namespace. */
static void check_base(const plan *p, const store_call *call)
{
    lks_rpc_slice base = call->base;
    size_t slashes = 0, ns_len;
    const char *ns = encoded(p->arena, p->ns, &ns_len);

    if (strcmp(call->function, "id_grant") == 0)
        return;
    fuzz_expect(base.len <= BASE_BYTES_MAX && base.len > ns_len + 7);
    fuzz_expect(memcmp(base.data, "ls:{", 4) == 0 && memcmp(base.data + base.len - 2, "}:", 2) == 0);
    fuzz_expect(memcmp(base.data + 4, ns, ns_len) == 0 && base.data[4 + ns_len] == '/');
    for (size_t i = 4 + ns_len; i < base.len - 2; i++) {
        slashes += base.data[i] == '/';
        fuzz_expect(base.data[i] == '/' || is_key_text(base.data[i]));
    }
    fuzz_expect(slashes == 1 || slashes == 2);
}

static void check_call(const plan *p, const store_call *call, size_t request_len)
{
    size_t bytes = 0, sum = 0;

    fuzz_expect(call->function && call->function[0] >= 'a' && call->function[0] <= 'z');
    check_base(p, call);
    fuzz_expect(call->n_args <= call->max_args);
    for (size_t i = 0; i < call->n_args; i++) {
        fuzz_expect(call->args[i].data || call->args[i].len == 0);
        for (size_t at = 0; at < call->args[i].len; at++)
            sum += (unsigned char)call->args[i].data[at]; /* it can be read */
        bytes += call->args[i].len;
    }
    fuzz_expect(sum <= 255 * bytes);
    /* A varint of one byte becomes at most its digits, a byte of a name its three. */
    fuzz_expect(bytes <= 20 * request_len + ARGS_SLACK);
}

static void check_plan(const plan *p, size_t request_len)
{
    if (plan_failed(p)) {
        fuzz_expect(p->error.applied == LKS_APPLIED_NO && p->error.message[0] != '\0');
        fuzz_expect(p->error.code == LKS_INVALID_ARGUMENT || p->error.code == LKS_FAILED_PRECONDITION ||
                    p->error.code == LKS_UNIMPLEMENTED || p->error.code == LKS_NOT_FOUND);
        return;
    }
    fuzz_expect(p->n_calls <= CALLS_MAX);
    for (size_t i = 0; i < p->n_calls; i++)
        check_call(p, &p->calls[i], request_len);
}

static bool same_text(lks_rpc_slice a, lks_rpc_slice b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

/* Compares the plans of a service without state. */
static void check_same(const plan *a, const plan *b)
{
    fuzz_expect(a->error.code == b->error.code && strcmp(a->error.message, b->error.message) == 0);
    if (plan_failed(a))
        return;
    fuzz_expect(a->n_calls == b->n_calls);
    for (size_t i = 0; i < a->n_calls; i++) {
        const store_call *x = &a->calls[i], *y = &b->calls[i];
        fuzz_expect(strcmp(x->function, y->function) == 0 && same_text(x->base, y->base) && x->n_args == y->n_args);
        for (size_t n = 0; n < x->n_args; n++)
            fuzz_expect(same_text(x->args[n], y->args[n]));
    }
}

/* The steps of a waiting call at each event. */
static void wake(const rounds *waits, size_t request_len)
{
    static int64_t fences[SERVICE_TARGETS_MAX];

    for (service_event_kind kind = SERVICE_STOPPING; kind < SERVICE_N_EVENTS; kind++) {
        rounds r = *waits;
        switch (
            rounds_wake(&r, (service_event){kind, SERVICE_TARGETS_MAX, fences, waits->plan.undo.argument}, NOW_NS)) {
        case ROUNDS_CALLS:
            check_plan(&r.plan, request_len);
            break;
        case ROUNDS_ANSWERED:
            fuzz_expect(kind == SERVICE_GRANTED && r.response);
            break;
        case ROUNDS_FAILED:
            fuzz_expect((kind == SERVICE_ABANDONED && r.error.code == LKS_CANCELLED) ||
                        (kind == SERVICE_STOPPING && r.error.code == LKS_UNAVAILABLE));
            break;
        default:
            fuzz_expect(false);
        }
    }
}

static void plan_request(const service_method *m, const plan *empty, const ProtobufCMessage *request,
                         size_t request_len, bool again)
{
    rounds once, twice;
    bool planned = rounds_plan(&once, m, request, empty);

    fuzz_expect(planned == !plan_failed(&once.plan));
    check_plan(&once.plan, request_len);
    if (again) {
        rounds_plan(&twice, m, request, empty);
        check_same(&once.plan, &twice.plan);
    }
    if (planned && once.plan.n_calls > 0)
        fuzz_expect(rounds_start(&once, NOW_NS) == ROUNDS_CALLS);
    if (planned && once.plan.wait_key.len > 0) {
        fuzz_expect(lks_rpc_wait_ms(m->method, request) > 0);
        wake(&once, request_len);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const service_options options = {.sequence_block = 100};
    fuzz_input in = {.data = data, .len = len};
    const service *s = all_services[fuzz_byte(&in) % SERVICES];
    const service_method *m = &s->methods[fuzz_byte(&in) % s->n_methods];
    lks_rpc_arena *arena = lks_rpc_arena_new();
    ProtobufCMessage *request = NULL;
    lks_error error = {0};
    size_t ns_len, request_len;
    uint8_t *ns = fuzz_bytes(&in, fuzz_byte(&in) % (SERVICE_NAME_BYTES_MAX + 1), &ns_len);
    uint8_t *bytes = fuzz_bytes(&in, in.len, &request_len);

    if (lks_rpc_request_unpack(m->method, bytes, request_len, arena, &request, &error) == LKS_OK) {
        void *state = s->open ? s->open(&options) : NULL;
        lks_rpc_slice default_ns = lks_rpc_slice_of("default");
        plan empty = {.arena = arena,
                      .server = "fuzz",
                      .service = s,
                      .state = state,
                      .now_ns = NOW_NS,
                      .ns = ns_len > 0 ? (lks_rpc_slice){.data = (char *)ns, .len = ns_len} : default_ns};
        free(bytes); /* the unpacked message does not refer to it */
        bytes = NULL;
        plan_request(m, &empty, request, request_len, !state);
        if (s->close && state)
            s->close(state);
    } else {
        fuzz_expect(!request && error.code == LKS_INVALID_ARGUMENT && error.applied == LKS_APPLIED_NO);
        fuzz_expect(error.message[0] != '\0');
    }
    free(bytes);
    free(ns);
    lks_rpc_arena_free(arena);
    return 0;
}
