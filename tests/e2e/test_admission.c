/* Who may do what, on a real lockstockd: the whole matrix of evidence, services and
 * effects over every transport that carries it; files that change under it; and nothing
 * secret in its log. */

#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <openssl/evp.h>

#include <lockstock/lockstock.h>
#include <lockstock/v1/id.lks.h>
#include <lockstock/v1/idempotency.lks.h>
#include <lockstock/v1/lock.lks.h>
#include <lockstock/v1/ratelimit.lks.h>
#include <lockstock/v1/stock.lks.h>

#include "support/certificates.h"
#include "support/redis_fixture.h"
#include "support/server_fixture.h"
#include "support/sp_caller.h"
#include "support/tempdir.h"
#include "test.h"

enum { EXIT_TIMEOUT_MS = 60000, LINE_TIMEOUT_MS = 60000 };

#define METHOD(name, Name, request, response, constant) &(constant),
static const lks_rpc_method *const methods[] = {LKS_LOCK_METHODS(METHOD) LKS_STOCK_METHODS(
    METHOD) LKS_IDEMPOTENCY_METHODS(METHOD) LKS_RATE_LIMIT_METHODS(METHOD) LKS_ID_METHODS(METHOD)};
enum { N_METHODS = sizeof methods / sizeof methods[0] };

static const char *const services[] = {"LockService", "StockService", "IdempotencyService", "RateLimitService",
                                       "IdService"};
static const char *const effects[] = {"READ", "WRITE", "ADMIN"};
enum { N_SERVICES = 5, N_EFFECTS = 3 };

/* What must never be seen in a log. */
#define STORE_PASSWORD "store-password-5f1c"
#define PAYLOAD "payload-9b2e"
#define SECRET "-token-e07a" /* in every token */

static struct {
    char *dir;
    authority *ours, *others;
    redis_fixture *redis;
    server_fixture *server;
    char store[256], tls_url[64], wss_url[64], unix_url[160], grpcs_url[64];
    const char *args[32];
} here;

typedef Lockstock__Rpc__V1__Reply reply;
typedef Lockstock__Rpc__V1__Result result;

/* ---- files -------------------------------------------------------------------------- */

/* Valid until the eighth call after it. */
static const char *path(const char *name)
{
    static char paths[8][256];
    static size_t next;
    char *p = paths[next++ % 8];

    snprintf(p, sizeof paths[0], "%s/%s", here.dir, name);
    return p;
}

