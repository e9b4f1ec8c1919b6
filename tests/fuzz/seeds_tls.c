/* Seeds of fuzz_tls: first flights of OpenSSL's client, which differ from run to run;
 * true clients, untouched and with an edit. */
#include <openssl/ssl.h>

#include "fuzz.h"
#include "seeds.h"

static void make_hello(int version, const char *name)
{
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    SSL *ssl = SSL_new(context);
    BIO *out = BIO_new(BIO_s_mem());
    uint8_t bytes[4096];
    seed s = {.len = 0};

    fuzz_expect(ssl && out && SSL_set_max_proto_version(ssl, version) == 1);
    fuzz_expect(SSL_set_alpn_protos(ssl, (const unsigned char *)"\2fz", 3) == 0);
    SSL_set_bio(ssl, BIO_new(BIO_s_mem()), out);
    SSL_set_connect_state(ssl);
    SSL_do_handshake(ssl);
    int n = BIO_read(out, bytes, sizeof bytes);
    fuzz_expect(n > 0);
    seed_put(&s, "\0\100\0", 3);
    seed_put(&s, bytes, (size_t)n);
    seed_save(&s, "fuzz_tls", name);
    SSL_free(ssl);
    SSL_CTX_free(context);
}

static void make_client(unsigned flags, const char *edits, size_t edits_len, const char *name)
{
    seed s = {.len = 0};

    seed_byte(&s, 1 | flags);
    seed_byte(&s, flags & 4 ? 0 : 7);
    seed_byte(&s, (unsigned)(edits_len / 4));
    seed_put(&s, edits, edits_len);
    seed_put(&s, "these are plain bytes", 21);
    seed_save(&s, "fuzz_tls", name);
}

void seeds_tls(void)
{
    seed s = {.len = 0};

    make_hello(TLS1_3_VERSION, "hello_1_3");
    make_hello(TLS1_2_VERSION, "hello_1_2");
    make_client(0, "", 0, "client_1_3");
    make_client(4, "", 0, "client_1_2");
    make_client(2, "", 0, "certificate_1_3");
    make_client(2 | 4, "", 0, "certificate_1_2");
    make_client(8, "", 0, "no_alpn");
    make_client(0, "\0\5\0\1", 4, "edit_hello");
    make_client(2, "\2\0\0\1\2\1\1\7", 8, "edit_certificate");
    make_client(2 | 4, "\2\0\2\0", 4, "byte_less");
    make_client(0, "\0\100\3\0", 4, "end");
    seed_put(&s, "\0\0\0GET / HTTP/1.1\r\nHost: a\r\n\r\n", 30);
    seed_save(&s, "fuzz_tls", "http");
}
