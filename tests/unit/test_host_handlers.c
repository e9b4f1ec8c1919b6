/* What a handler knows of its caller, and the answers that it may give. */
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <lockstock/host.h>
#include <lockstock/lockstock.h>

#include "method.pb-c.h"
#include "shop.h"
#include "support/certificates.h"
#include "support/sp_peer.h"
#include "support/tempdir.h"
#include "test.h"

typedef Lockstock__Test__Order order;

static char long_text[1001];

static struct {
    char *dir;
    char certificate[256], key[256], authority[256];
    lks_host *host;
    lks_channel *channel;
    char seen[1024]; /* by the handler */
    char logged[512];
    uint16_t port;
    lks_code code; /* what the handler answers: with `text` in the error, or in the response */
    const char *text;
    bool adds_trailers;
    bool fills_principal;
    pthread_mutex_t lock; /* of authenticate, while the test has it */
} here = {.lock = PTHREAD_MUTEX_INITIALIZER};

static lks_code look(const lks_rpc_service *service, lks_rpc_context *context, const ProtobufCMessage *request,
                     ProtobufCMessage *response, lks_error *error)
{
    static const char *const kinds[] = {"common", "dns", "uri", "email"};
    const lks_rpc_peer *peer = context->peer;
    lks_rpc_slice ns = lks_host_metadata(context, "lockstock-namespace");
    size_t n =
        (size_t)snprintf(here.seen, sizeof here.seen, "%s uid=%lld pid=%lld ns=%s principal=%s", peer->wire,
                         (long long)peer->uid, (long long)peer->pid, ns.data ? ns.data : "none", context->principal);

    for (size_t i = 0; i < peer->n_names; i++)
        n += (size_t)snprintf(here.seen + n, sizeof here.seen - n, " %s:%s", kinds[peer->names[i].kind],
                              peer->names[i].text);
    assert_in_range(lks_host_left_ms(context), 1, 30000);
    assert_null(lks_host_metadata(context, "none").data);
    if (here.adds_trailers) {
        static const char *const wrong[] = {"grpc-status",      "Shelf", "", ":path", "content-type", "content-length",
                                            "transfer-encoding"};
        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
            assert_int_equal(lks_host_add_trailer(context, wrong[i], "", 0, error), LKS_INVALID_ARGUMENT);
        assert_int_equal(lks_host_add_trailer(context, "shelf", "a\n", 2, error), LKS_INVALID_ARGUMENT);
        assert_int_equal(lks_host_add_header(context, "grpc-status", "0", 1, error), LKS_INVALID_ARGUMENT);
        assert_int_equal(lks_host_add_header(context, "first", "1", 1, error), LKS_OK);
        assert_int_equal(lks_host_add_header(context, "first-bin", "\0\1", 2, error), LKS_OK);
        assert_int_equal(lks_host_add_detail(context, NULL, error), LKS_INVALID_ARGUMENT);
        assert_int_equal(lks_host_add_detail(context, request, error), LKS_OK);
        assert_int_equal(lks_host_set_text(context, "\xff", error), LKS_INVALID_ARGUMENT);
        assert_int_equal(lks_host_set_text(context, long_text, error), LKS_OK);
        assert_int_equal(lks_host_add_trailer(context, "shelf", "4 b", 3, error), LKS_OK);
        assert_int_equal(lks_host_add_trailer(context, "proof-bin", "\0\xff", 2, error), LKS_OK);
        assert_int_equal(lks_host_add_trailer(context, "empty", NULL, 0, error), LKS_OK);
    }
    if (here.text && here.code == LKS_OK)
        ((order *)response)->id = (char *)here.text;
    else if (here.text)
        snprintf(error->message, sizeof error->message, "%s", here.text);
    return here.code;
}

/* Knows the token "good". */
static lks_code authenticate(void *arg, const lks_rpc_context *context, char principal[LKS_HOST_PRINCIPAL_BYTES],
                             lks_error *error)
{
    lks_rpc_slice token = lks_host_metadata(context, "authorization");

    pthread_mutex_lock(&here.lock);
    pthread_mutex_unlock(&here.lock);
    if (here.fills_principal) {
        memset(principal, 'p', LKS_HOST_PRINCIPAL_BYTES);
        return LKS_OK;
    }
    if (!token.data || strcmp(token.data, "Bearer good") != 0)
        return lks_error_set(error, LKS_UNAUTHENTICATED, LKS_APPLIED_YES, "authorization: not a token of %s",
                             (const char *)arg);
    snprintf(principal, LKS_HOST_PRINCIPAL_BYTES, "till");
    return LKS_OK;
}

