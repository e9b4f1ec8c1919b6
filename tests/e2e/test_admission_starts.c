/* With which settings lockstockd starts; what docs/security.md says to do; and nothing secret in its log. */
/* promise F8 */
#include "admission_scene.h"

#define FORCE_RELEASE "/lockstock.v1.LockService/ForceRelease"
#define ACQUIRE "/lockstock.v1.LockService/Acquire"

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
/* promise A11 */
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
        assert_refused(cases[c].url, cases[c].flags,
                       cases[c].refused ? "an address that other machines can reach" : "not available");
}

/* promise WS8: origins that are none, or that no address would heed, are refused */
/* promise A11: addresses other than loopback need TLS and a policy, or --insecure; a setting without effect is
 * refused */
TEST(settings_that_would_do_nothing_are_refused)
{
    assert_refused("tls://127.0.0.1:0", "", "--tls-certificate and --tls-key");
    assert_refused("wss://127.0.0.1:0/x", "", "--tls-certificate and --tls-key");
    assert_refused("tcp://127.0.0.1:0", "--console", "needs an http:// or https:// address");
    assert_refused("tcp://127.0.0.1:0", "--allow-origin=https://shop.example", "needs a ws:// or wss:// address");
    assert_refused("ws://127.0.0.1:0", "--allow-origin=*", "must be scheme://host");
    assert_refused("ws://127.0.0.1:0", "--allow-origin=null", "must be scheme://host");
    assert_refused("ws://127.0.0.1:0", "--allow-origin=https://*.shop.example", "must be scheme://host");
    assert_refused("ws://127.0.0.1:0", "--allow-origin=https://shop.example/", "must be scheme://host");
    assert_refused("ws://127.0.0.1:0/a?b", "", "the path must begin with /");
    assert_refused("tcp://127.0.0.1:0", "--tls-certificate server", "need each other");
    assert_refused("tcp://127.0.0.1:0", "--tls-key server.key", "need each other");
    assert_refused("tls://127.0.0.1:0", "--tls-certificate nowhere --tls-key server.key",
                   "nowhere: No such file or directory");
    assert_refused("tls://127.0.0.1:0", "--tls-certificate nowhere --tls-key server.key", ": --tls-certificate: /");
    assert_refused("tls://127.0.0.1:0", "--tls-certificate server --tls-key nowhere", ": --tls-key: /");
    assert_refused("tls://127.0.0.1:0", TLS " --tls-client-ca server.key", ": --tls-client-ca: /");
    assert_refused("tcp://127.0.0.1:0", "--tls-client-ca client-ca", "needs --tls-certificate");
    assert_refused("tcp://127.0.0.1:0", "--tls-client-required", "needs --tls-client-ca");
    assert_refused("tls://127.0.0.1:0", TLS " --tls-client-required", "needs --tls-client-ca");
    assert_refused("tcp://127.0.0.1:0", "--tokens tokens", "tokens need a policy");
    assert_refused("tcp://127.0.0.1:0", "--policy nowhere", "nowhere: cannot be read: No such file or directory");
    assert_refused("tcp://127.0.0.1:0", "--policy nowhere", ": --policy: /");
    assert_refused("tcp://127.0.0.1:0", "--policy policy --tokens nowhere", ": --tokens: /");
    assert_refused("tcp://127.0.0.1:0", "--policy policy --tokens nowhere",
                   "nowhere: cannot be read: No such file or directory");
}

/* ---- the page ----------------------------------------------------------------------- */