static void write_file(const char *name, const char *text)
{
    FILE *file = fopen(path(name), "w");

    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void sign(const authority *by, const char *name, certificate_wish wish)
{
    char key[64];

    snprintf(key, sizeof key, "%s.key", name);
    authority_sign(by, &wish, path(name), path(key));
}

/* A line of the token file. */
static void add_token(FILE *file, const char *token, const char *principal, long until)
{
    unsigned char digest[32];

    EVP_Digest(token, strlen(token), digest, NULL, EVP_sha256(), NULL);
    for (size_t i = 0; i < sizeof digest; i++)
        fprintf(file, "%02x", digest[i]);
    fprintf(file, " %s", principal);
    if (until)
        fprintf(file, " %ld", until);
    fprintf(file, "\n");
}

/* "LockService-READ-token-e07a" */
static const char *token_of(size_t service, size_t effect)
{
    static char token[128];

    snprintf(token, sizeof token, "%s-%s" SECRET, services[service], effects[effect]);
    return token;
}

static void write_policy(const char *more)
{
    FILE *file = fopen(path("policy"), "w");

    assert_non_null(file);
    for (size_t s = 0; s < N_SERVICES; s++)
        for (size_t e = 0; e < N_EFFECTS; e++)
            fprintf(file, "[%s-%s]\n%s = %s\n", services[s], effects[e], services[s], effects[e]);
    fprintf(file,
            "[ops]\n* = READ, WRITE, ADMIN\n"
            "[shop]\nnamespace = shop\ncertificate = shop.internal\nStockService = READ, WRITE\n"
            "[auditor]\ncertificate = auditor\n* = READ\n"
            "[nothing]\nnamespace = shop\n"
            "[looks]\nServerReflection = READ\n"
            "%s",
            more);
    fclose(file);
}

static void write_tokens(void)
{
    char principal[64];
    FILE *file = fopen(path("tokens"), "w");

    assert_non_null(file);
    for (size_t s = 0; s < N_SERVICES; s++) {
        for (size_t e = 0; e < N_EFFECTS; e++) {
            snprintf(principal, sizeof principal, "%s-%s", services[s], effects[e]);
            add_token(file, token_of(s, e), principal, 0);
        }
    }
    add_token(file, "ops" SECRET, "ops", 0);
    add_token(file, "shop" SECRET, "shop", time(NULL) + 86400);
    add_token(file, "shop-ended" SECRET, "shop", time(NULL) - 1);
    add_token(file, "auditor" SECRET, "auditor", 0);
    add_token(file, "nothing" SECRET, "nothing", 0);
    add_token(file, "looks" SECRET, "looks", 0);
    fclose(file);
}

static void write_uid_policy(void)
{
    char box[128];

    snprintf(box, sizeof box, "[box]\nuid = %u\nnamespace = box\nStockService = READ, WRITE\n", (unsigned)getuid());
    write_policy(box);
}

static void write_certificates(const char *server_name)
{
    authority_write(here.ours, path("ca"));
    sign(here.ours, "server", (certificate_wish){.common = {server_name, 0}, .dns = {{"localhost", 0}}});
    authority_write(here.ours, path("client-ca"));
}

/* SIGHUP; `event` is what the server must say. */
static void reload(const char *event)
{
    process_signal(server_fixture_process(here.server), SIGHUP);
    if (!process_wait_line(server_fixture_process(here.server), event, NULL, 0, LINE_TIMEOUT_MS))
        fail_msg("no %s:\n%s", event, process_output(server_fixture_process(here.server)));
}

static int put_files_back(void **state)
{
    write_uid_policy();
    write_tokens();
    write_certificates("first");
    if (here.server)
        reload("event=reloaded");
    return 0;
}

/* ---- the server --------------------------------------------------------------------- */

static int start(void **state)
{
    static char paths[6][256];
    static const char *const names[] = {"policy", "tokens", "server", "server.key", "client-ca"};
    static const char *const flags[] = {"--policy", "--tokens", "--tls-certificate", "--tls-key", "--tls-client-ca"};
    size_t n = 0;

    here.dir = tempdir_make();
    here.ours = authority_new("ours");
    here.others = authority_new("ours");
    sign(here.ours, "shop", (certificate_wish){.common = {"anybody", 0}, .dns = {{"shop.internal", 0}}});
    sign(here.ours, "auditor", (certificate_wish){.common = {"auditor", 0}});
    sign(here.ours, "unknown", (certificate_wish){.common = {"unknown", 0}});
    sign(here.others, "foreign", (certificate_wish){.dns = {{"shop.internal", 0}}});
    sign(here.ours, "expired",
         (certificate_wish){.dns = {{"shop.internal", 0}}, .valid_from_s = -7200, .valid_until_s = -3600});
    put_files_back(state);

    here.redis = redis_fixture_start(NULL);
    if (!here.redis)
        return -1;
    free(redis_fixture_command(here.redis, "CONFIG SET requirepass " STORE_PASSWORD));
    snprintf(here.store, sizeof here.store, "unix://:" STORE_PASSWORD "@%s", redis_fixture_socket(here.redis));
    snprintf(here.tls_url, sizeof here.tls_url, "tls://127.0.0.1:%u", server_fixture_free_port());
    snprintf(here.grpcs_url, sizeof here.grpcs_url, "grpcs://127.0.0.1:%u", server_fixture_free_port());
    snprintf(here.unix_url, sizeof here.unix_url, "unix://%s/s", here.dir);
    snprintf(here.wss_url, sizeof here.wss_url, "wss://127.0.0.1:%u/calls", server_fixture_free_port());
    const char *const urls[] = {here.tls_url, here.wss_url, here.grpcs_url, here.unix_url};
    for (size_t u = 0; u < 4; u++) {
        here.args[n++] = "--listen";
        here.args[n++] = urls[u];
    }
    for (size_t f = 0; f < 5; f++) {
        snprintf(paths[f], sizeof paths[f], "%s", path(names[f]));
        here.args[n++] = flags[f];
        here.args[n++] = paths[f];
    }
    here.args[n++] = "--allow-unsafe-store";
    here.args[n++] = "--log-level=debug";
    const server_fixture_options options = {.store = here.store, .args = here.args};
    here.server = server_fixture_start(&options);
    return here.server ? 0 : -1;
}

static int stop(void **state)
{
    server_fixture_free(here.server);
    redis_fixture_free(here.redis);
    authority_free(here.ours);
    authority_free(here.others);
    tempdir_remove(here.dir);
    return 0;
}

/* ---- calls -------------------------------------------------------------------------- */

static sp_caller *over_tcp(void)
{
    sp_caller *c = sp_caller_open(server_fixture_url(here.server), NULL);

    assert_non_null(c);
    return c;
}

static sp_caller *over_unix(void)
{
    sp_caller *c = sp_caller_open(here.unix_url, NULL);

    assert_non_null(c);
    return c;
}

/* NULL when it is not let in. certificate NULL: none. */
static sp_caller *secured(const char *url, const char *certificate)
{
    char key[64];
    sp_caller_tls tls = {.ca = path("ca")};

    if (certificate) {
        snprintf(key, sizeof key, "%s.key", certificate);
        tls.certificate = path(certificate);
        tls.key = path(key);
    }
    return sp_caller_open(url, &tls);
}

static sp_caller *over_tls(const char *certificate)
{
    return secured(here.tls_url, certificate);
}

static reply *ask(sp_caller *c, const char *method, const void *request, const char *token, const char *ns)
{
    const sp_caller_call call = {.method = method, .request = request, .token = token, .ns = ns};
    reply *got = sp_caller_ask(c, &call);

    if (!got)
        fail_msg("%s: the connection ended", method);
    assert_int_equal(got->n_results, 1);
    return got;
}

static void forget(reply *r)
{
    lockstock__rpc__v1__reply__free_unpacked(r, NULL);
}

static const char *said_of(lks_code code)
{
    return code == LKS_UNAUTHENTICATED ? "the caller is not known" : "the caller may not do this";
}

/* The code of an answer. A refusal has no effect, one text, and nothing else in it. */
static lks_code code_of(const reply *r)
{
    const result *only = r->results[0];
    lks_code code = (lks_code)only->code;

    if (code == LKS_UNAUTHENTICATED || code == LKS_PERMISSION_DENIED) {
        assert_int_equal(only->applied, LOCKSTOCK__RPC__V1__APPLIED__APPLIED_NO);
        assert_string_equal(only->message, said_of(code));
        assert_int_equal(only->payload.len, 0);
        assert_int_equal(only->retry_after_ms, 0);
        assert_int_equal(only->n_metadata, 0);
    }
    return code;
}

/* Asks and gives the code. */
static lks_code asks(sp_caller *c, const char *method, const void *request, const char *token, const char *ns)
{
    reply *r = ask(c, method, request, token, ns);
    lks_code code = code_of(r);

    forget(r);
    return code;
}

#define NO_METHOD "/lockstock.v1.StockService/NoSuchMethod"
#define GET_ITEM "/lockstock.v1.StockService/GetItem"
#define PUT_ITEM "/lockstock.v1.StockService/PutItem"
#define INSPECT "/lockstock.v1.LockService/Inspect"

static lks_code gets(sp_caller *c, const char *sku, const char *token, const char *ns)
{
    lks_get_item_request request = LKS_GET_ITEM_REQUEST_INIT;

    request.sku = (char *)(uintptr_t)sku;
    return asks(c, GET_ITEM, &request, token, ns);
}

static lks_code puts_item(sp_caller *c, const char *sku, const char *token, const char *ns)
{
    lks_put_item_request request = LKS_PUT_ITEM_REQUEST_INIT;

    request.sku = (char *)(uintptr_t)sku;
    request.on_hand = 5;
    return asks(c, PUT_ITEM, &request, token, ns);
}

/* ---- the matrix --------------------------------------------------------------------- */

static bool is_of(const lks_rpc_method *method, const char *service)
{
    const char *dot = strrchr(method->path, '.');
    size_t len = strlen(service);

    return strncmp(dot + 1, service, len) == 0 && dot[1 + len] == '/';
}

/* Every right there is, against every method: what it does not say is refused. */
TEST(each_right_allows_its_methods_and_no_other)
{
    sp_caller *c = over_tcp();
    size_t allowed = 0;
    for (size_t s = 0; s < N_SERVICES; s++) {
        for (size_t e = 0; e < N_EFFECTS; e++) {
            for (size_t m = 0; m < N_METHODS; m++) {
                bool may = is_of(methods[m], services[s]) && methods[m]->effect == (lks_rpc_effect)(e + 1);
                lks_code code = asks(c, methods[m]->path, NULL, token_of(s, e), NULL);
                if (code == LKS_UNAUTHENTICATED || (code == LKS_PERMISSION_DENIED) == may)
                    fail_msg("%s with %s of %s: %s", methods[m]->path, effects[e], services[s], lks_code_name(code));
                allowed += may;
            }
        }
    }
    assert_int_equal(allowed, N_METHODS); /* so every method was allowed once */
    sp_caller_close(c);
}

TEST(who_is_not_known_may_do_nothing)
{
    static const char *const tokens[] = {NULL, "", "unknown", "shop-ended" SECRET, "ops", "OPS" SECRET};
    sp_caller *callers[] = {over_tcp(), over_tls(NULL), over_tls("unknown"), secured(here.wss_url, NULL)};
    for (size_t c = 0; c < sizeof callers / sizeof *callers; c++) {
        assert_non_null(callers[c]);
        for (size_t t = 0; t < sizeof tokens / sizeof *tokens; t++)
            for (size_t m = 0; m <= N_METHODS; m++) /* and of one that is not there */
                assert_int_equal(asks(callers[c], m < N_METHODS ? methods[m]->path : NO_METHOD, NULL, tokens[t], NULL),
                                 LKS_UNAUTHENTICATED);
        sp_caller_close(callers[c]);
    }
    sp_caller *c = over_tcp();
    for (size_t m = 0; m < N_METHODS; m++)
        assert_int_equal(asks(c, methods[m]->path, NULL, "nothing" SECRET, NULL), LKS_PERMISSION_DENIED);
    assert_int_equal(asks(c, NO_METHOD, NULL, "nothing" SECRET, NULL), LKS_UNIMPLEMENTED);
    sp_caller_close(c);
}

/* Of a connection that the certificate of "shop" opened. */
static void expect_shop(sp_caller *c)
{
    assert_non_null(c);
    assert_int_equal(puts_item(c, "by-certificate", NULL, NULL), LKS_OK);
    assert_int_equal(gets(c, "by-certificate", NULL, "shop"), LKS_OK);
    assert_int_equal(asks(c, INSPECT, NULL, NULL, NULL), LKS_PERMISSION_DENIED);
    /* A token counts before it, for more and for less. */
    assert_int_equal(gets(c, "by-certificate", "auditor" SECRET, NULL), LKS_NOT_FOUND);
    assert_int_equal(puts_item(c, "by-certificate", "auditor" SECRET, NULL), LKS_PERMISSION_DENIED);
    assert_int_equal(gets(c, "by-certificate", "wrong", NULL), LKS_UNAUTHENTICATED);
    sp_caller_close(c);
}

/* Over TLS in plain and under WebSocket. */
TEST(a_certificate_is_a_principal)
{
    const char *const urls[] = {here.tls_url, here.wss_url};
    for (size_t u = 0; u < 2; u++) {
        assert_null(secured(urls[u], "foreign"));
        assert_null(secured(urls[u], "expired"));
        expect_shop(secured(urls[u], "shop"));
    }
}

TEST(a_token_counts_over_websocket)
{
    sp_caller *c = secured(here.wss_url, NULL);
    assert_int_equal(puts_item(c, "by-token", "shop" SECRET, NULL), LKS_OK);
    assert_int_equal(gets(c, "by-token", "shop" SECRET, NULL), LKS_OK);
    assert_int_equal(puts_item(c, "by-token", "auditor" SECRET, NULL), LKS_PERMISSION_DENIED);
    assert_int_equal(gets(c, "by-token", "wrong", NULL), LKS_UNAUTHENTICATED);
    assert_int_equal(gets(c, "by-token", NULL, NULL), LKS_UNAUTHENTICATED);
    sp_caller_close(c);
}

TEST(a_uid_is_a_principal)
{
    sp_caller *c = over_unix();
    assert_int_equal(puts_item(c, "by-uid", NULL, NULL), LKS_OK);
    assert_int_equal(gets(c, "by-uid", NULL, "box"), LKS_OK);
    assert_int_equal(gets(c, "by-uid", NULL, "shop"), LKS_PERMISSION_DENIED);
    assert_int_equal(gets(c, "by-uid", "shop" SECRET, NULL), LKS_NOT_FOUND);
    assert_int_equal(gets(c, "by-uid", "wrong", NULL), LKS_UNAUTHENTICATED);
    write_policy(""); /* no uid any more */
    reload("event=reloaded");
    assert_int_equal(gets(c, "by-uid", NULL, NULL), LKS_UNAUTHENTICATED);
    sp_caller_close(c);
    c = over_tcp(); /* which has no uid */
    assert_int_equal(gets(c, "by-uid", NULL, NULL), LKS_UNAUTHENTICATED);
    sp_caller_close(c);
}

TEST(a_principal_stays_in_its_namespace)
{
    sp_caller *c = over_tcp();
    assert_int_equal(puts_item(c, "apart", "shop" SECRET, NULL), LKS_OK);
    assert_int_equal(gets(c, "apart", "ops" SECRET, "shop"), LKS_OK);
    assert_int_equal(gets(c, "apart", "ops" SECRET, NULL), LKS_NOT_FOUND);
    static const char *const elsewhere[] = {"default", "other", "sho", "shopx", "Shop", "shop "};
    for (size_t n = 0; n < sizeof elsewhere / sizeof *elsewhere; n++) {
        assert_int_equal(gets(c, "apart", "shop" SECRET, elsewhere[n]), LKS_PERMISSION_DENIED);
        assert_int_equal(puts_item(c, "apart", "shop" SECRET, elsewhere[n]), LKS_PERMISSION_DENIED);
    }
    sp_caller_close(c);
}

/* The same bytes for what is there and for what is not. */
static void assert_same_refusal(sp_caller *c, const char *method, const void *there, const void *missing,
                                const char *token, const char *ns)
{
    uint8_t bytes[2][512];
    const void *const requests[] = {there, missing};
    size_t len[2];

    for (size_t i = 0; i < 2; i++) {
        reply *r = ask(c, method, requests[i], token, ns);
        assert_true(code_of(r) == LKS_UNAUTHENTICATED || code_of(r) == LKS_PERMISSION_DENIED);
        len[i] = lockstock__rpc__v1__reply__get_packed_size(r);
        assert_true(len[i] <= sizeof bytes[i]);
        lockstock__rpc__v1__reply__pack(r, bytes[i]);
        forget(r);
    }
    assert_int_equal(len[0], len[1]);
    assert_memory_equal(bytes[0], bytes[1], len[0]);
}

TEST(a_refusal_does_not_tell_what_exists)
{
    static char secret_name[] = PAYLOAD, none[] = "no-such-thing";
    static const struct {
        const char *token, *ns;
    } callers[] = {{NULL, NULL},
                   {"unknown", NULL},
                   {"shop-ended" SECRET, "shop"},
                   {"nothing" SECRET, NULL},
                   {"shop" SECRET, "other"},
                   {"looks" SECRET, "shop"}};
    lks_get_item_request item[2] = {LKS_GET_ITEM_REQUEST_INIT, LKS_GET_ITEM_REQUEST_INIT};
    lks_put_item_request put[2] = {LKS_PUT_ITEM_REQUEST_INIT, LKS_PUT_ITEM_REQUEST_INIT};
    lks_inspect_request lock[2] = {LKS_INSPECT_REQUEST_INIT, LKS_INSPECT_REQUEST_INIT};
    lks_target target = LKS_TARGET_INIT, *targets[] = {&target};
    lks_acquire_request acquire = LKS_ACQUIRE_REQUEST_INIT;
    sp_caller *c = over_tcp();
    item[0].sku = put[0].sku = lock[0].name = target.name = secret_name;
    item[1].sku = put[1].sku = lock[1].name = none;
    put[0].on_hand = put[1].on_hand = 7;
    acquire.token = secret_name;
    acquire.owner = secret_name;
    acquire.lease_ms = 60000;
    acquire.targets = targets;
    acquire.n_targets = 1;
    static char token[] = PAYLOAD "-of-the-lock";
    acquire.token = token;
    for (int ns = 0; ns < 2; ns++) {
        assert_int_equal(puts_item(c, PAYLOAD, "ops" SECRET, ns ? "shop" : "other"), LKS_OK);
        assert_int_equal(asks(c, "/lockstock.v1.LockService/Acquire", &acquire, "ops" SECRET, ns ? "shop" : "other"),
                         LKS_OK);
    }
    for (size_t i = 0; i < sizeof callers / sizeof *callers; i++) {
        assert_same_refusal(c, GET_ITEM, &item[0], &item[1], callers[i].token, callers[i].ns);
        assert_same_refusal(c, PUT_ITEM, &put[0], &put[1], callers[i].token, callers[i].ns);
        assert_same_refusal(c, INSPECT, &lock[0], &lock[1], callers[i].token, callers[i].ns);
    }
    /* NO was true: what was there is as it was, and nothing else is there. */
    assert_int_equal(gets(c, none, "ops" SECRET, "shop"), LKS_NOT_FOUND);
    assert_int_equal(gets(c, none, "ops" SECRET, "other"), LKS_NOT_FOUND);
    assert_int_equal(gets(c, none, "ops" SECRET, NULL), LKS_NOT_FOUND);
    sp_caller_close(c);
}

/* The library, with its token, over what it dials. */
TEST(the_client_says_who_it_is)
{
    static const struct {
        const char *token;
        lks_code code;
    } cases[] = {{"shop" SECRET, LKS_OK},
                 {"auditor" SECRET, LKS_PERMISSION_DENIED},
                 {"wrong", LKS_UNAUTHENTICATED},
                 {NULL, LKS_UNAUTHENTICATED}};
    lks_put_item_request item = LKS_PUT_ITEM_REQUEST_INIT;
    static char sku[] = "by-the-library";
    item.sku = sku;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const lks_channel_options options = {.token = cases[i].token};
        lks_channel *channel;
        lks_error error;
        assert_int_equal(lks_channel_open(server_fixture_url(here.server), &options, &channel, &error), LKS_OK);
        assert_int_equal(lks_stock_put_item(channel, &item, NULL, NULL, &error), cases[i].code);
        if (cases[i].code != LKS_OK)
            assert_int_equal(error.applied, LKS_APPLIED_NO);
        lks_channel_close(channel);
    }
    sp_caller *c = over_tcp();
    assert_int_equal(gets(c, sku, "ops" SECRET, "shop"), LKS_OK);
    sp_caller_close(c);
}

