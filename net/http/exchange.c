/* Invariant: `done` runs once, or http_exchange_leave ran before. After `done` the exchange is freed at once. */
#include "net/http/exchange.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "net/http/connect.h"
#include "net/http/exchange_state.h"
#include "net/http/grpc_web.h"
#include "net/gzip.h"
#include "net/too_long.h"
#include "rpc/json/json.h"

enum {
    EXCHANGE_BYTES = 5 * 1024, /* memory of an exchange without its body */
    RUNNING_BYTES = 64,        /* of a running call; the limits in callers.h include the rest */
    BODY_ROOM = 1024,          /* at first */
};

static const char too_much[] = "too many bytes are under way";

/* ---- memory --------------------------------------------------------------------------------- */

static void drop_body(http_exchange *e)
{
    free(e->body);
    e->body = NULL;
    e->body_len = e->body_room = 0;
}

static http_verb verb_of(const char *method)
{
    static const char *const names[] = {
        [VERB_GET] = "GET", [VERB_HEAD] = "HEAD", [VERB_POST] = "POST", [VERB_OPTIONS] = "OPTIONS"};
    http_verb verb = VERB_OPTIONS;

    while (verb != VERB_OTHER && strcmp(names[verb], method) != 0)
        verb--;
    return verb;
}

http_exchange *http_exchange_new(const http_site *site, const http_peer *from, lks_rpc_arena *arena,
                                 http_fields *fields, const char *method, const char *target, const char *host,
                                 http_exchange_done *done, void *arg)
{
    static const lks_rpc_additions none = {.text = NULL};
    http_exchange *e = calloc(1, sizeof *e);
    size_t path_len = strcspn(target, "?");
    const char *path = lks_rpc_arena_copy(arena, target, path_len);

    if (!e || !path) {
        free(e);
        lks_rpc_arena_free(arena);
        return NULL;
    }
    *e = (http_exchange){.site = site,
                         .from = from,
                         .held = {.share = from->bytes},
                         .protocol = &connect_protocol,
                         .done = done,
                         .arg = arg,
                         .received_ns = clock_now_ns(),
                         .arena = arena,
                         .verb = verb_of(method),
                         .path = path,
                         .query = target[path_len] ? target + path_len + 1 : "",
                         .host = host,
                         .added = &none};
    TAILQ_INIT(&e->fields);
    TAILQ_CONCAT(&e->fields, fields, next);
    TAILQ_INIT(&e->answer_fields);
    budget_claim_only(&e->held, EXCHANGE_BYTES);
    return e;
}

static void free_exchange(http_exchange *e)
{
    if (e->gone)
        *e->gone = true;
    drop_body(e);
    budget_claim_only(&e->held, 0);
    lks_rpc_arena_free(e->arena);
    free(e);
}

/* ---- answers ---------------------------------------------------------------------------------- */

void exchange_set(http_exchange *e, const char *name, const char *value)
{
    http_fields_set(&e->answer_fields, e->arena, name, value);
}

static void answer(http_exchange *e, http_answer *a)
{
    if (e->verb != VERB_POST) { /* a browser or a proxy might cache it, or guess another type */
        exchange_set(e, "x-content-type-options", "nosniff");
        exchange_set(e, "cache-control", "no-store");
    }
    origin_put(e);
    a->fields = &e->answer_fields;
    a->is_head = e->verb == VERB_HEAD;
    e->done(e->arg, a);
    free_exchange(e);
}

void http_exchange_fail(http_exchange *e, unsigned status, const lks_error *error)
{
    http_answer a = {0};

    e->protocol->fail(e, status, error, &a);
    answer(e, &a);
}

static void refuse(http_exchange *e, unsigned status, lks_code code, lks_reason reason, const char *why)
{
    lks_error error;

    lks_error_set_reason(&error, code, LKS_APPLIED_NO, reason, "%s", why);
    http_exchange_fail(e, status, &error);
}

