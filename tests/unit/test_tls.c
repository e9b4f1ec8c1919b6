/* TLS without I/O, against OpenSSL's own client, over memory: which peers are accepted and under
 * which name, and the effect of hostile bytes. */

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "support/certificates.h"
#include "support/tempdir.h"
#include "net/tls.h"
#include "test.h"

enum { BYTES = 1 << 16 };

static struct {
    char *dir;
    authority *ours, *others;
    tls_context *context;
    tls *server;
    tls_state state;
    SSL_CTX *client_context;
    SSL *client;
    BIO *to_client, *from_client;
    int client_error;
} here;

/* A file of the test's directory. Valid until the fourth call after it. */
static const char *path(const char *name)
{
    static char paths[4][256];
    static size_t next;
    char *p = paths[next++ % 4];

    snprintf(p, sizeof paths[0], "%s/%s", here.dir, name);
    return p;
}

static void sign(const authority *by, const char *name, certificate_wish wish)
{
    char key[64];

    snprintf(key, sizeof key, "%s.key", name);
    authority_sign(by, &wish, path(name), path(key));
}

static int make_files(void **state)
{
    here.dir = tempdir_make();
    here.ours = authority_new("our authority");
    here.others = authority_new("our authority"); /* the same name, another key */
    authority_write(here.ours, path("ca"));
    sign(here.ours, "server", (certificate_wish){.common = {"server", 0}, .dns = {{"localhost", 0}}});
    sign(here.ours, "good", (certificate_wish){.common = {"good", 0}, .usage = "clientAuth"});
    sign(here.others, "foreign", (certificate_wish){.common = {"good", 0}});
    sign(here.ours, "expired",
         (certificate_wish){.common = {"good", 0}, .valid_from_s = -7200, .valid_until_s = -3600});
    sign(here.ours, "early", (certificate_wish){.common = {"good", 0}, .valid_from_s = 3600});
    sign(here.ours, "for-servers", (certificate_wish){.common = {"good", 0}, .usage = "serverAuth"});
    return here.dir ? 0 : -1;
}

static int remove_files(void **state)
{
    authority_free(here.ours);
    authority_free(here.others);
    tempdir_remove(here.dir);
    return 0;
}

/* ---- both ends ---------------------------------------------------------------------- */

static tls_files files_of(bool asks, bool required)
{
    return (tls_files){.certificate = path("server"),
                       .key = path("server.key"),
                       .client_ca = asks ? path("ca") : NULL,
                       .client_required = required};
}

static void load(bool asks, bool required, const char *alpn)
{
    const tls_files files = files_of(asks, required);
    lks_error error;

    if (tls_context_load(&files, alpn, &here.context, &error) != LKS_OK)
        fail_msg("%s", error.message);
}

static void make_client_context(int version, const char *certificate)
{
    char key[64];

    here.client_context = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_cipher_list(here.client_context, "ALL:@SECLEVEL=0"); /* an old client's */
    SSL_CTX_set_min_proto_version(here.client_context, version);
    SSL_CTX_set_max_proto_version(here.client_context, version);
    SSL_CTX_set_verify(here.client_context, SSL_VERIFY_PEER, NULL);
    assert_int_equal(SSL_CTX_load_verify_locations(here.client_context, path("ca"), NULL), 1);
    if (certificate) {
        snprintf(key, sizeof key, "%s.key", certificate);
        assert_int_equal(SSL_CTX_use_certificate_chain_file(here.client_context, path(certificate)), 1);
        assert_int_equal(SSL_CTX_use_PrivateKey_file(here.client_context, path(key), SSL_FILETYPE_PEM), 1);
    }
}

static void meet(void)
{
    here.client_error = 0;
    here.state = TLS_HANDSHAKE;
    here.server = tls_accept(here.context);
    here.client = SSL_new(here.client_context);
    here.to_client = BIO_new(BIO_s_mem());
    here.from_client = BIO_new(BIO_s_mem());
    BIO_set_mem_eof_return(here.to_client, -1);
    SSL_set_bio(here.client, here.to_client, here.from_client);
    SSL_set_connect_state(here.client);
    assert_non_null(here.server);
}

