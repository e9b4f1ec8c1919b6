/* Invariant: OpenSSL's error queue is empty before each call into it, so that what it
 * says is of this connection. Called by stream.c. */
#include "net/tls.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

enum {
    ALPN_BYTES_MAX = 16,
    NAME_BYTES_MAX = 256,
    CHATTER_BYTES_MAX = 4096 /* of TLS' own answers that the peer does not take: about 150 new keys */
};

struct tls_context {
    SSL_CTX *ssl;
    const char *alpn;
};

struct tls {
    SSL *ssl;
    BIO *in, *out; /* the SSL's */
    bool wants_alpn, over;
    size_t chatter;            /* of what waits in `out`: what reading wrote there */
    char name[NAME_BYTES_MAX]; /* "" = none */
};

/* ---- contexts ------------------------------------------------------------------- */

static int select_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_len, const unsigned char *in,
                       unsigned in_len, void *arg)
{
    const char *name = arg; /* static: a context may go before its connections */
    unsigned char ours[ALPN_BYTES_MAX] = {(unsigned char)strlen(name)};
    unsigned char *chosen;
    (void)ssl;

    memcpy(ours + 1, name, ours[0]);
    if (SSL_select_next_proto(&chosen, out_len, in, in_len, ours, ours[0] + 1U) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen; /* in `in` */
    return SSL_TLSEXT_ERR_OK;
}

static lks_code wrong(const char *file, lks_error *error)
{
    const char *why = ERR_reason_error_string(ERR_peek_last_error());

    return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "%s: %s", file, why ? why : "cannot be used");
}

/* Nobody is there to be asked for a key's password. */
static int no_password(char *password, int size, int writing, void *arg)
{
    (void)password;
    (void)size;
    (void)writing;
    (void)arg;
    return -1;
}

static lks_code load_files(SSL_CTX *ssl, const tls_files *files, lks_error *error)
{
    if (SSL_CTX_use_certificate_chain_file(ssl, files->certificate) != 1)
        return wrong(files->certificate, error);
    if (SSL_CTX_use_PrivateKey_file(ssl, files->key, SSL_FILETYPE_PEM) != 1 || SSL_CTX_check_private_key(ssl) != 1)
        return wrong(files->key, error);
    if (!files->client_ca)
        return LKS_OK;
    STACK_OF(X509_NAME) *names = SSL_load_client_CA_file(files->client_ca);
    if (!names || SSL_CTX_load_verify_locations(ssl, files->client_ca, NULL) != 1) {
        sk_X509_NAME_pop_free(names, X509_NAME_free);
        return wrong(files->client_ca, error);
    }
    SSL_CTX_set_client_CA_list(ssl, names);
    SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER | (files->client_required ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0), NULL);
    return LKS_OK;
}

