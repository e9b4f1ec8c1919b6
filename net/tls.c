/* Invariant: OpenSSL's error queue is empty before each call into it, so that errors in it belong to this
 * connection. Called by stream.c and the client's byte_stream.c. */
#include "net/tls.h"

#include <arpa/inet.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

enum {
    ALPN_BYTES_MAX = 16,
    NAME_BYTES_MAX = 256,
    CHATTER_BYTES_MAX = 4096 /* TLS messages of this side that the peer does not read: about 150 key updates */
};

struct tls_context {
    pthread_mutex_t lock;
    SSL_CTX *ssl; /* under the lock */
    const char *alpn;
};

struct tls {
    SSL *ssl;
    BIO *in, *out; /* the SSL's */
    bool accepted, wants_alpn;
    const char *why;           /* why the connection is over; NULL: it is not */
    size_t chatter;            /* bytes in `out` that reading wrote there */
    char name[NAME_BYTES_MAX]; /* "" = none */
    lks_rpc_name *names;       /* with their texts */
    size_t n_names;
};

/* ---- contexts ------------------------------------------------------------------- */

/* The list of protocols, "h2,http/1.1", as it travels: each name after its length. */
static unsigned list_alpn(const char *names, unsigned char list[ALPN_BYTES_MAX])
{
    unsigned len = 0;

    for (size_t n; *names; names += n + (names[n] == ',')) {
        n = strcspn(names, ",");
        list[len] = (unsigned char)n;
        memcpy(list + len + 1, names, n);
        len += (unsigned)n + 1;
    }
    return len;
}

static int select_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_len, const unsigned char *in,
                       unsigned in_len, void *arg)
{
    const char *names = arg; /* static, because a context may be freed before its connections */
    unsigned char ours[ALPN_BYTES_MAX], *chosen;
    unsigned len = list_alpn(names, ours);
    (void)ssl;

    if (SSL_select_next_proto(&chosen, out_len, in, in_len, ours, len) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen; /* points into `in` */
    return SSL_TLSEXT_ERR_OK;
}

static const tls_names unnamed;

static const tls_names *names_or_none(const tls_names *names)
{
    return names ? names : &unnamed;
}

static lks_code file_error(const char *setting, const char *file, lks_error *error)
{
    unsigned long first = ERR_peek_error();
    const char *why =
        ERR_SYSTEM_ERROR(first) ? strerror(ERR_GET_REASON(first)) : ERR_reason_error_string(ERR_peek_last_error());

    return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "%s%s%s: %s", setting ? setting : "",
                         setting ? ": " : "", file, why ? why : "cannot be used");
}

/* There is no way to ask for the password of a key. */
static int no_password(char *password, int size, int writing, void *arg)
{
    (void)password;
    (void)size;
    (void)writing;
    (void)arg;
    return -1;
}

static lks_code load_pair(SSL_CTX *ssl, const char *certificate, const char *key, const tls_names *names,
                          lks_error *error)
{
    if (SSL_CTX_use_certificate_chain_file(ssl, certificate) != 1)
        return file_error(names->certificate, certificate, error);
    if (SSL_CTX_use_PrivateKey_file(ssl, key, SSL_FILETYPE_PEM) != 1 || SSL_CTX_check_private_key(ssl) != 1)
        return file_error(names->key, key, error);
    return LKS_OK;
}

static lks_code load_server(SSL_CTX *ssl, const tls_files *files, lks_error *error)
{
    const tls_names *called = names_or_none(files->names);
    lks_code code = load_pair(ssl, files->certificate, files->key, called, error);

    if (code != LKS_OK || !files->client_ca)
        return code;
    STACK_OF(X509_NAME) *names = SSL_load_client_CA_file(files->client_ca);
    if (!names || SSL_CTX_load_verify_locations(ssl, files->client_ca, NULL) != 1) {
        sk_X509_NAME_pop_free(names, X509_NAME_free);
        return file_error(called->ca, files->client_ca, error);
    }
    SSL_CTX_set_client_CA_list(ssl, names);
    SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER | (files->client_required ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0), NULL);
    return LKS_OK;
}

static lks_code load_client(SSL_CTX *ssl, const char *ca_file, const char *certificate_file, const char *key_file,
                            const tls_names *names, lks_error *error)
{
    SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER, NULL);
    if (!ca_file && SSL_CTX_set_default_verify_paths(ssl) != 1)
        return file_error(NULL, "the system's certificates", error);
    if (ca_file && SSL_CTX_load_verify_file(ssl, ca_file) != 1)
        return file_error(names->ca, ca_file, error);
    if (!certificate_file != !key_file)
        return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO,
                             "options: certificate_file and key_file must be given together");
    return certificate_file ? load_pair(ssl, certificate_file, key_file, names, error) : LKS_OK;
}