static void part(void)
{
    SSL_free(here.client);
    tls_free(here.server);
    here.client = NULL;
    here.server = NULL;
    ERR_clear_error();
}

static void forget_contexts(void)
{
    SSL_CTX_free(here.client_context);
    tls_context_free(here.context);
    here.client_context = NULL;
    here.context = NULL;
}

/* Moves the client's output to the server. */
static bool carry_in(void)
{
    uint8_t bytes[BYTES];
    int n = BIO_read(here.from_client, bytes, sizeof bytes);

    if (n <= 0)
        return false;
    assert_true(tls_feed(here.server, bytes, (size_t)n));
    if (here.state == TLS_HANDSHAKE)
        here.state = tls_handshake(here.server);
    return true;
}

static bool carry_out(void)
{
    uint8_t bytes[BYTES];
    size_t pending = tls_pending(here.server);
    size_t n = tls_take(here.server, bytes, sizeof bytes);

    assert_true(n <= pending && tls_pending(here.server) == pending - n);
    if (n > 0)
        assert_int_equal(BIO_write(here.to_client, bytes, (int)n), (int)n);
    return n > 0;
}

/* Until neither has more to say. */
static bool shake(void)
{
    bool moved = true;
    int done = 0;

    while (moved) {
        ERR_clear_error();
        done = SSL_do_handshake(here.client);
        if (ERR_peek_error() != 0)
            here.client_error = ERR_GET_REASON(ERR_peek_error());
        moved = carry_in();
        while (carry_in()) {
        }
        moved = carry_out() || moved;
        while (carry_out()) {
        }
    }
    return done == 1 && here.state == TLS_UP;
}

/* Connects with a client certificate (NULL = none) and returns the server's state. */
static tls_state meets(int version, const char *certificate)
{
    make_client_context(version, certificate);
    meet();
    shake();
    return here.state;
}

static void over(void)
{
    part();
    forget_contexts();
}

static void assert_echo(const char *text)
{
    char got[64] = {0};
    int len = (int)strlen(text);

    assert_int_equal(SSL_write(here.client, text, len), len);
    while (carry_in()) {
    }
    assert_int_equal(tls_read(here.server, (uint8_t *)got, sizeof got), len);
    assert_string_equal(got, text);
    assert_int_equal(tls_read(here.server, (uint8_t *)got, sizeof got), 0);
    assert_true(tls_write(here.server, (const uint8_t *)text, (size_t)len));
    while (carry_out()) {
    }
    memset(got, 0, sizeof got);
    assert_int_equal(SSL_read(here.client, got, sizeof got), len);
    assert_string_equal(got, text);
}

static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
enum { N_VERSIONS = sizeof versions / sizeof *versions };

/* ---- accepted peers ------------------------------------------------------------------ */

/* promise A8 */
TEST(versions_from_1_2_on)
{
    for (size_t v = 0; v < N_VERSIONS; v++) {
        load(false, false, NULL);
        make_client_context(versions[v], NULL);
        meet();
        assert_true(shake());
        assert_int_equal(SSL_version(here.client), versions[v]);
        assert_null(tls_peer_name(here.server));
        assert_echo("over TLS");
        over();
    }
    load(false, false, NULL);
    assert_int_equal(meets(TLS1_1_VERSION, NULL), TLS_OVER);
    assert_int_equal(here.client_error, SSL_R_TLSV1_ALERT_PROTOCOL_VERSION); /* it got the reason */
    over();
}

/* promise A6 */
TEST(client_certificates)
{
    static const struct {
        const char *certificate;
        bool asks, required;
        tls_state state;
        const char *name;
    } cases[] = {
        {NULL, true, false, TLS_UP, NULL},
        {NULL, true, true, TLS_OVER, NULL},
        {"good", true, true, TLS_UP, "good"},
        {"good", true, false, TLS_UP, "good"},
        {"good", false, false, TLS_UP, NULL}, /* it was not requested */
        {"foreign", true, false, TLS_OVER, NULL},
        {"foreign", true, true, TLS_OVER, NULL},
        {"expired", true, false, TLS_OVER, NULL},
        {"early", true, false, TLS_OVER, NULL},
        {"for-servers", true, false, TLS_OVER, NULL},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        for (size_t v = 0; v < N_VERSIONS; v++) {
            load(cases[c].asks, cases[c].required, NULL);
            tls_state got = meets(versions[v], cases[c].certificate);
            if (got != cases[c].state)
                fail_msg("%s: %d", cases[c].certificate ? cases[c].certificate : "none", (int)got);
            if (cases[c].name)
                assert_string_equal(tls_peer_name(here.server), cases[c].name);
            else
                assert_null(tls_peer_name(here.server));
            if (got == TLS_OVER) {
                uint8_t byte = 0;
                assert_int_equal(tls_read(here.server, &byte, 1), -1);
                assert_false(tls_write(here.server, &byte, 1));
            }
            over();
        }
    }
}