static void open_host(const char *url, lks_host_options options)
{
    static lks_rpc_binding binding = {.method = &shop_look_method, .handle = look};
    const lks_rpc_service service = {.name = "lockstock.test.Shop", .n_bindings = 1, .bindings = &binding};
    lks_error error;

    here.port = 0;
    assert_int_equal(lks_host_open(&options, &here.host, &error), LKS_OK);
    assert_int_equal(lks_host_add(here.host, &service, &error), LKS_OK);
    assert_int_equal(lks_host_listen(here.host, url, &here.port, &error), LKS_OK);
}

static void open_both(const char *url, lks_host_options host_options, lks_channel_options channel_options)
{
    char called[320];
    lks_error error;

    here.seen[0] = '\0';
    open_host(url, host_options);
    if (here.port)
        snprintf(called, sizeof called, "%.*s:%u", (int)(strrchr(url, ':') - url), url, here.port);
    else
        snprintf(called, sizeof called, "%s", url);
    assert_int_equal(lks_channel_open(called, &channel_options, &here.channel, &error), LKS_OK);
}

static int tear_down(void **state)
{
    lks_channel_close(here.channel);
    lks_host_close(here.host, 1000);
    here.channel = NULL;
    here.host = NULL;
    here.code = LKS_OK;
    here.text = NULL;
    here.adds_trailers = here.fills_principal = false;
    return 0;
}

static lks_code call(lks_error *error)
{
    order request = LOCKSTOCK__TEST__ORDER__INIT;

    return lks_call_run(here.channel, &shop_look_method, &request.base, NULL, NULL, error);
}

typedef bool item_of(const lks_call *call, size_t i, lks_metadata *ret);

static bool has(item_of *of, const lks_call *call, size_t i, const char *key, const void *value, size_t len)
{
    lks_metadata item;

    return of(call, i, &item) && strcmp(item.key, key) == 0 && item.len == len && memcmp(item.value, value, len) == 0;
}

/* promise CH35: what a handler adds to its answer arrives over SP and gRPC: headers, trailers, details and a long text
 * of an error */
TEST(a_handler_adds_to_its_answer)
{
    static const char *const urls[] = {"tcp://127.0.0.1:0", "grpc://127.0.0.1:0"};
    order request = LOCKSTOCK__TEST__ORDER__INIT;
    lks_metadata none;
    lks_error error;

    request.id = (char *)"o-1";
    here.adds_trailers = true;
    for (size_t i = 0; i < 4; i++) {
        lks_call *call = NULL;
        here.code = i % 2 == 0 ? LKS_OK : LKS_ABORTED;
        open_both(urls[i / 2], (lks_host_options){0}, (lks_channel_options){.no_retry = true});
        assert_int_equal(
            lks_call_start(here.channel, &shop_look_method, &request.base, NULL, NULL, NULL, NULL, &call, &error),
            LKS_OK);
        assert_int_equal(lks_call_wait(call, NULL), here.code);
        assert_true(has(lks_call_header, call, 0, "first", "1", 1));
        assert_true(has(lks_call_header, call, 1, "first-bin", "\0\1", 2));
        assert_true(has(lks_call_trailer, call, 0, "shelf", "4 b", 3));
        assert_true(has(lks_call_trailer, call, 1, "proof-bin", "\0\xff", 2));
        assert_true(has(lks_call_trailer, call, 2, "empty", "", 0));
        assert_false(lks_call_trailer(call, 3, &none));
        assert_int_equal(has(lks_call_detail, call, 0, "type.googleapis.com/lockstock.test.Order", "\x0a\3o-1", 5),
                         i % 2 == 1);
        assert_string_equal(lks_call_text(call), i % 2 == 1 ? long_text : "");
        lks_call_free(call);
        tear_down(NULL);
        here.adds_trailers = true;
    }
}