/* ---- what the request asks for ------------------------------------------------------------------- */

bool exchange_invalid(lks_error *error, const char *why)
{
    lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "%s", why);
    return false;
}

bool exchange_is_type(lks_rpc_slice type, const char *wanted)
{
    size_t len = strlen(wanted);

    return type.len >= len && strncasecmp(type.data, wanted, len) == 0 &&
           (type.len == len || strchr("; ", type.data[len]));
}

static credentials credentials_of(const http_exchange *e)
{
    return http_fields_credentials(&e->fields, e->from->certificate, e->from->uid);
}

static lks_code check(const http_exchange *e, const char *path, lks_rpc_effect effect, lks_error *error)
{
    const credentials who = credentials_of(e);
    const sink *to = e->site->sink;

    return to->check(to->arg, e->from->caller, &who, path, effect, error);
}

/* Finds the known fields. False: a field that may be given once is given twice, and so is ambiguous. */
static bool find_fields(http_exchange *e, lks_error *error)
{
    static const struct {
        const char *name;
        size_t len;
    } names[KNOWN_FIELDS] = {
#define NAME(text) {(text), sizeof(text) - 1}
        [KNOWN_TYPE] = NAME("content-type"),
        [KNOWN_ENCODING] = NAME("content-encoding"),
        [KNOWN_CONNECT_VERSION] = NAME("connect-protocol-version"),
        [KNOWN_CONNECT_TIMEOUT] = NAME("connect-timeout-ms"),
        [KNOWN_GRPC_TIMEOUT] = NAME("grpc-timeout"),
        [KNOWN_GRPC_ENCODING] = NAME("grpc-encoding"),
        [KNOWN_ORIGIN] = NAME("origin"),
        [KNOWN_SITE] = NAME("sec-fetch-site"),
        [KNOWN_ACCEPT] = NAME("accept"),
        [KNOWN_ACCEPT_ENCODING] = NAME("accept-encoding"),
        [KNOWN_GRPC_ACCEPT_ENCODING] = NAME("grpc-accept-encoding"),
#undef NAME
    };
    static const lks_rpc_slice none = {.data = ""};
    const http_field *field;

    for (int i = 0; i < KNOWN_FIELDS; i++)
        e->known[i] = none;
    TAILQ_FOREACH(field, &e->fields, next)
        for (int i = 0; i < KNOWN_FIELDS; i++) {
            if (field->name_len != names[i].len || memcmp(field->name, names[i].name, names[i].len) != 0)
                continue;
            bool is_first = e->known[i].data == none.data;
            if (i < KNOWN_ONCE && !is_first) {
                lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "%s: given more than once", names[i].name);
                return false;
            }
            if (is_first)
                e->known[i] = (lks_rpc_slice){.data = field->value, .len = field->value_len};
        }
    return true;
}

static const http_page *find_page(const http_exchange *e)
{
    for (size_t i = 0; i < e->site->n_pages; i++)
        if (strcmp(e->site->pages[i].path, e->path) == 0)
            return &e->site->pages[i];
    return NULL;
}

static void begin_page(http_exchange *e, const http_page *page)
{
    lks_error error;

    if (e->verb != VERB_GET && e->verb != VERB_HEAD) {
        exchange_set(e, "allow", "GET, HEAD");
        refuse(e, 405, LKS_UNKNOWN, LKS_REASON_NONE, "this page must be read with GET or HEAD");
    } else if (page->right && check(e, page->right, page->effect, &error) != LKS_OK) {
        http_exchange_fail(e, 0, &error);
    } else {
        e->page = page;
        e->takes_gzip = http_list_has(e->known[KNOWN_ACCEPT_ENCODING], "gzip");
    }
}