#define TEXT(s)         \
    {                   \
        s, sizeof s - 1 \
    }

/* promise A7: a certificate's name is its first DNS name, else its common name; a name with a NUL is no name */
TEST(names_of_certificates)
{
    static char long_name[300];
    static const struct {
        certificate_wish wish;
        const char *name;
    } cases[] = {
        {{.common = {"billing", 0}}, "billing"},
        {{.common = {"billing", 0}, .dns = {{"billing.internal", 0}}}, "billing.internal"},
        {{.dns = {{"one.internal", 0}, {"two.internal", 0}}}, "one.internal"},
        {{.common = {"*.internal", 0}}, "*.internal"}, /* is that name, and no pattern */
        {{.usage = "clientAuth"}, NULL},
        /* Others may read them as "billing". */
        {{.common = TEXT("billing\0.evil.example")}, NULL},
        {{.common = {"billing", 0}, .dns = {TEXT("billing\0.evil.example")}}, NULL},
        {{.common = {"billing", 0}, .dns = {TEXT("\0"), {"billing", 0}}}, NULL},
        {{.dns = {{long_name, 256}}}, NULL},
        {{.dns = {{long_name, 255}}}, ""},
    };
    memset(long_name, 'x', sizeof long_name - 1);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        sign(here.ours, "named", cases[c].wish);
        load(true, true, NULL);
        assert_int_equal(meets(TLS1_3_VERSION, "named"), TLS_UP);
        const char *name = tls_peer_name(here.server);
        if (!cases[c].name && name)
            fail_msg("case %zu: %s", c, name);
        if (cases[c].name && *cases[c].name)
            assert_string_equal(name, cases[c].name);
        else if (cases[c].name)
            assert_int_equal(strlen(name), 255);
        over();
    }
}

/* promise A8 */
TEST(alpn_must_be_the_one_that_is_spoken)
{
    static const struct {
        const char *server, *client;
        size_t len;
        tls_state state;
    } cases[] = {
        {"h2", NULL, 0, TLS_OVER},     {"h2", "\x08http/1.1", 9, TLS_OVER},
        {"h2", "\x02h3", 3, TLS_OVER}, {"h2", "\x08http/1.1\x02h2", 12, TLS_UP},
        {"h2", "\x02h2", 3, TLS_UP},   {NULL, "\x02h2", 3, TLS_UP},
    };
    const unsigned char *chosen;
    unsigned len;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        for (size_t v = 0; v < N_VERSIONS; v++) {
            load(false, false, cases[c].server);
            make_client_context(versions[v], NULL);
            if (cases[c].client)
                SSL_CTX_set_alpn_protos(here.client_context, (const unsigned char *)cases[c].client,
                                        (unsigned)cases[c].len);
            meet();
            shake();
            if (here.state != cases[c].state)
                fail_msg("case %zu: %d", c, (int)here.state);
            SSL_get0_alpn_selected(here.client, &chosen, &len);
            if (cases[c].server && here.state == TLS_UP)
                assert_memory_equal(chosen, "h2", 2);
            over();
        }
    }
}

/* A session is not taken up again: the certificate that began it may have ended. */
/* promise A8 */
TEST(every_connection_makes_a_full_handshake)
{
    char byte;
    for (size_t v = 0; v < N_VERSIONS; v++) {
        load(true, true, NULL);
        assert_int_equal(meets(versions[v], "good"), TLS_UP);
        assert_echo("x");
        assert_true(SSL_read(here.client, &byte, 1) <= 0); /* takes the tickets, were there any */
        SSL_SESSION *session = SSL_get1_session(here.client);
        SSL_set_shutdown(here.client, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN); /* or OpenSSL itself would drop it */
        part();
        meet();
        SSL_set_session(here.client, session);
        assert_true(shake());
        assert_false(SSL_session_reused(here.client));
        assert_string_equal(tls_peer_name(here.server), "good");
        SSL_SESSION_free(session);
        over();
    }
}