/* Runs all commands of docs/security.md, in order, in a directory of its own. */
static void run_commands(const char *directory)
{
    static char script[8192];
    FILE *page = fopen(SECURITY_MD, "r");
    char text[512];
    int state = 0; /* 1: after the mark, 2: in the block */
    size_t len = (size_t)snprintf(script, sizeof script, "set -e\numask 077\ncd '%s'\n", directory);

    assert_non_null(page);
    while (fgets(text, sizeof text, page)) {
        bool fence = strncmp(text, "```", 3) == 0;
        if (state == 2 && !fence)
            len += (size_t)snprintf(script + len, sizeof script - len, "%s", text);
        if (strcmp(text, "<!-- commands -->\n") == 0 || (fence && state == 1))
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
    const line_tls tls = {.ca = ca, .certificate = certificate, .key = key};
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

/* Some lines a second are written of a kind: so a call is refused until its line is there. */
static void expect_refusal_logged(const char *wire, const wire_driver *driver, void *caller)
{
    const call_spec call = {.method = "/lockstock.v1.IdService/Decode", .authorization = "Bearer wrong"};
    long long end = process_now_ms() + SAID_TIMEOUT_MS;
    char said[96];
    outcome got;

    assert_non_null(caller);
    snprintf(said, sizeof said, "method=/lockstock.v1.IdService/Decode wire=%s from=127.0.0.1", wire);
    while (!strstr(process_output(server_fixture_process(here.server)), said) && process_now_ms() < end) {
        assert_true(driver->start(caller, &call) != 0);
        assert_true(driver->await(caller, &got));
        assert_int_equal(got.code, LKS_UNAUTHENTICATED);
        process_pause();
    }
    assert_non_null(strstr(process_output(server_fixture_process(here.server)), said));
    driver->close(caller);
}

static line *secured_line(const char *url)
{
    return line_open_tls(url, &(line_tls){.ca = path("ca")});
}

/* Last: all that was done above is in it. */
/* promise K12 */
/* promise A12 */
TEST(refused_calls_are_logged_and_no_secret_is)
{
    static const char *const secrets[] = {SECRET, STORE_PASSWORD, PAYLOAD, "PRIVATE KEY", "earer"};
    expect_refusal_logged("tcp", &sp_driver, sp_driver.open(server_fixture_url(here.server), NULL));
    expect_refusal_logged("tls", &sp_driver, sp_driver.open_on(secured_line(here.tls_url), here.tls_url));
    expect_refusal_logged("wss", &ws_driver, ws_driver.open_on(secured_line(here.wss_url), here.wss_url));
    expect_refusal_logged("grpcs", &grpc_driver, grpc_driver.open(here.grpcs_url, path("ca")));
    const char *log = process_output(server_fixture_process(here.server));
    assert_non_null(strstr(log, "event=listening"));
    assert_non_null(strstr(log, "event=not-reloaded"));
    assert_non_null(strstr(log, "code=UNAUTHENTICATED reason=\"the caller is not known\""));
    assert_non_null(strstr(log, "code=PERMISSION_DENIED reason=\"the caller may not do this\""));
    for (size_t s = 0; s < sizeof secrets / sizeof *secrets; s++)
        if (strstr(log, secrets[s]))
            fail_msg("\"%s\" is in the log:\n%s", secrets[s], log);
}

/* Who did it, to what, and what became of it. */
/* promise K12: a refused call is logged with transport, address, code and reason; an ADMIN call with caller, action
 * and outcome */
TEST(admin_calls_are_logged)
{
    lks_force_release_request request = LKS_FORCE_RELEASE_REQUEST_INIT;
    static char name[] = "front-door", reason[] = "it is \"stuck\" method=none";
    static char token[] = "0123456789abcdef", owner[] = "ann \"at night\"";
    lks_acquire_request acquire = LKS_ACQUIRE_REQUEST_INIT;
    lks_target target = LKS_TARGET_INIT, *targets[] = {&target};
    sp_caller *c = over_tcp();

    request.name = target.name = name;
    request.reason = reason;
    acquire.targets = targets;
    acquire.n_targets = 1;
    acquire.token = token;
    acquire.owner = owner;
    acquire.lease_ms = 60000;
    assert_int_equal(asks(c, ACQUIRE, &acquire, "ops" SECRET, "other"), LKS_OK);
    asks(c, FORCE_RELEASE, &request, "ops" SECRET, "other");
    asks(c, FORCE_RELEASE, &request, "ops" SECRET, "other");
    sp_caller_close(c);
    const char *said =
        "level=info event=audit principal=ops namespace=other method=/lockstock.v1.LockService/ForceRelease "
        "group=\"\" name=front-door outcome=OK removed=1 owner=\"ann 'at night'\" reason=\"it is 'stuck' method=none\" "
        "wire=tcp";
    assert_true(process_wait_line(server_fixture_process(here.server), said, NULL, 0, SAID_TIMEOUT_MS));
    said = "level=info event=audit principal=ops namespace=other method=/lockstock.v1.LockService/ForceRelease "
           "group=\"\" name=front-door outcome=OK removed=0 reason=\"it is 'stuck' method=none\" wire=tcp";
    assert_true(process_wait_line(server_fixture_process(here.server), said, NULL, 0, SAID_TIMEOUT_MS));
    said = "level=warn event=refused principal=shop method=/lockstock.v1.LockService/ForceRelease";
    c = over_tcp();
    assert_int_equal(asks(c, FORCE_RELEASE, &request, "shop" SECRET, "shop"), LKS_PERMISSION_DENIED);
    sp_caller_close(c);
    assert_true(process_wait_line(server_fixture_process(here.server), said, NULL, 0, SAID_TIMEOUT_MS));
}

/* Whatever --log-level says, and though nobody waits for the answer: the store stands still until the caller has
 * left. */
TEST(an_admin_call_of_one_who_has_left_is_logged)
{
    lks_force_release_request request = LKS_FORCE_RELEASE_REQUEST_INIT;
    static char first[] = "first-door", left[] = "left-door";
    long long end = process_now_ms() + SAID_TIMEOUT_MS;
    char url[160], said[512];
    uint8_t packed[64];
    sp_caller *c = NULL;

    snprintf(url, sizeof url, "unix://%s", path("quiet"));
    const char *const args[] = {server_fixture_program(), "--listen",    url,     "--store", here.store,
                                "--allow-unsafe-store",   "--log-level", "error", NULL};
    process *p = process_spawn(args, NULL);
    assert_non_null(p);
    while (!(c = sp_caller_open(url, NULL)) && process_now_ms() < end)
        process_pause();
    request.name = first;
    while (asks(c, FORCE_RELEASE, &request, NULL, NULL) != LKS_OK && process_now_ms() < end)
        process_pause();
    sp_caller_close(c);

    kill(redis_fixture_pid(here.redis), SIGSTOP);
    request.name = left;
    const call_spec call = {
        .method = FORCE_RELEASE, .payload = packed, .len = protobuf_c_message_pack(&request.base, packed)};
    void *leaver = sp_driver.open(url, NULL);
    assert_true(sp_driver.start(leaver, &call) != 0);
    sp_driver.close(leaver);
    bool logged = process_wait_line(
        p, "event=audit principal=\"\" namespace=default method=" FORCE_RELEASE " group=\"\" name=left-door", said,
        sizeof said, SAID_TIMEOUT_MS);
    kill(redis_fixture_pid(here.redis), SIGCONT);
    assert_true(logged);
    assert_non_null(strstr(said, " wire=unix from=uid:"));
    assert_null(strstr(process_output(p), "event=ready"));
    process_free(p);
}

/* Neither when the store refuses it, at once and later. */
/* promise A12: no token, payload or password in the log, at debug */
TEST(no_password_is_logged_when_the_store_refuses)
{
    char store[256];
    snprintf(store, sizeof store, "unix://:wrong-" STORE_PASSWORD "@%s", redis_fixture_socket(here.redis));
    const char *const args[] = {
        server_fixture_program(), "--listen", "tcp://127.0.0.1:0", "--store", store, "--log-level", "debug", NULL};
    process *p = process_spawn(args, NULL);
    assert_non_null(p);
    assert_true(process_wait_line(p, "event=not-ready", NULL, 0, SAID_TIMEOUT_MS));
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
    assert_non_null(strstr(log, "server.key mode=644 reason=\"other users can read it\""));
    assert_non_null(strstr(log, "tokens mode=622 reason=\"other users can write it\""));
    chmod(path("server.key"), 0600);
    chmod(path("tokens"), 0600);
}