/* Settings of both sides. NULL when out of memory. */
static tls_context *context_new(const SSL_METHOD *method)
{
    tls_context *context = calloc(1, sizeof *context);

    ERR_clear_error();
    if (context)
        pthread_mutex_init(&context->lock, NULL);
    if (!context || !(context->ssl = SSL_CTX_new(method))) {
        tls_context_free(context);
        return NULL;
    }
    SSL_CTX_set_min_proto_version(context->ssl, TLS1_2_VERSION);
    SSL_CTX_set_options(context->ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                          SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_NO_TICKET);
    /* Without resumption every connection presents a certificate that is valid now. */
    SSL_CTX_set_session_cache_mode(context->ssl, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(context->ssl, 0);
    SSL_CTX_set_mode(context->ssl, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_default_passwd_cb(context->ssl, no_password);
    return context;
}

/* Returns the context, or frees it when its files could not be loaded. */
static lks_code context_done(tls_context *context, lks_code code, tls_context **ret)
{
    ERR_clear_error();
    if (code == LKS_OK)
        *ret = context;
    else
        tls_context_free(context);
    return code;
}

/* Returns 0 when the date cannot be read. */
static int64_t end_of(const X509 *certificate)
{
    struct tm end;

    return ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &end) == 1 ? (int64_t)timegm(&end) : 0;
}

int64_t tls_context_ends(const tls_context *context)
{
    X509 *own = context ? SSL_CTX_get0_certificate(context->ssl) : NULL;
    STACK_OF(X509) *chain = NULL;

    if (!own)
        return 0;
    int64_t first = end_of(own);
    SSL_CTX_get0_chain_certs(context->ssl, &chain);
    for (int i = 0; i < sk_X509_num(chain); i++) {
        int64_t end = end_of(sk_X509_value(chain, i));
        first = end != 0 && (first == 0 || end < first) ? end : first;
    }
    return first;
}

lks_code tls_context_load(const tls_files *files, const char *alpn, tls_context **ret, lks_error *error)
{
    tls_context *context = context_new(TLS_server_method());

    if (!context)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    context->alpn = alpn;
    if (alpn)
        SSL_CTX_set_alpn_select_cb(context->ssl, select_alpn, (void *)(uintptr_t)alpn);
    return context_done(context, load_server(context->ssl, files, error), ret);
}

lks_code tls_context_load_client(const char *ca_file, const char *certificate_file, const char *key_file,
                                 const tls_names *names, tls_context **ret, lks_error *error)
{
    tls_context *context = context_new(TLS_client_method());

    if (!context)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    lks_code code = load_client(context->ssl, ca_file, certificate_file, key_file, names_or_none(names), error);
    return context_done(context, code, ret);
}

void tls_context_free(tls_context *context)
{
    if (!context)
        return;
    SSL_CTX_free(context->ssl);
    pthread_mutex_destroy(&context->lock);
    free(context);
}

void tls_context_replace(tls_context *context, tls_context *by)
{
    pthread_mutex_lock(&context->lock);
    SSL_CTX *before = context->ssl;
    context->ssl = by->ssl;
    pthread_mutex_unlock(&context->lock);
    by->ssl = before;
    tls_context_free(by);
}

/* ---- connections ------------------------------------------------------------------ */

static tls *tls_new(tls_context *context)
{
    tls *t = calloc(1, sizeof *t);

    if (!t)
        return NULL;
    ERR_clear_error();
    pthread_mutex_lock(&context->lock);
    t->ssl = SSL_new(context->ssl);
    pthread_mutex_unlock(&context->lock);
    t->in = BIO_new(BIO_s_mem());
    t->out = BIO_new(BIO_s_mem());
    if (!t->ssl || !t->in || !t->out) {
        BIO_free(t->in);
        BIO_free(t->out);
        tls_free(t);
        return NULL;
    }
    t->wants_alpn = context->alpn && !strchr(context->alpn, ',');
    BIO_set_mem_eof_return(t->in, -1);
    SSL_set_bio(t->ssl, t->in, t->out);
    return t;
}

tls *tls_accept(tls_context *context)
{
    tls *t = tls_new(context);

    if (!t)
        return NULL;
    t->accepted = true;
    SSL_set_accept_state(t->ssl);
    return t;
}

static bool expect_name(SSL *ssl, const char *name)
{
    unsigned char address[sizeof(struct in6_addr)];

    if (inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1;
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set1_host(ssl, name) == 1 && SSL_set_tlsext_host_name(ssl, name) == 1;
}

tls *tls_connect(tls_context *context, const char *name, const char *alpn)
{
    tls *t = tls_new(context);
    unsigned char list[ALPN_BYTES_MAX];

    if (!t)
        return NULL;
    t->wants_alpn = alpn;
    if (!expect_name(t->ssl, name) || (alpn && SSL_set_alpn_protos(t->ssl, list, list_alpn(alpn, list)) != 0)) {
        tls_free(t);
        return NULL;
    }
    SSL_set_connect_state(t->ssl);
    return t;
}

void tls_free(tls *t)
{
    if (!t)
        return;
    SSL_free(t->ssl);
    for (size_t i = 0; i < t->n_names; i++)
        OPENSSL_free((char *)t->names[i].text);
    free(t->names);
    free(t);
}

bool tls_feed(tls *t, const uint8_t *data, size_t len)
{
    return len <= INT_MAX && BIO_write(t->in, data, (int)len) == (int)len;
}

/* Does not use a name that would be truncated, by a NUL or by its length. */
static void copy_name(tls *t, const ASN1_STRING *from)
{
    const unsigned char *data = ASN1_STRING_get0_data(from);
    size_t len = (size_t)ASN1_STRING_length(from);

    if (len >= sizeof t->name || memchr(data, '\0', len))
        return;
    memcpy(t->name, data, len);
    t->name[len] = '\0';
}

static void add_name(tls *t, lks_rpc_name_kind kind, const ASN1_STRING *from)
{
    unsigned char *text = NULL;
    int len = ASN1_STRING_to_UTF8(&text, from);

    if (len > 0 && t->names && t->n_names < TLS_NAMES_MAX && !memchr(text, '\0', (size_t)len))
        t->names[t->n_names++] = (lks_rpc_name){kind, (char *)text};
    else
        OPENSSL_free(text);
}

/* The name is the first DNS name (RFC 6125, 6.4.4: the common name only without a DNS name). */
static void take_names(tls *t, X509 *certificate)
{
    X509_NAME *subject = X509_get_subject_name(certificate);
    GENERAL_NAMES *others = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    const ASN1_STRING *common = NULL, *dns = NULL;

    t->names = calloc(TLS_NAMES_MAX, sizeof *t->names);
    for (int at = -1; (at = X509_NAME_get_index_by_NID(subject, NID_commonName, at)) >= 0;) {
        const ASN1_STRING *name = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at));
        common = common ? common : name;
        add_name(t, LKS_RPC_NAME_COMMON, name);
    }
    for (int i = 0; i < sk_GENERAL_NAME_num(others); i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(others, i);
        if (name->type == GEN_DNS && !dns)
            dns = name->d.dNSName;
        if (name->type == GEN_DNS || name->type == GEN_URI || name->type == GEN_EMAIL)
            add_name(t,
                     name->type == GEN_DNS   ? LKS_RPC_NAME_DNS
                     : name->type == GEN_URI ? LKS_RPC_NAME_URI
                                             : LKS_RPC_NAME_EMAIL,
                     name->d.ia5);
    }
    if (dns || common)
        copy_name(t, dns ? dns : common);
    GENERAL_NAMES_free(others);
}