/* Checks that the method exists and that the caller may call it. False: the request was answered. */
static bool find_method(http_exchange *e)
{
    const sink *to = e->site->sink;
    lks_error error;

    e->call = to->method(to->arg, e->path);
    lks_code code = check(e, e->path, 0, &error);
    if (e->call && code == LKS_OK)
        return true;
    if (code == LKS_UNIMPLEMENTED || code == LKS_OK)
        refuse(e, 404, LKS_UNIMPLEMENTED, LKS_REASON_NONE, "nothing is served at this path");
    else
        http_exchange_fail(e, 0, &error);
    return false;
}

/* Checks that the method may be called with this verb. False: the request was answered. */
static bool check_verb(http_exchange *e)
{
    bool reads = e->call->effect == LKS_RPC_EFFECT_READ;

    if (e->verb == VERB_POST || (e->verb == VERB_GET && reads))
        return true;
    exchange_set(e, "allow", reads ? "GET, POST" : "POST");
    refuse(e, 405, LKS_UNKNOWN, LKS_REASON_NONE,
           reads ? "this method must be called with POST or GET" : "this method must be called with POST");
    return false;
}

/* `curl -d` sends this type by default. A page of another site could send it without a preflight, but a browser then
 * marks the request as cross-site. */
static bool is_from_curl(const http_exchange *e, lks_rpc_slice type)
{
    return exchange_is_type(type, "application/x-www-form-urlencoded") &&
           e->known[KNOWN_ORIGIN].len + e->known[KNOWN_SITE].len == 0;
}

/* Chooses the protocol by the Content-Type. False: the request was answered. */
static bool choose_protocol(http_exchange *e)
{
    lks_rpc_slice type = e->known[KNOWN_TYPE];

    e->is_json = exchange_is_type(type, "application/json") || is_from_curl(e, type);
    if (e->verb == VERB_GET || e->is_json || exchange_is_type(type, "application/proto"))
        return true;
    if (grpc_web_is_type(e, type)) {
        e->protocol = &grpc_web_protocol;
        return true;
    }
    exchange_set(e, "accept-post",
                 "application/json, application/proto, application/grpc-web+proto, application/grpc-web-text+proto");
    refuse(e, 415, LKS_UNKNOWN, LKS_REASON_NONE,
           "content-type: must be application/json, application/proto, application/grpc-web or "
           "application/grpc-web-text; gRPC needs HTTP/2");
    return false;
}

static void begin_call(http_exchange *e)
{
    lks_error error;

    if (!find_method(e) || !check_verb(e) || !choose_protocol(e))
        return;
    if (!e->protocol->begin(e, &error))
        http_exchange_fail(e, 0, &error);
    else if (e->site->draining)
        refuse(e, 0, LKS_UNAVAILABLE, LKS_REASON_SHUTTING_DOWN, "the server is shutting down");
}

static void begin_preflight(http_exchange *e)
{
    http_answer a = {0};

    origin_preflight(e, &a);
    answer(e, &a);
}

void http_exchange_begin(http_exchange *e)
{
    const http_page *page = find_page(e);
    lks_error error;

    if (!find_fields(e, &error) || !origin_check(e, page, &error))
        http_exchange_fail(e, 0, &error);
    else if (e->verb == VERB_OPTIONS)
        begin_preflight(e);
    else if (page)
        begin_page(e, page);
    else
        begin_call(e);
}

/* ---- the request -------------------------------------------------------------------------------- */

void http_exchange_body(http_exchange *e, const void *data, size_t len)
{
    size_t wanted = e->body_len + len, room = e->body_room > 0 ? e->body_room : BODY_ROOM;

    if (len == 0)
        return;
    if (e->page || e->verb == VERB_GET) {
        refuse(e, 400, LKS_INVALID_ARGUMENT, LKS_REASON_NONE, "a GET must not have a body");
        return;
    }
    if (wanted > e->site->message_bytes_max / 3 * 4 + BODY_ROOM) { /* gRPC-Web may send base64 */
        lks_error error;
        too_long(&error, e->site->message_bytes_max);
        http_exchange_fail(e, 413, &error);
        return;
    }
    while (room < wanted)
        room *= 2;
    if (room > e->body_room) {
        uint8_t *grown = budget_claim_take(&e->held, room - e->body_room) ? realloc(e->body, room) : NULL;
        if (!grown) {
            refuse(e, 0, LKS_RESOURCE_EXHAUSTED, LKS_REASON_TOO_MANY_CALLS, too_much);
            return;
        }
        e->body = grown;
        e->body_room = room;
    }
    memcpy(e->body + e->body_len, data, len);
    e->body_len = wanted;
}