/* gRPC over TLS, by its own client, with health and reflection. */
TEST(grpc_judges_alike)
{
    const char *const args[] = {"/usr/bin/python3", ADMISSION_GRPC, here.grpcs_url + strlen("grpcs://"),
                                here.dir,           SECRET,         NULL};
    process *script = process_spawn(args, NULL);
    assert_non_null(script);
    assert_true(process_exited_with(script, 0, EXIT_TIMEOUT_MS));
    process_free(script);
}

/* ---- files that change -------------------------------------------------------------- */

static void write_two_tokens(const char *first, const char *second)
{
    FILE *file = fopen(path("tokens"), "w");

    assert_non_null(file);
    if (first)
        add_token(file, first, "shop", 0);
    if (second)
        add_token(file, second, "shop", 0);
    fclose(file);
}

/* The old, both, the new: no moment without one that counts. */
TEST(tokens_rotate)
{
    sp_caller *c = over_tcp();
    write_two_tokens("old" SECRET, NULL);
    reload("event=reloaded");
    assert_int_equal(puts_item(c, "rotated", "old" SECRET, NULL), LKS_OK);
    assert_int_equal(gets(c, "rotated", "new" SECRET, NULL), LKS_UNAUTHENTICATED);
    write_two_tokens("old" SECRET, "new" SECRET);
    reload("event=reloaded");
    assert_int_equal(gets(c, "rotated", "old" SECRET, NULL), LKS_OK);
    assert_int_equal(gets(c, "rotated", "new" SECRET, NULL), LKS_OK);
    write_two_tokens("new" SECRET, NULL);
    reload("event=reloaded");
    assert_int_equal(gets(c, "rotated", "old" SECRET, NULL), LKS_UNAUTHENTICATED);
    assert_int_equal(gets(c, "rotated", "new" SECRET, NULL), LKS_OK);
    sp_caller_close(c);
}