/* Over HTTP/1.1, of a host without a channel: all that it sends until it closes. */
static const char *ask(const char *request, char *answer, size_t room)
{
    int fd = sp_peer_connect(here.port, 0);
    size_t len = 0;
    ssize_t n;

    if (sp_peer_send(fd, request, strlen(request)))
        while ((n = read(fd, answer + len, room - len - 1)) > 0)
            len += (size_t)n;
    answer[len] = '\0';
    close(fd);
    return answer;
}

#define HTTP "http://127.0.0.1:0"
#define HTTP_GET(path) "GET " path " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
#define POST(path, fields, body)                                                                                  \
    "POST " path " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n" fields \
    "\r\n" body

static void assert_has(const char *text, const char *const *wanted, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!strstr(text, wanted[i]))
            fail_msg("no %s in %s", wanted[i], text);
}

TEST(a_host_serves_its_methods_and_its_pages_over_http)
{
    static const char look_up[] =
        POST("/lockstock.test.Shop/Look", "Content-Length: 12\r\nAuthorization: Bearer good\r\n", "{\"id\":\"o-1\"}");
    static const char *const sold[] = {"HTTP/1.1 200 OK\r\n", "first: 1\r\n", "first-bin: AAE=\r\n",
                                       "trailer-shelf: 4 b\r\n", "\r\n{}"};
    static const char *const aborted[] = {"HTTP/1.1 409 Conflict\r\n", "\"code\":\"aborted\"",
                                          "\"type\":\"lockstock.test.Order\",\"value\":\"CgNvLTE\""};
    static const char *const counted[] = {"grpc_server_handled_total{grpc_type=\"unary\",grpc_service=\"lockstock.test."
                                          "Shop\",grpc_method=\"Look\",grpc_code=\"OK\"} 1\n",
                                          "grpc_code=\"ABORTED\"} 1\n", "grpc_code=\"UNAUTHENTICATED\"} 1\n",
                                          "lockstock_ready 1\n"};
    static const char *const refused[] = {"HTTP/1.1 401 Unauthorized\r\n", "www-authenticate: Bearer\r\n"};
    static char answer[1 << 16];
    lks_error error;

    open_host(HTTP, (lks_host_options){.authenticate = authenticate, .authenticate_arg = (void *)(uintptr_t) "us"});
    here.adds_trailers = true;
    assert_has(ask(look_up, answer, sizeof answer), sold, sizeof sold / sizeof *sold);
    assert_non_null(strstr(here.seen, "http uid=-1"));
    here.code = LKS_ABORTED;
    assert_has(ask(look_up, answer, sizeof answer), aborted, sizeof aborted / sizeof *aborted);
    assert_has(ask(POST("/lockstock.test.Shop/Look", "Content-Length: 2\r\n", "{}"), answer, sizeof answer), refused,
               2);
    assert_has(ask(HTTP_GET("/metrics"), answer, sizeof answer), counted, sizeof counted / sizeof *counted);
    assert_non_null(strstr(ask(HTTP_GET("/readyz"), answer, sizeof answer), "200 OK"));
    assert_int_equal(lks_host_set_health(here.host, NULL, false, &error), LKS_OK);
    assert_non_null(strstr(ask(HTTP_GET("/readyz"), answer, sizeof answer), "503 Service Unavailable"));
    assert_non_null(strstr(ask(HTTP_GET("/healthz"), answer, sizeof answer), "200 OK"));
    lks_host_close(here.host, 1000);
    open_host(HTTP, (lks_host_options){.no_pages = 1});
    assert_non_null(strstr(ask(HTTP_GET("/metrics"), answer, sizeof answer), "404 Not Found"));
}