TEST(connections_outlive_their_context)
{
    for (int after_shaking = 0; after_shaking < 2; after_shaking++) {
        load(true, true, "h2");
        make_client_context(TLS1_3_VERSION, "good");
        SSL_CTX_set_alpn_protos(here.client_context, (const unsigned char *)"\x02h2", 3);
        meet();
        if (after_shaking)
            assert_true(shake());
        tls_context_free(here.context);
        here.context = NULL;
        assert_true(shake());
        assert_string_equal(tls_peer_name(here.server), "good");
        assert_echo("still here");
        over();
    }
}

/* ---- bytes -------------------------------------------------------------------------- */

/* promise A9 */
TEST(bytes_that_are_no_tls)
{
    static uint8_t noise[BYTES];
    static const struct {
        const char *bytes;
        size_t len;
    } cases[] = {
        TEXT("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
        TEXT("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        TEXT("\0SP\0\0\x30\0\0"),                                   /* SP in plain */
        TEXT("\x80\x09\x01\0\x02\0\0\0\0\0\x10"),                   /* SSL 2 */
        TEXT("\x16\x03\x01\xff\xff\x01\0\0\x05 too long a record"), /* a length of 65,535 */
        TEXT("\x16\x03\x01\0\x04\x02\0\0\0"),                       /* a server's hello */
        TEXT("\x17\x03\x03\0\x05hello"),                            /* data before hands were handshake_done */
        TEXT("\x15\x03\x01\0\x02\x02\x28"),                         /* a fatal alert */
        {(const char *)noise, sizeof noise},
    };
    uint8_t byte;
    srand(20240613);
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (uint8_t)(rand() >> 7);
    load(true, false, NULL);
    make_client_context(TLS1_3_VERSION, NULL);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        meet();
        assert_true(tls_feed(here.server, (const uint8_t *)cases[c].bytes, cases[c].len));
        tls_state got = tls_handshake(here.server);
        if (got != TLS_OVER)
            fail_msg("case %zu: %d", c, (int)got);
        assert_int_equal(tls_handshake(here.server), TLS_OVER); /* permanently */
        assert_int_equal(tls_read(here.server, &byte, 1), -1);
        assert_false(tls_write(here.server, &byte, 1));
        part();
    }
    forget_contexts();
}

TEST(end_of_stream_differs_from_no_data)
{
    uint8_t byte;
    for (size_t v = 0; v < N_VERSIONS; v++) {
        load(false, false, NULL);
        make_client_context(versions[v], NULL);
        meet();
        assert_true(shake());
        assert_int_equal(tls_read(here.server, &byte, 1), 0);
        SSL_shutdown(here.client);
        while (carry_in()) {
        }
        assert_int_equal(tls_read(here.server, &byte, 1), -1);
        over();
    }
}

/* promise A8: TLS 1.2 at least, no resumption, no renegotiation; ALPN where it is spoken */
TEST(no_second_handshake)
{
    uint8_t byte;
    load(true, false, NULL);
    make_client_context(TLS1_2_VERSION, "good");
    SSL_CTX_set_options(here.client_context, SSL_OP_LEGACY_SERVER_CONNECT);
    meet();
    assert_true(shake());
    assert_int_equal(SSL_renegotiate(here.client), 1);
    ERR_clear_error();
    SSL_do_handshake(here.client);
    while (carry_in()) {
    }
    assert_in_range(tls_read(here.server, &byte, 1) + 1, 0, 1);
    while (carry_out()) {
    }
    ERR_clear_error();
    assert_true(SSL_do_handshake(here.client) <= 0);
    assert_int_equal(ERR_GET_REASON(ERR_peek_error()), SSL_R_NO_RENEGOTIATION);
    over();
}

/* Keys may change on the way; a peer that only does that, and reads no answer, cannot fill
 * our memory. */
/* promise A9 */
TEST(new_keys)
{
    uint8_t byte;
    load(false, false, NULL);
    make_client_context(TLS1_3_VERSION, NULL);
    meet();
    assert_true(shake());
    assert_int_equal(SSL_key_update(here.client, SSL_KEY_UPDATE_REQUESTED), 1);
    assert_echo("with new keys");
    int n = 0;
    for (int i = 0; i < 10000 && n == 0; i++) {
        SSL_key_update(here.client, SSL_KEY_UPDATE_REQUESTED);
        SSL_do_handshake(here.client);
        carry_in();
        n = tls_read(here.server, &byte, 1);
    }
    assert_int_equal(n, -1);
    assert_in_range(tls_pending(here.server), 4096, 8192);
    over();
}

/* The same of our client, against a server of OpenSSL's. */
/* promise A9 */
TEST(new_keys_from_a_server)
{
    SSL_CTX *theirs = SSL_CTX_new(TLS_server_method());
    BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
    tls_context *context = NULL;
    uint8_t bytes[BYTES], byte;
    lks_error error;
    int n = 0, got;

    assert_int_equal(SSL_CTX_use_certificate_chain_file(theirs, path("server")), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey_file(theirs, path("server.key"), SSL_FILETYPE_PEM), 1);
    if (tls_context_load_client(path("ca"), NULL, NULL, NULL, &context, &error) != LKS_OK)
        fail_msg("%s", error.message);
    tls *client = tls_connect(context, "localhost", NULL);
    SSL *server = SSL_new(theirs);
    SSL_set_bio(server, in, out);
    SSL_set_accept_state(server);
    for (bool up = false; !up || !SSL_is_init_finished(server);) {
        up = tls_handshake(client) == TLS_UP;
        BIO_write(in, bytes, (int)tls_take(client, bytes, sizeof bytes));
        SSL_do_handshake(server);
        if ((got = BIO_read(out, bytes, sizeof bytes)) > 0)
            assert_true(tls_feed(client, bytes, (size_t)got));
    }
    for (int i = 0; i < 10000 && n == 0; i++) {
        SSL_key_update(server, SSL_KEY_UPDATE_REQUESTED);
        SSL_do_handshake(server);
        if ((got = BIO_read(out, bytes, sizeof bytes)) > 0)
            assert_true(tls_feed(client, bytes, (size_t)got));
        n = tls_read(client, &byte, 1);
    }
    assert_int_equal(n, -1);
    assert_in_range(tls_pending(client), 4096, 8192);
    assert_string_equal(tls_why(client), "the peer does not read the TLS answers that it requests");
    SSL_free(server);
    tls_free(client);
    tls_context_free(context);
    SSL_CTX_free(theirs);
}

/* ---- files -------------------------------------------------------------------------- */

TEST(files_that_are_wrong)
{
    tls_context *context = NULL;
    lks_error error;
    sign(here.ours, "locked", (certificate_wish){.common = {"locked", 0}, .password = "secret"});
    FILE *f = fopen(path("garbage"), "w");
    fputs("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", f);
    fclose(f);
    static const struct {
        const char *certificate, *key, *ca, *said;
    } cases[] = {
        {"nowhere", "server.key", NULL, "nowhere"},       {"garbage", "server.key", NULL, "garbage"},
        {"server", "nowhere", NULL, "nowhere"},           {"server", "garbage", NULL, "garbage"},
        {"server", "good.key", NULL, "good.key"},         {"locked", "locked.key", NULL, "locked.key"},
        {"server", "server.key", "nowhere", "nowhere"},   {"server", "server.key", "garbage", "garbage"},
        {"server", "server.key", "good.key", "good.key"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const tls_files files = {.certificate = path(cases[c].certificate),
                                 .key = path(cases[c].key),
                                 .client_ca = cases[c].ca ? path(cases[c].ca) : NULL};
        if (tls_context_load(&files, NULL, &context, &error) != LKS_INVALID_ARGUMENT ||
            !strstr(error.message, cases[c].said))
            fail_msg("case %zu: %s", c, error.message);
        assert_null(context);
    }
}

TEST_MAIN(.setup_all = make_files, .teardown_all = remove_files)