TEST(certificates_rotate)
{
    sp_caller *old = over_tls("shop");
    assert_non_null(old);
    assert_string_equal(sp_caller_server_name(old), "first");
    write_certificates("second");
    authority_write(here.others, path("client-ca")); /* who signs clients changes too */
    reload("event=reloaded");
    sp_caller *new = over_tls("foreign"); /* is not foreign any more */
    assert_non_null(new);
    assert_string_equal(sp_caller_server_name(new), "second");
    assert_int_equal(puts_item(new, "by-both", NULL, NULL), LKS_OK);
    assert_null(over_tls("shop"));
    assert_int_equal(gets(old, "by-both", NULL, NULL), LKS_OK); /* lives on */
    sp_caller_close(new);
    sp_caller_close(old);
}

static void assert_all_as_it_was(sp_caller *c)
{
    sp_caller *secure = over_tls("shop");

    assert_non_null(secure);
    assert_string_equal(sp_caller_server_name(secure), "first");
    assert_int_equal(gets(secure, "x", NULL, NULL), LKS_NOT_FOUND);
    assert_int_equal(gets(c, "x", "shop" SECRET, NULL), LKS_NOT_FOUND);
    assert_int_equal(gets(c, "x", "auditor" SECRET, NULL), LKS_NOT_FOUND);
    assert_int_equal(gets(c, "x", "new" SECRET, NULL), LKS_UNAUTHENTICATED);
    sp_caller_close(secure);
}

