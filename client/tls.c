/* Invariant: OpenSSL's error queue is empty before each call into it, so that what it
 * says is of this connection. */
#include "tls.h"

#include <arpa/inet.h>
#include <limits.h>
#include <stdlib.h>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

struct tls_context {
    SSL_CTX *ssl;
};

struct tls {
    SSL *ssl;
    BIO *in, *out; /* the SSL's */
    const char *why;
};

/* ---- contexts ------------------------------------------------------------------- */

static lks_code wrong(const char *file, lks_error *error)
{
    const char *why = ERR_reason_error_string(ERR_peek_last_error());

    return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "%s: %s", file,
                         why != NULL ? why : "cannot be used");
}

/* A key with a passphrase is refused rather than asked for at the terminal. */
static int no_passphrase(char *buffer, int size, int writing, void *arg)
{
    (void)buffer, (void)size, (void)writing, (void)arg;
    return 0;
}

static lks_code load_files(SSL_CTX *ssl, const char *ca_file, const char *certificate_file, const char *key_file,
                           lks_error *error)
{
    if (ca_file == NULL && SSL_CTX_set_default_verify_paths(ssl) != 1)
        return wrong("the system's certificates", error);
    if (ca_file != NULL && SSL_CTX_load_verify_file(ssl, ca_file) != 1)
        return wrong(ca_file, error);
    if ((certificate_file == NULL) != (key_file == NULL))
        return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO,
                             "options: certificate_file and key_file go together");
    if (certificate_file == NULL)
        return LKS_OK;
    if (SSL_CTX_use_certificate_chain_file(ssl, certificate_file) != 1)
        return wrong(certificate_file, error);
    /* It is compared with the certificate. */
    if (SSL_CTX_use_PrivateKey_file(ssl, key_file, SSL_FILETYPE_PEM) != 1)
        return wrong(key_file, error);
    return LKS_OK;
}

lks_code tls_context_new(const char *ca_file, const char *certificate_file, const char *key_file, tls_context **ret,
                         lks_error *error)
{
    tls_context *context = calloc(1, sizeof *context);

    ERR_clear_error();
    if (context == NULL || (context->ssl = SSL_CTX_new(TLS_client_method())) == NULL) {
        tls_context_free(context);
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    }
    SSL_CTX_set_min_proto_version(context->ssl, TLS1_2_VERSION);
    SSL_CTX_set_options(context->ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_mode(context->ssl, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_verify(context->ssl, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_default_passwd_cb(context->ssl, no_passphrase);
    lks_code code = load_files(context->ssl, ca_file, certificate_file, key_file, error);
    ERR_clear_error();
    if (code != LKS_OK) {
        tls_context_free(context);
        return code;
    }
    *ret = context;
    return LKS_OK;
}

void tls_context_free(tls_context *context)
{
    if (context != NULL)
        SSL_CTX_free(context->ssl);
    free(context);
}

/* ---- connections ------------------------------------------------------------------ */

static bool set_name(SSL *ssl, const char *name)
{
    unsigned char address[sizeof(struct in6_addr)];

    if (inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1;
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set1_host(ssl, name) == 1 && SSL_set_tlsext_host_name(ssl, name) == 1;
}

tls *tls_connect(tls_context *context, const char *name)
{
    tls *t = calloc(1, sizeof *t);

    if (t == NULL)
        return NULL;
    ERR_clear_error();
    t->ssl = SSL_new(context->ssl);
    t->in = BIO_new(BIO_s_mem());
    t->out = BIO_new(BIO_s_mem());
    if (t->ssl == NULL || t->in == NULL || t->out == NULL) {
        BIO_free(t->in);
        BIO_free(t->out);
        tls_free(t);
        return NULL;
    }
    BIO_set_mem_eof_return(t->in, -1);
    SSL_set_bio(t->ssl, t->in, t->out);
    if (!set_name(t->ssl, name)) {
        tls_free(t);
        return NULL;
    }
    SSL_set_connect_state(t->ssl);
    return t;
}

void tls_free(tls *t)
{
    if (t != NULL)
        SSL_free(t->ssl);
    free(t);
}

bool tls_feed(tls *t, const uint8_t *data, size_t len)
{
    return len <= INT_MAX && BIO_write(t->in, data, (int)len) == (int)len;
}

/* Whether the result of an operation means that the connection is over; then says why. */
static bool is_over(tls *t, int result)
{
    int kind = SSL_get_error(t->ssl, result);
    long verified = SSL_get_verify_result(t->ssl);
    const char *reason = ERR_reason_error_string(ERR_peek_error());

    if (kind == SSL_ERROR_WANT_READ || kind == SSL_ERROR_WANT_WRITE)
        return false;
    if (verified != X509_V_OK)
        t->why = X509_verify_cert_error_string(verified);
    else if (kind == SSL_ERROR_ZERO_RETURN)
        t->why = "closed by the server";
    else
        t->why = reason != NULL ? reason : "broken";
    ERR_clear_error();
    return true;
}

tls_state tls_shake(tls *t)
{
    ERR_clear_error();
    int result = SSL_do_handshake(t->ssl);
    if (result == 1)
        return TLS_UP;
    return is_over(t, result) ? TLS_OVER : TLS_SHAKING;
}

int tls_read(tls *t, uint8_t *data, size_t len)
{
    ERR_clear_error();
    int n = SSL_read(t->ssl, data, len < INT_MAX ? (int)len : INT_MAX);
    if (n > 0)
        return n;
    return is_over(t, n) ? -1 : 0;
}

bool tls_write(tls *t, const uint8_t *data, size_t len)
{
    size_t written;

    ERR_clear_error();
    int result = SSL_write_ex(t->ssl, data, len, &written);
    if (result == 1)
        return true;
    is_over(t, result);
    return false;
}

size_t tls_pending(const tls *t)
{
    return BIO_ctrl_pending(t->out);
}

size_t tls_take(tls *t, uint8_t *data, size_t len)
{
    int n = BIO_read(t->out, data, len < INT_MAX ? (int)len : INT_MAX);
    return n > 0 ? (size_t)n : 0;
}

const char *tls_why(const tls *t)
{
    return t->why != NULL ? t->why : "broken";
}