TEST(each_code_has_its_status_and_name_over_http)
{
    static const struct {
        lks_code code;
        const char *status, *name;
    } rows[] = {
        {LKS_CANCELLED, " 499 ", "canceled"},
        {LKS_UNKNOWN, " 500 ", "unknown"},
        {LKS_INVALID_ARGUMENT, " 400 ", "invalid_argument"},
        {LKS_DEADLINE_EXCEEDED, " 504 ", "deadline_exceeded"},
        {LKS_NOT_FOUND, " 404 ", "not_found"},
        {LKS_ALREADY_EXISTS, " 409 ", "already_exists"},
        {LKS_PERMISSION_DENIED, " 403 ", "permission_denied"},
        {LKS_RESOURCE_EXHAUSTED, " 429 ", "resource_exhausted"},
        {LKS_FAILED_PRECONDITION, " 400 ", "failed_precondition"},
        {LKS_ABORTED, " 409 ", "aborted"},
        {LKS_OUT_OF_RANGE, " 400 ", "out_of_range"},
        {LKS_UNIMPLEMENTED, " 501 ", "unimplemented"},
        {LKS_INTERNAL, " 500 ", "internal"},
        {LKS_UNAVAILABLE, " 503 ", "unavailable"},
        {LKS_DATA_LOSS, " 500 ", "data_loss"},
        {LKS_UNAUTHENTICATED, " 401 ", "unauthenticated"},
    };
    static char answer[1 << 14];
    char code[64];

    open_host(HTTP, (lks_host_options){0});
    here.text = "na\u00efve \"\\\n\u263a";
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(code, sizeof code, "{\"code\":\"%s\",", rows[i].name);
        const char *const wanted[] = {rows[i].status, code, "\"message\":\"na\u00efve \\\"\\\\\\u000a\u263a\""};
        here.code = rows[i].code;
        assert_has(ask(POST("/lockstock.test.Shop/Look", "Content-Length: 2\r\n", "{}"), answer, sizeof answer), wanted,
                   3);
    }
}

/* promise CH28: a handler knows the wire, the process at the other end of a unix socket, and its namespace */
TEST(a_handler_knows_the_process_that_calls)
{
    static const char *const schemes[] = {"unix", "grpc+unix"};
    char url[300], expected[128];
    lks_error error;

    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        snprintf(url, sizeof url, "%s://%s/shop", schemes[i], here.dir);
        open_both(url, (lks_host_options){0}, (lks_channel_options){.ns = "east"});
        assert_int_equal(call(&error), LKS_OK);
        snprintf(expected, sizeof expected, "%s uid=%u pid=%d ns=east principal=", schemes[i], getuid(), getpid());
        assert_string_equal(here.seen, expected);
        tear_down(NULL);
    }
}

/* promise CH31: `*` listens on all addresses, of both families */
TEST(a_star_is_all_addresses)
{
    static const char *const hosts[] = {"127.0.0.1", "[::1]"};
    char url[64];
    lks_error error;

    open_both("tcp://*:0", (lks_host_options){0}, (lks_channel_options){0});
    lks_channel_close(here.channel);
    for (size_t i = 0; i < (access("/proc/net/if_inet6", F_OK) == 0 ? 2 : 1); i++) {
        snprintf(url, sizeof url, "tcp://%s:%u", hosts[i], here.port);
        assert_int_equal(lks_channel_open(url, NULL, &here.channel, &error), LKS_OK);
        assert_int_equal(call(&error), LKS_OK);
        lks_channel_close(here.channel);
    }
    here.channel = NULL;
}

/* promise CH28 */
TEST(a_handler_knows_all_names_of_the_certificate)
{
    static const char *const schemes[] = {"tls", "grpcs"};
    char expected[200], url[32];
    lks_error error;

    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        snprintf(url, sizeof url, "%s://127.0.0.1:0", schemes[i]);
        open_both(url,
                  (lks_host_options){.tls_certificate = here.certificate,
                                     .tls_key = here.key,
                                     .tls_client_ca = here.authority,
                                     .tls_client_required = true},
                  (lks_channel_options){.ca_file = here.authority,
                                        .certificate_file = here.certificate,
                                        .key_file = here.key,
                                        .server_name = "till.example"});
        assert_int_equal(call(&error), LKS_OK);
        snprintf(expected, sizeof expected,
                 "%s uid=-1 pid=-1 ns=none principal= common:Till 4 dns:till.example uri:spiffe://shop/till "
                 "email:till@shop.example",
                 schemes[i]);
        assert_string_equal(here.seen, expected);
        tear_down(NULL);
    }
}