/* One wrong file, and none of them counts. */
TEST(a_wrong_file_leaves_all_as_it_was)
{
    static const char *const files[] = {"policy", "tokens", "server", "server.key", "client-ca"};
    sp_caller *c = over_tcp();
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        for (int gone = 0; gone < 2; gone++) {
            write_policy("[new]\n* = READ\n");
            write_two_tokens("new" SECRET, NULL);
            write_certificates("second");
            if (gone)
                unlink(path(files[f]));
            else
                write_file(files[f], "nonsense " SECRET "\n");
            reload("event=not-reloaded");
            authority_write(here.ours, path("ca"));
            assert_all_as_it_was(c);
        }
    }
    sp_caller_close(c);
}

/* ---- starting ----------------------------------------------------------------------- */

/* Runs lockstockd with a URL and some of the files; it must end, having said `text`. */
static void assert_refused(const char *url, const char *flags, const char *text)
{
    char words[256], values[6][256], store[160];
    const char *args[24] = {server_fixture_program(), "--listen", url, "--store", store};
    size_t n = 5, n_values = 0;
    char *rest = NULL;
    int status = 0;

    snprintf(store, sizeof store, "unix://%s/no-redis", here.dir); /* it never comes to that */
    snprintf(words, sizeof words, "%s", flags);
    for (char *word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        bool is_flag = strncmp(word, "--", 2) == 0;
        if (!is_flag)
            snprintf(values[n_values], sizeof values[0], "%s", path(word));
        args[n++] = is_flag ? word : values[n_values++];
    }
    process *p = process_spawn(args, NULL);
    assert_non_null(p);
    assert_true(process_wait(p, EXIT_TIMEOUT_MS, &status));
    if (status == 0 || !strstr(process_output(p), text))
        fail_msg("--listen %s %s: %s", url, flags, process_output(p));
    process_free(p);
}

