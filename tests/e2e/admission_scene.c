/* Invariant: before each test the files are as at first, and the server has read them. */
#include "admission_scene.h"

struct admission_scene here;

/* ---- files -------------------------------------------------------------------------- */

const char *path(const char *name)
{
    static char paths[8][256];
    static size_t next;
    char *p = paths[next++ % 8];

    snprintf(p, sizeof paths[0], "%s/%s", here.dir, name);
    return p;
}

void write_file(const char *name, const char *text)
{
    assert_true(tempdir_write(path(name), text));
}

static void sign(const authority *by, const char *name, certificate_wish wish)
{
    char key[64];

    snprintf(key, sizeof key, "%s.key", name);
    authority_sign(by, &wish, path(name), path(key));
}

void add_token(FILE *file, const char *token, const char *principal, long until)
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

const char *token_of(size_t service, size_t effect)
{
    static char token[128];

    snprintf(token, sizeof token, "%s-%s" SECRET, services[service], effects[effect]);
    return token;
}

void write_policy(const char *more)
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

void write_certificates(const char *server_name)
{
    authority_write(here.ours, path("ca"));
    sign(here.ours, "server", (certificate_wish){.common = {server_name, 0}, .dns = {{"localhost", 0}}});
    authority_write(here.ours, path("client-ca"));
}

void reload(const char *event)
{
    process_signal(server_fixture_process(here.server), SIGHUP);
    if (!process_wait_line(server_fixture_process(here.server), event, NULL, 0, SAID_TIMEOUT_MS))
        fail_msg("no %s:\n%s", event, process_output(server_fixture_process(here.server)));
}

int put_files_back(void **state)
{
    write_uid_policy();
    write_tokens();
    write_certificates("first");
    if (here.server)
        reload("event=reloaded");
    return 0;
}

/* ---- the server --------------------------------------------------------------------- */

int start(void **state)
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

int stop(void **state)
{
    server_fixture_free(here.server);
    redis_fixture_free(here.redis);
    authority_free(here.ours);
    authority_free(here.others);
    tempdir_remove(here.dir);
    return 0;
}

/* ---- calls -------------------------------------------------------------------------- */

sp_caller *over_tcp(void)
{
    sp_caller *c = sp_caller_open(server_fixture_url(here.server), NULL);

    assert_non_null(c);
    return c;
}

sp_caller *over_unix(void)
{
    sp_caller *c = sp_caller_open(here.unix_url, NULL);

    assert_non_null(c);
    return c;
}

sp_caller *secured(const char *url, const char *certificate)
{
    char key[64];
    line_tls tls = {.ca = path("ca")};

    if (certificate) {
        snprintf(key, sizeof key, "%s.key", certificate);
        tls.certificate = path(certificate);
        tls.key = path(key);
    }
    return sp_caller_open(url, &tls);
}

sp_caller *over_tls(const char *certificate)
{
    return secured(here.tls_url, certificate);
}

static outcome ask(sp_caller *c, const char *method, const void *request, const char *token, const char *ns)
{
    const sp_caller_call call = {.method = method, .request = request, .token = token, .ns = ns};
    outcome got;

    if (!sp_caller_ask(c, &call, &got))
        fail_msg("%s: the connection ended", method);
    free(got.payload);
    return got;
}

static const char *said_of(lks_code code)
{
    return code == LKS_UNAUTHENTICATED ? "the caller is not known" : "the caller may not do this";
}

/* The code of an answer. A refusal has no effect, one text, and nothing else in it. */
static lks_code code_of(const outcome *got)
{
    if (got->code == LKS_UNAUTHENTICATED || got->code == LKS_PERMISSION_DENIED) {
        assert_int_equal(got->applied, LKS_APPLIED_NO);
        assert_string_equal(got->message, said_of(got->code));
        assert_true(got->bare);
        assert_false(got->says_when);
    }
    return got->code;
}

lks_code asks(sp_caller *c, const char *method, const void *request, const char *token, const char *ns)
{
    const outcome got = ask(c, method, request, token, ns);

    return code_of(&got);
}

lks_code gets(sp_caller *c, const char *sku, const char *token, const char *ns)
{
    lks_get_item_request request = LKS_GET_ITEM_REQUEST_INIT;

    request.sku = sku;
    return asks(c, GET_ITEM, &request, token, ns);
}

lks_code puts_item(sp_caller *c, const char *sku, const char *token, const char *ns)
{
    lks_put_item_request request = LKS_PUT_ITEM_REQUEST_INIT;

    request.sku = sku;
    request.on_hand = 5;
    return asks(c, PUT_ITEM, &request, token, ns);
}