static void take_peer_name(tls *t)
{
    X509 *certificate = SSL_get1_peer_certificate(t->ssl);

    if (certificate && SSL_get_verify_result(t->ssl) == X509_V_OK)
        take_names(t, certificate);
    X509_free(certificate);
}

static bool has_alpn(const tls *t)
{
    const unsigned char *name;
    unsigned len;

    SSL_get0_alpn_selected(t->ssl, &name, &len);
    return len > 0;
}

/* Decides whether a failed operation needs more bytes or ends the connection. */
static void note_failure(tls *t, int result)
{
    int kind = SSL_get_error(t->ssl, result);
    long verified = SSL_get_verify_result(t->ssl);
    const char *reason = ERR_reason_error_string(ERR_peek_error());

    if (kind == SSL_ERROR_WANT_READ)
        return;
    if (verified != X509_V_OK)
        t->why = X509_verify_cert_error_string(verified);
    else if (kind == SSL_ERROR_ZERO_RETURN)
        t->why = t->accepted ? "closed by the client" : "closed by the server";
    else
        t->why = reason ? reason : "broken";
}

tls_state tls_handshake(tls *t)
{
    ERR_clear_error();
    if (t->why)
        return TLS_OVER;
    int result = SSL_do_handshake(t->ssl);
    if (result != 1)
        note_failure(t, result);
    else if (t->accepted)
        take_peer_name(t);
    if (result == 1 && t->wants_alpn && !has_alpn(t))
        t->why = t->accepted ? "the client did not request the protocol of this address"
                             : "the server speaks another protocol";
    if (t->why)
        return TLS_OVER;
    return result == 1 ? TLS_UP : TLS_HANDSHAKE;
}

int tls_read(tls *t, uint8_t *data, size_t len)
{
    ERR_clear_error();
    if (t->why)
        return -1;
    size_t before = tls_pending(t);
    int n = SSL_read(t->ssl, data, len < INT_MAX ? (int)len : INT_MAX);
    t->chatter += tls_pending(t) - before;
    if (n <= 0)
        note_failure(t, n);
    if (t->chatter > CHATTER_BYTES_MAX)
        t->why = "the peer does not read the TLS answers that it requests";
    if (t->why)
        return -1;
    return n > 0 ? n : 0;
}

bool tls_write(tls *t, const uint8_t *data, size_t len)
{
    size_t written;

    ERR_clear_error();
    if (t->why || len == 0)
        return !t->why;
    int result = SSL_write_ex(t->ssl, data, len, &written);
    if (result != 1)
        note_failure(t, result);
    if (result != 1 && !t->why)
        t->why = "broken"; /* writing to memory never waits */
    return !t->why;
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

size_t tls_peer_names(const tls *t, const lks_rpc_name **names)
{
    *names = t->names;
    return t->n_names;
}

const char *tls_why(const tls *t)
{
    return t->why ? t->why : "broken";
}