/* 192.0.2.1 is nobody's (RFC 5737): past the rule it cannot be bound. */
TEST(beyond_this_machine_only_safe_or_insecure)
{
#define TLS "--tls-certificate server --tls-key server.key"
    static const struct {
        const char *url, *flags;
        bool refused;
    } cases[] = {
        {"tcp://192.0.2.1:7700", "", true},
        {"tcp://0.0.0.0:0", "", true},
        {"tcp://*:0", "", true},
        {"tcp://[::]:0", "", true},
        {"tcp://127.0.0.1.example:0", "", true}, /* a name */
        {"tcp://192.0.2.1:7700", "--policy policy", true},
        {"grpc://192.0.2.1:7700", "--policy policy", true},
        {"nng+tcp://192.0.2.1:7700", "--policy policy", true},
        {"nng+ws://192.0.2.1:7700/x", "--policy policy", true},
        {"ws://192.0.2.1:7700/x", "--policy policy", true},
        {"ws://0.0.0.0:0", "", true},
        {"wss://192.0.2.1:7700/x", TLS, true},
        {"wss://192.0.2.1:7700/x", TLS " --policy policy", false},
        {"tls://192.0.2.1:7700", TLS, true},
        {"grpcs://192.0.2.1:7700", TLS, true},
        {"tls://192.0.2.1:7700", TLS " --tls-client-ca client-ca --tls-client-required", true},
        {"tls://192.0.2.1:7700", TLS " --policy policy", false},
        {"grpcs://192.0.2.1:7700", TLS " --policy policy", false},
        {"tcp://192.0.2.1:7700", "--insecure", false},
        {"tls://192.0.2.1:7700", TLS " --insecure", false},
        {"grpc://192.0.2.1:7700", "--insecure --policy policy", false},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        assert_refused(cases[c].url, cases[c].flags, cases[c].refused ? "beyond this machine" : "not available");
}

TEST(libnng_beyond_this_machine_is_warned_of)
{
    assert_refused("nng+tcp://192.0.2.1:7700", "--insecure",
                   "level=warn event=libnng-exposed url=nng+tcp://192.0.2.1:7700");
}

TEST(settings_that_would_do_nothing_are_refused)
{
    assert_refused("tls://127.0.0.1:0", "", "--tls-certificate and --tls-key");
    assert_refused("wss://127.0.0.1:0/x", "", "--tls-certificate and --tls-key");
    assert_refused("tcp://127.0.0.1:0", "--allow-origin=https://shop.example", "needs an address of ws://");
    assert_refused("ws://127.0.0.1:0", "--allow-origin=*", "must be scheme://host");
    assert_refused("ws://127.0.0.1:0", "--allow-origin=null", "must be scheme://host");
    assert_refused("ws://127.0.0.1:0", "--allow-origin=https://*.shop.example", "must be scheme://host");
    assert_refused("ws://127.0.0.1:0", "--allow-origin=https://shop.example/", "must be scheme://host");
    assert_refused("ws://127.0.0.1:0/a?b", "", "the path must be /");
    assert_refused("tcp://127.0.0.1:0", "--tls-certificate server", "need each other");
    assert_refused("tcp://127.0.0.1:0", "--tls-key server.key", "need each other");
    assert_refused("tcp://127.0.0.1:0", "--tls-client-ca client-ca", "needs --tls-certificate");
    assert_refused("tcp://127.0.0.1:0", "--tls-client-required", "needs --tls-client-ca");
    assert_refused("tls://127.0.0.1:0", TLS " --tls-client-required", "needs --tls-client-ca");
    assert_refused("tcp://127.0.0.1:0", "--tokens tokens", "tokens need a policy");
    assert_refused("tcp://127.0.0.1:0", "--policy nowhere", "cannot be read");
    assert_refused("tcp://127.0.0.1:0", "--policy policy --tokens nowhere", "cannot be read");
}

/* ---- the page ----------------------------------------------------------------------- */

/* Runs all commands of docs/security.md, in order, in a directory of its own. */
static void run_commands(const char *directory)
{
    static char script[8192];
    FILE *page = fopen(SECURITY_MD, "r");
    char line[512];
    int state = 0; /* 1: after the mark, 2: in the block */
    size_t len = (size_t)snprintf(script, sizeof script, "set -e\numask 077\ncd '%s'\n", directory);

    assert_non_null(page);
    while (fgets(line, sizeof line, page)) {
        bool fence = strncmp(line, "```", 3) == 0;
        if (state == 2 && !fence)
            len += (size_t)snprintf(script + len, sizeof script - len, "%s", line);
        if (strcmp(line, "<!-- commands -->\n") == 0 || (fence && state == 1))
            state++;
        else if (fence)
            state = 0;
    }
    fclose(page);
    assert_in_range(len, 200, sizeof script - 1);
    const char *const args[] = {"sh", "-c", script, NULL};
    process *shell = process_spawn(args, NULL);
    assert_non_null(shell);
    assert_true(process_exited_with(shell, 0, EXIT_TIMEOUT_MS));
    process_free(shell);
}

static void read_word(const char *file, char *word, size_t size)
{
    FILE *from = fopen(file, "r");

    assert_non_null(from);
    assert_non_null(fgets(word, (int)size, from));
    word[strcspn(word, "\n")] = '\0';
    fclose(from);
}

/* What the page's commands make, in place of the test's own files. */
TEST(the_page_makes_what_the_server_takes)
{
    char directory[160], token[128], command[1024];
    static char ca[256], certificate[256], key[256];
    snprintf(directory, sizeof directory, "%s", path("page"));
    assert_int_equal(mkdir(directory, 0700), 0);
    run_commands(directory);
    snprintf(command, sizeof command,
             "cd '%s' && cp page/tokens tokens && cp page/lockstock.pem server && cp page/lockstock.key server.key && "
             "cp page/ca.pem client-ca",
             here.dir);
    const char *const args[] = {"sh", "-c", command, NULL};
    process *shell = process_spawn(args, NULL);
    assert_true(process_exited_with(shell, 0, EXIT_TIMEOUT_MS));
    process_free(shell);
    reload("event=reloaded");

    snprintf(ca, sizeof ca, "%s/ca.pem", directory);
    snprintf(certificate, sizeof certificate, "%s/shop.pem", directory);
    snprintf(key, sizeof key, "%s/shop.key", directory);
    const sp_caller_tls tls = {.ca = ca, .certificate = certificate, .key = key};
    sp_caller *c = sp_caller_open(here.tls_url, &tls);
    assert_non_null(c);
    assert_string_equal(sp_caller_server_name(c), "lockstock");
    assert_int_equal(gets(c, "missing", NULL, "shop"), LKS_NOT_FOUND);
    sp_caller_close(c);
    snprintf(ca, sizeof ca, "%s/shop.token", directory);
    read_word(ca, token, sizeof token);
    c = over_tcp();
    assert_int_equal(gets(c, "missing", token, NULL), LKS_NOT_FOUND);
    sp_caller_close(c);
}

/* ---- the log ------------------------------------------------------------------------ */

/* Some lines a second are written of a kind: so it is refused until its line is there. */
static void expect_refusal_logged(sp_caller *c, const char *wire)
{
    long long end = process_now_ms() + SP_CALLER_TIMEOUT_MS;
    char line[64];

    assert_non_null(c);
    snprintf(line, sizeof line, "event=call-refused wire=%s from=", wire);
    while (!strstr(process_output(server_fixture_process(here.server)), line) && process_now_ms() < end) {
        assert_int_equal(gets(c, "refused", "wrong", NULL), LKS_UNAUTHENTICATED);
        process_pause();
    }
    assert_non_null(strstr(process_output(server_fixture_process(here.server)), line));
    sp_caller_close(c);
}

/* Last: all that was done above is in it. */
TEST(refused_calls_are_logged_and_no_secret_is)
{
    static const char *const secrets[] = {SECRET, STORE_PASSWORD, PAYLOAD, "PRIVATE KEY", "earer"};
    expect_refusal_logged(over_tcp(), "tcp");
    expect_refusal_logged(secured(here.tls_url, NULL), "tls");
    expect_refusal_logged(secured(here.wss_url, NULL), "wss");
    const char *log = process_output(server_fixture_process(here.server));
    assert_non_null(strstr(log, "event=listening"));
    assert_non_null(strstr(log, "event=not-reloaded"));
    assert_non_null(strstr(log, "code=UNAUTHENTICATED reason=\"the caller is not known\""));
    assert_non_null(strstr(log, "code=PERMISSION_DENIED reason=\"the caller may not do this\""));
    for (size_t s = 0; s < sizeof secrets / sizeof *secrets; s++)
        if (strstr(log, secrets[s]))
            fail_msg("\"%s\" is in the log:\n%s", secrets[s], log);
}

/* Neither when the store refuses it, at once and later. */
TEST(no_password_is_logged_when_the_store_refuses)
{
    char store[256];
    snprintf(store, sizeof store, "unix://:wrong-" STORE_PASSWORD "@%s", redis_fixture_socket(here.redis));
    const char *const args[] = {
        server_fixture_program(), "--listen", "tcp://127.0.0.1:0", "--store", store, "--log-level", "debug", NULL};
    process *p = process_spawn(args, NULL);
    assert_non_null(p);
    assert_true(process_wait_line(p, "event=not-ready", NULL, 0, LINE_TIMEOUT_MS));
    process_signal(p, SIGTERM);
    assert_true(process_exited_with(p, 0, EXIT_TIMEOUT_MS));
    assert_null(strstr(process_output(p), STORE_PASSWORD));
    process_free(p);
}

TEST(modes_that_are_too_open_are_warned_of)
{
    const char *log;
    chmod(path("server.key"), 0644);
    chmod(path("tokens"), 0622);
    reload("event=reloaded");
    log = process_output(server_fixture_process(here.server));
    assert_non_null(strstr(log, "server.key mode=644 reason=\"others may read it\""));
    assert_non_null(strstr(log, "tokens mode=622 reason=\"others may write it\""));
    chmod(path("server.key"), 0600);
    chmod(path("tokens"), 0600);
}

TEST_MAIN(.setup_all = start, .teardown_all = stop, .setup = put_files_back)