bool exchange_inflate(http_exchange *e, const void *data, size_t len, const void **ret, size_t *ret_len,
                      lks_error *error)
{
    uint8_t *message;

    if (gzip_inflate(data, len, e->site->message_bytes_max, &message, ret_len, error) != LKS_OK)
        return false;
    *ret = lks_rpc_arena_copy(e->arena, message, *ret_len);
    free(message);
    if (!*ret)
        lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    return *ret;
}

bool exchange_take(http_exchange *e, const void *data, size_t len, lks_error *error)
{
    ProtobufCMessage *message;

    e->payload = (lks_rpc_slice){.data = data, .len = len};
    if (len > e->site->message_bytes_max) {
        too_long(error, e->site->message_bytes_max);
        return false;
    }
    if (!e->is_json)
        return true;
    if (lks_rpc_json_parse(e->call->request, data, len, &lks_rpc_scan_defaults, e->arena, &message, error) != LKS_OK)
        return false;
    e->payload = lks_rpc_pack(message, e->arena);
    if (!e->payload.data)
        lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    return e->payload.data;
}

/* Fields of HTTP and of the protocols, which a handler does not see. */
static bool is_reserved(const char *name)
{
    static const char *const prefixes[] = {":", "grpc-", "connect-", "accept", "content-", "access-control-", "sec-"};
    static const char *const names[] = {"te",     "host",   "connection", "transfer-encoding",
                                        "expect", "origin", "x-grpc-web"};

    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static void read_metadata(const void *metadata, sink_see_entry *see, void *arg)
{
    const http_exchange *e = metadata;
    const http_field *field;

    TAILQ_FOREACH(field, &e->fields, next)
        if (!is_reserved(field->name))
            http_field_pass(field, e->arena, see, arg);
}

/* The call is parked and does not need its request any more: frees the arena. */
static void on_parked(void *arg)
{
    http_exchange *e = arg;

    TAILQ_INIT(&e->fields);
    lks_rpc_arena_free(e->arena);
    e->arena = NULL;
    budget_claim_only(&e->held, RUNNING_BYTES);
}

static lks_rpc_arena *new_arena(void *arg)
{
    http_exchange *e = arg;

    return e->arena = lks_rpc_arena_new();
}

static const sink_lender lender = {.give = on_parked, .take = new_arena};

http_page_answer http_page_alive(void *arg, const char *accept, lks_rpc_arena *arena)
{
    (void)arg;
    (void)accept;
    (void)arena;
    return (http_page_answer){
        .status = 200, .type = "application/json", .body = lks_rpc_slice_of("{\"status\":\"ok\"}\n")};
}

void exchange_pack(http_exchange *e, http_answer *answer)
{
    bool is_worth_it = e->takes_gzip && answer->len >= GZIP_BYTES_MIN;
    uint8_t *packed = is_worth_it ? lks_rpc_arena_alloc(e->arena, answer->len) : NULL;
    size_t len = packed ? gzip_deflate(answer->body, answer->len, packed) : 0;

    if (len == 0)
        return;
    exchange_set(e, "content-encoding", "gzip");
    answer->body = packed;
    answer->len = len;
}

static void write_page(http_exchange *e)
{
    const char *accept = e->known[KNOWN_ACCEPT].data;
    http_page_answer page = e->page->write(e->page->arg, accept, e->arena);
    http_answer a = {.status = page.status, .body = page.body.data, .len = page.body.len};

    exchange_set(e, "content-type", page.type);
    for (size_t i = 0; i < e->page->n_fields; i++)
        exchange_set(e, e->page->fields[i].name, e->page->fields[i].value);
    exchange_pack(e, &a);
    answer(e, &a);
}

static void on_done(void *arg, const lks_rpc_method *method, const ProtobufCMessage *response, const lks_error *error,
                    const lks_rpc_additions *added);

/* The limits of running and waiting calls (callers.h) include the memory of an ordinary call, so only more than that
 * counts. */
static size_t beyond_ordinary(size_t arena_bytes)
{
    return arena_bytes > EXCHANGE_BYTES ? arena_bytes - EXCHANGE_BYTES : 0;
}

static void run_call(http_exchange *e)
{
    const sink *to = e->site->sink;
    const sink_call call = {
        .path = e->path,
        .payload = e->payload.data,
        .len = e->payload.len,
        .timeout_ms = e->timeout_ms,
        .received_ns = e->received_ns,
        .caller = e->from->caller,
        .who = credentials_of(e),
        .handle = &e->running,
        .lender = &lender,
        .read_metadata = read_metadata,
        .metadata = e,
    };
    bool gone = false;

    e->state = EXCHANGE_RUNNING;
    e->gone = &gone;
    to->take(to->arg, &call, e->arena, on_done, e);
    if (gone)
        return;
    e->gone = NULL;
    drop_body(e);
    if (e->arena) /* it is not parked */
        budget_claim_only(&e->held, RUNNING_BYTES + beyond_ordinary(lks_rpc_arena_bytes(e->arena)));
}

void http_exchange_run(http_exchange *e)
{
    lks_error error;

    if (e->page)
        write_page(e);
    else if (!e->protocol->read(e, &error))
        http_exchange_fail(e, error.reason == LKS_REASON_TOO_LARGE ? 413 : 0, &error);
    else
        run_call(e);
}

void http_exchange_leave(http_exchange *e)
{
    if (e->state == EXCHANGE_READING) {
        free_exchange(e);
        return;
    }
    e->state = EXCHANGE_ABANDONED;
    e->site->sink->abandon(e->running); /* the exchange may have ended */
}

/* ---- the answer of the sink ---------------------------------------------------------------------- */

/* The response in the caller's coding. False: *error is set. */
static bool code_response(http_exchange *e, const ProtobufCMessage *response, lks_rpc_slice *ret, lks_error *error)
{
    static const lks_rpc_json_options plain = {0};

    if (!e->is_json)
        *ret = lks_rpc_pack(response, e->arena);
    else if (lks_rpc_json_print(response, &plain, e->arena, ret, error) != LKS_OK)
        return false;
    if (ret->data && ret->len <= e->site->message_bytes_max)
        return true;
    lks_error_set_reason(error, LKS_RESOURCE_EXHAUSTED, lks_rpc_applied_of(e->call), LKS_REASON_TOO_LARGE,
                         "the response is too long");
    return false;
}

static void answer_message(http_exchange *e, const ProtobufCMessage *response)
{
    http_answer a = {.status = 200};
    lks_rpc_slice coded = {0};
    lks_error error;

    e->hints = lks_rpc_hints_of(response);
    if (code_response(e, response, &coded, &error) && e->protocol->write(e, coded.data, coded.len, &a, &error))
        answer(e, &a);
    else
        http_exchange_fail(e, 0, &error);
}

static void on_done(void *arg, const lks_rpc_method *method, const ProtobufCMessage *response, const lks_error *error,
                    const lks_rpc_additions *added)
{
    http_exchange *e = arg;
    (void)method;

    if (e->state == EXCHANGE_ABANDONED) {
        free_exchange(e);
        return;
    }
    if (added)
        e->added = added;
    if (error->code != LKS_OK)
        http_exchange_fail(e, 0, error);
    else
        answer_message(e, response);
}