lks_code tls_context_load(const tls_files *files, const char *alpn, tls_context **ret, lks_error *error)
{
    tls_context *context = calloc(1, sizeof *context);

    ERR_clear_error();
    if (!context || !(context->ssl = SSL_CTX_new(TLS_server_method()))) {
        tls_context_free(context);
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    }
    SSL_CTX_set_min_proto_version(context->ssl, TLS1_2_VERSION);
    SSL_CTX_set_options(context->ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                          SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_NO_TICKET);
    /* No resumption: every connection shows a certificate that is valid now. */
    SSL_CTX_set_session_cache_mode(context->ssl, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(context->ssl, 0);
    SSL_CTX_set_mode(context->ssl, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_default_passwd_cb(context->ssl, no_password);
    context->alpn = alpn;
    if (alpn)
        SSL_CTX_set_alpn_select_cb(context->ssl, select_alpn, (void *)(uintptr_t)alpn);
    if (load_files(context->ssl, files, error) != LKS_OK) {
        tls_context_free(context);
        return error->code;
    }
    *ret = context;
    return LKS_OK;
}

void tls_context_free(tls_context *context)
{
    if (context)
        SSL_CTX_free(context->ssl);
    free(context);
}

/* ---- connections ------------------------------------------------------------------ */

tls *tls_accept(tls_context *context)
{
    tls *t = calloc(1, sizeof *t);

    if (!t)
        return NULL;
    t->ssl = SSL_new(context->ssl);
    t->in = BIO_new(BIO_s_mem());
    t->out = BIO_new(BIO_s_mem());
    if (!t->ssl || !t->in || !t->out) {
        BIO_free(t->in);
        BIO_free(t->out);
        SSL_free(t->ssl);
        free(t);
        return NULL;
    }
    t->wants_alpn = context->alpn != NULL;
    BIO_set_mem_eof_return(t->in, -1);
    SSL_set_bio(t->ssl, t->in, t->out);
    SSL_set_accept_state(t->ssl);
    return t;
}

void tls_free(tls *t)
{
    if (t)
        SSL_free(t->ssl);
    free(t);
}

bool tls_feed(tls *t, const uint8_t *data, size_t len)
{
    return len <= INT_MAX && BIO_write(t->in, data, (int)len) == (int)len;
}

/* What could be cut short, at a NUL or by its length, is not a name. */
static void copy_name(tls *t, const ASN1_STRING *from)
{
    const unsigned char *data = ASN1_STRING_get0_data(from);
    size_t len = (size_t)ASN1_STRING_length(from);

    if (len >= sizeof t->name || memchr(data, '\0', len))
        return;
    memcpy(t->name, data, len);
    t->name[len] = '\0';
}

/* Whether there is a DNS name; the first counts, whatever it is (RFC 6125, 6.4.4: the
 * common name only where there is none). */
static bool take_dns_name(tls *t, X509 *certificate)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    bool found = false;

    for (int i = 0; i < sk_GENERAL_NAME_num(names) && !found; i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        found = name->type == GEN_DNS;
        if (found)
            copy_name(t, name->d.dNSName);
    }
    GENERAL_NAMES_free(names);
    return found;
}

static void take_common_name(tls *t, X509 *certificate)
{
    X509_NAME *subject = X509_get_subject_name(certificate);
    int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);

    if (at >= 0)
        copy_name(t, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
}

static void take_peer_name(tls *t)
{
    X509 *certificate = SSL_get1_peer_certificate(t->ssl);

    if (certificate && SSL_get_verify_result(t->ssl) == X509_V_OK && !take_dns_name(t, certificate))
        take_common_name(t, certificate);
    X509_free(certificate);
}

static bool has_alpn(const tls *t)
{
    const unsigned char *name;
    unsigned len;

    SSL_get0_alpn_selected(t->ssl, &name, &len);
    return len > 0;
}

tls_state tls_shake(tls *t)
{
    ERR_clear_error();
    if (t->over)
        return TLS_OVER;
    int result = SSL_do_handshake(t->ssl);
    if (result == 1) {
        take_peer_name(t);
        t->over = t->wants_alpn && !has_alpn(t);
        return t->over ? TLS_OVER : TLS_UP;
    }
    t->over = SSL_get_error(t->ssl, result) != SSL_ERROR_WANT_READ;
    return t->over ? TLS_OVER : TLS_SHAKING;
}

int tls_read(tls *t, uint8_t *data, size_t len)
{
    ERR_clear_error();
    if (t->over)
        return -1;
    size_t before = tls_pending(t);
    int n = SSL_read(t->ssl, data, len < INT_MAX ? (int)len : INT_MAX);
    t->chatter += tls_pending(t) - before;
    t->over = t->chatter > CHATTER_BYTES_MAX || (n <= 0 && SSL_get_error(t->ssl, n) != SSL_ERROR_WANT_READ);
    if (t->over)
        return -1;
    return n > 0 ? n : 0;
}

bool tls_write(tls *t, const uint8_t *data, size_t len)
{
    ERR_clear_error();
    if (!t->over && len > 0)
        t->over = len > INT_MAX || SSL_write(t->ssl, data, (int)len) != (int)len;
    return !t->over;
}

size_t tls_pending(const tls *t)
{
    return BIO_ctrl_pending(t->out);
}

size_t tls_take(tls *t, uint8_t *data, size_t len)
{
    int n = BIO_read(t->out, data, len < INT_MAX ? (int)len : INT_MAX);

    if (tls_pending(t) == 0)
        t->chatter = 0;
    return n > 0 ? (size_t)n : 0;
}

const char *tls_peer_name(const tls *t)
{
    return t->name[0] ? t->name : NULL;
}
