/* Who may do what, on a real lockstockd: the whole matrix of evidence, services and
 * effects over every transport that carries it, and files that change under it. */
/* promise K10 */
/* promise F8 */
#include <fcntl.h>

#include "admission_scene.h"

/* ---- the matrix --------------------------------------------------------------------- */

static bool is_of(const lks_rpc_method *method, const char *service)
{
    const char *dot = strrchr(method->path, '.');
    size_t len = strlen(service);

    return strncmp(dot + 1, service, len) == 0 && dot[1 + len] == '/';
}

/* Everyone who is known may ask who it is taken for. */
static bool needs_no_right(const lks_rpc_method *method)
{
    return strcmp(method->path, "/lockstock.v1.AdminService/WhoAmI") == 0;
}

/* Every right there is, against every method: what it does not say is refused. */
/* promise A2: a right is an effect in a service; each right allows its methods and no other: PERMISSION_DENIED, NO */
TEST(each_right_allows_its_methods_and_no_other)
{
    sp_caller *c = over_tcp();
    size_t allowed = 0;
    for (size_t s = 0; s < N_SERVICES; s++) {
        for (size_t e = 0; e < N_EFFECTS; e++) {
            for (size_t m = 0; m < N_METHODS; m++) {
                bool may = is_of(methods[m], services[s]) && methods[m]->effect == (lks_rpc_effect)(e + 1);
                lks_code code = asks(c, methods[m]->path, NULL, token_of(s, e), NULL);
                bool is_served = code != LKS_UNAUTHENTICATED && code != LKS_PERMISSION_DENIED;
                if (is_served != (may || needs_no_right(methods[m])))
                    fail_msg("%s with %s of %s: %s", methods[m]->path, effects[e], services[s], lks_code_name(code));
                allowed += may;
            }
        }
    }
    assert_int_equal(allowed, N_METHODS); /* so every method was allowed once */
    sp_caller_close(c);
}

/* The caller frees it. */
static lks_who_am_i_response *who_am_i(sp_caller *c, const char *token)
{
    const sp_caller_call call = {.method = "/lockstock.v1.AdminService/WhoAmI", .token = token};
    outcome got;
    assert_true(sp_caller_ask(c, &call, &got));
    assert_int_equal(got.code, LKS_OK);
    lks_who_am_i_response *who = lockstock__v1__who_am_iresponse__unpack(NULL, got.len, got.payload);
    assert_non_null(who);
    assert_true(who->policy);
    free(got.payload);
    return who;
}

static void assert_right(const lks_right *right, const char *service, bool read, bool write, bool administer)
{
    assert_string_equal(right->service, service);
    assert_int_equal(right->read, read);
    assert_int_equal(right->write, write);
    assert_int_equal(right->admin, administer);
}

TEST(a_caller_learns_who_it_is_taken_for)
{
    sp_caller *c = over_tcp(), *by_certificate = over_tls("shop");
    int64_t now_ms = time(NULL) * (int64_t)1000;
    lks_who_am_i_response *who = who_am_i(c, "shop" SECRET);
    assert_string_equal(who->principal, "shop");
    assert_string_equal(who->namespace_, "shop");
    assert_int_equal(who->n_rights, 1);
    assert_right(who->rights[0], "StockService", true, true, false);
    assert_in_range(who->token_ends_at_ms, now_ms, now_ms + 86400000);
    lockstock__v1__who_am_iresponse__free_unpacked(who, NULL);
    who = who_am_i(by_certificate, NULL);
    assert_string_equal(who->principal, "shop");
    assert_int_equal(who->token_ends_at_ms, 0);
    lockstock__v1__who_am_iresponse__free_unpacked(who, NULL);
    who = who_am_i(c, "ops" SECRET);
    assert_string_equal(who->principal, "ops");
    assert_string_equal(who->namespace_, "");
    assert_right(who->rights[0], "*", true, true, true);
    assert_int_equal(who->token_ends_at_ms, 0);
    lockstock__v1__who_am_iresponse__free_unpacked(who, NULL);
    who = who_am_i(c, "nothing" SECRET);
    assert_int_equal(who->n_rights, 0);
    lockstock__v1__who_am_iresponse__free_unpacked(who, NULL);
    sp_caller_close(by_certificate);
    sp_caller_close(c);
}

/* promise A1: with a policy file an unknown caller may do nothing: UNAUTHENTICATED, NO */
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
        assert_int_equal(asks(c, methods[m]->path, NULL, "nothing" SECRET, NULL),
                         needs_no_right(methods[m]) ? LKS_OK : LKS_PERMISSION_DENIED);
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
/* promise A4 */
/* promise A6: a client certificate is requested and must be valid now, signed by the authority, and meant for
 * clients promise A6: a client certificate is requested and must be valid now, signed by the authority, and meant
 * for clients */
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

/* promise A4 */
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

/* promise A3 */
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

/* The same for what is there and for what is not: code_of looks at all the rest. */
static void assert_same_refusal(sp_caller *c, const char *method, const void *there, const void *missing,
                                const char *token, const char *ns)
{
    const lks_code code = asks(c, method, there, token, ns);

    assert_true(code == LKS_UNAUTHENTICATED || code == LKS_PERMISSION_DENIED);
    assert_int_equal(asks(c, method, missing, token, ns), code);
}

/* promise A3: a principal stays in its namespace; a refusal does not show what exists */
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
/* promise A13 */
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
/* promise A2 */
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
/* promise A10 */
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

/* promise A10: SIGHUP replaces tokens and certificates and keeps connections; one wrong file leaves everything
 * unchanged */
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
/* promise A10 */
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

/* The policy is a pipe: whoever reads it waits for its writer. A second signal comes while the first reload waits. */
TEST(a_slow_file_holds_up_no_call)
{
    char policy[4096];
    sp_caller *c = over_tcp();
    process *server = server_fixture_process(here.server);
    int from = open(path("policy"), O_RDONLY | O_CLOEXEC);
    ssize_t len = read(from, policy, sizeof policy);
    assert_in_range(len, 1, sizeof policy - 1);
    close(from);
    unlink(path("policy"));
    assert_int_equal(mkfifo(path("policy"), 0600), 0);
    process_signal(server, SIGHUP);
    for (int i = 0; i < 2; i++) {
        int to = open(path("policy"), O_WRONLY | O_CLOEXEC); /* until it is read */
        assert_int_equal(gets(c, "x", "shop" SECRET, NULL), LKS_NOT_FOUND);
        if (i == 0)
            process_signal(server, SIGHUP);
        assert_int_equal(gets(c, "x", "auditor" SECRET, NULL), LKS_NOT_FOUND);
        assert_int_equal(write(to, policy, (size_t)len), len);
        close(to);
        if (!process_wait_line(server, "event=reloaded", NULL, 0, SAID_TIMEOUT_MS))
            fail_msg("not reloaded");
    }
    assert_int_equal(gets(c, "x", "shop" SECRET, NULL), LKS_NOT_FOUND);
    unlink(path("policy"));
    sp_caller_close(c);
}

TEST_MAIN(.setup_all = start, .teardown_all = stop, .setup = put_files_back)