/* promise CH29: the host's callback decides who calls, before the handler */
TEST(authenticate_callback_decides_the_principal)
{
    const lks_host_options options = {.authenticate = authenticate, .authenticate_arg = "this shop"};
    char url[300];
    lks_error error;

    snprintf(url, sizeof url, "unix://%s/shop", here.dir);
    open_both(url, options, (lks_channel_options){.token = "good"});
    assert_int_equal(call(&error), LKS_OK);
    assert_non_null(strstr(here.seen, "principal=till"));
    tear_down(NULL);
    open_both(url, options, (lks_channel_options){.token = "bad"});
    assert_int_equal(call(&error), LKS_UNAUTHENTICATED);
    assert_string_equal(error.message, "authorization: not a token of this shop");
    assert_int_equal(error.applied, LKS_APPLIED_NO);
    assert_string_equal(here.seen, "");
}

/* promise CH29 */
TEST(a_principal_is_a_text)
{
    lks_error error;

    here.fills_principal = true;
    open_both("tcp://127.0.0.1:0", (lks_host_options){.authenticate = authenticate}, (lks_channel_options){0});
    assert_int_equal(call(&error), LKS_INTERNAL);
    assert_string_equal(error.message, "authenticate: the principal is longer than 127 bytes");
    assert_int_equal(error.applied, LKS_APPLIED_NO);
    assert_string_equal(here.seen, "");
}

/* promise CH29 */
TEST(a_callback_that_takes_too_long)
{
    lks_error error;

    open_both("tcp://127.0.0.1:0",
              (lks_host_options){.authenticate = authenticate, .authenticate_arg = "this shop", .timeout_ms = 100},
              (lks_channel_options){.token = "good", .no_retry = true, .timeout_ms = 30000});
    pthread_mutex_lock(&here.lock);
    assert_int_equal(call(&error), LKS_DEADLINE_EXCEEDED);
    assert_string_equal(error.message, "the call took longer than the server's limit of 100 ms");
    pthread_mutex_unlock(&here.lock);
    assert_int_equal(lks_host_close(here.host, 1000), LKS_OK);
    here.host = NULL;
    assert_string_equal(here.seen, "");
}

static void on_line(void *arg, bool warns, const char *event, const char *line)
{
    if (strcmp(event, "bad-answer") == 0)
        snprintf(here.logged, sizeof here.logged, "%s", line);
}

/* promise CH30: an answer that cannot be sent is INTERNAL, and the log names the method */
TEST(invalid_answers_of_a_handler_are_internal)
{
    static const struct {
        lks_code code;
        const char *text, *message, *logged;
    } cases[] = {
        {(lks_code)17, NULL, "the handler returned a code that does not exist", "a code that does not exist"},
        {(lks_code)-1, NULL, "the handler returned a code that does not exist", "a code that does not exist"},
        {LKS_ABORTED, "\xff", "the text of the handler's error is not UTF-8", "not UTF-8"},
        {LKS_OK, "\xff", "id: a string of the handler's response is not UTF-8", "not UTF-8"},
    };
    char url[300];
    lks_error error;

    snprintf(url, sizeof url, "unix://%s/shop", here.dir);
    open_both(url, (lks_host_options){.log = on_line}, (lks_channel_options){.no_retry = true});
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        here.code = cases[i].code;
        here.text = cases[i].text;
        here.logged[0] = '\0';
        assert_int_equal(call(&error), LKS_INTERNAL);
        assert_string_equal(error.message, cases[i].message);
        assert_non_null(strstr(here.logged, "method=/lockstock.test.Shop/Look"));
        assert_non_null(strstr(here.logged, cases[i].logged));
    }
}

int main(void)
{
    const certificate_wish wish = {.common = {.text = "Till 4"},
                                   .alternatives = "DNS:till.example,URI:spiffe://shop/till,email:till@shop.example"};

    memset(long_text, 't', sizeof long_text - 1);
    here.dir = tempdir_make();
    snprintf(here.certificate, sizeof here.certificate, "%s/till.pem", here.dir);
    snprintf(here.key, sizeof here.key, "%s/till.key", here.dir);
    snprintf(here.authority, sizeof here.authority, "%s/authority.pem", here.dir);
    authority *signs = authority_new("test");
    authority_sign(signs, &wish, here.certificate, here.key);
    authority_write(signs, here.authority);
    authority_free(signs);
    int failed = TEST_RUN(.teardown = tear_down);
    tempdir_remove(here.dir);
    return failed;
}
