/* For any bytes instead of TLS, or any change to a real client's bytes: the
 * server's side ends or waits, and once over stays so; what it reads is a prefix of
 * what the client wrote; its name for the peer is that of the client's certificate,
 * or none. Without changes all bytes arrive.
 *
 *   flags (1)  size of a piece, 0 = 256 (1)  edits: n (1), offset (2) how (1) value (1)  bytes
 *   flags: 1 the bytes are plain ones of a real client, else they are the network's;
 *   2 it shows a certificate; 4 TLS 1.2; 8 it does not ask for the protocol
 *   how: 0 xor, 1 a byte more, 2 a byte less, 3 the end */
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/mman.h>

#include "fuzz.h"
#include "support/certificates.h"
#include "net/tls.h"

enum { EDITS_MAX = 15, ROUNDS_MAX = 40, BUFFER = 20000, PATH_BYTES = 64 };

static const char protocol[] = "fz", client_name[] = "fuzz.client";

static struct {
    tls_context *server;
    SSL_CTX *plain, *certified; /* clients */
} with;

typedef struct edit {
    size_t offset;
    uint8_t how, value;
} edit;

typedef struct edits {
    edit list[EDITS_MAX];
    size_t n, at; /* at: how many of the client's bytes passed */
    bool ended;
} edits;

/* A file in memory, for the life of the program. */
static void memory_file(char path[PATH_BYTES])
{
    int fd = memfd_create("fuzz", 0);

    fuzz_expect(fd >= 0);
    snprintf(path, PATH_BYTES, "/proc/self/fd/%d", fd);
}

static SSL_CTX *client_context(const char *certificate, const char *key)
{
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());

    fuzz_expect(context);
    if (certificate) {
        fuzz_expect(SSL_CTX_use_certificate_file(context, certificate, SSL_FILETYPE_PEM) == 1);
        fuzz_expect(SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) == 1);
    }
    return context;
}

static void set_up(void)
{
    char ca[PATH_BYTES], files[4][PATH_BYTES];
    lks_error error;

    memory_file(ca);
    for (int i = 0; i < 4; i++)
        memory_file(files[i]);
    authority *a = authority_new("fuzz");
    authority_write(a, ca);
    authority_sign(a, &(certificate_wish){.common = {.text = "server"}}, files[0], files[1]);
    authority_sign(a, &(certificate_wish){.common = {.text = client_name}}, files[2], files[3]);
    authority_free(a);
    const tls_files of_server = {.certificate = files[0], .key = files[1], .client_ca = ca};
    fuzz_expect(tls_context_load(&of_server, protocol, &with.server, &error) == LKS_OK);
    with.plain = client_context(NULL, NULL);
    with.certified = client_context(files[2], files[3]);
}

/* Goes on as stream.c does. What it read is appended to `got`. */
static void serve(tls *t, tls_state *state, uint8_t *got, size_t *got_len)
{
    uint8_t buffer[512];
    int n;

    if (*state == TLS_HANDSHAKE)
        *state = tls_handshake(t);
    while (*state == TLS_UP && (n = tls_read(t, buffer, sizeof buffer)) != 0) {
        if (n < 0) {
            *state = TLS_OVER;
            break;
        }
        fuzz_expect((size_t)n <= sizeof buffer && *got_len + (size_t)n <= BUFFER);
        memcpy(got + *got_len, buffer, (size_t)n);
        *got_len += (size_t)n;
        if (!tls_write(t, buffer, (size_t)n))
            *state = TLS_OVER;
    }
}

static void check_over(tls *t)
{
    uint8_t byte = 0;

    fuzz_expect(tls_handshake(t) == TLS_OVER && tls_read(t, &byte, 1) == -1 && !tls_write(t, &byte, 1));
}

/* The client's bytes, as the edits leave them, to the server in pieces. */
static void pass_on(tls *t, tls_state *state, edits *e, const uint8_t *data, size_t len, size_t piece, uint8_t *got,
                    size_t *got_len)
{
    uint8_t changed[2 * BUFFER];
    size_t n = 0;

    for (size_t i = 0; i < len && !e->ended; i++, e->at++) {
        uint8_t byte = data[i];
        bool dropped = false;
        for (size_t k = 0; k < e->n; k++) {
            if (e->list[k].offset != e->at)
                continue;
            if (e->list[k].how % 4 == 1 && n < BUFFER)
                changed[n++] = e->list[k].value;
            byte ^= e->list[k].how % 4 == 0 ? e->list[k].value : 0;
            dropped = dropped || e->list[k].how % 4 == 2;
            e->ended = e->ended || e->list[k].how % 4 == 3;
        }
        if (!dropped)
            changed[n++] = byte;
    }
    for (size_t done = 0; done < n && *state != TLS_OVER; done += piece) {
        fuzz_expect(tls_feed(t, changed + done, n - done < piece ? n - done : piece));
        serve(t, state, got, got_len);
    }
}

static SSL *client_new(unsigned flags)
{
    static const unsigned char asked[] = {2, 'f', 'z'};
    SSL *ssl = SSL_new(flags & 2 ? with.certified : with.plain);
    BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());

    fuzz_expect(ssl && in && out);
    BIO_set_mem_eof_return(in, -1);
    SSL_set_bio(ssl, in, out);
    SSL_set_connect_state(ssl);
    if (flags & 4)
        SSL_set_max_proto_version(ssl, TLS1_2_VERSION);
    if (!(flags & 8))
        SSL_set_alpn_protos(ssl, asked, sizeof asked);
    return ssl;
}

/* A true client writes `text` once its side is up, and reads the echo. */
static void with_client(unsigned flags, size_t piece, edits *e, const uint8_t *text, size_t len)
{
    tls *t = tls_accept(with.server);
    SSL *client = client_new(flags);
    static uint8_t bytes[BUFFER], got[BUFFER], echoed[BUFFER];
    size_t got_len = 0, echoed_len = 0;
    tls_state state = TLS_HANDSHAKE;
    bool wrote = false, failed = false;
    int n = 1, m = 1;

    fuzz_expect(t);
    for (int round = 0; round < ROUNDS_MAX && (n > 0 || m > 0); round++) {
        ERR_clear_error();
        if (!failed && !wrote && SSL_do_handshake(client) == 1) {
            wrote = true;
            fuzz_expect(len == 0 || SSL_write(client, text, (int)len) == (int)len);
        } else if (!failed && !wrote) {
            failed = SSL_get_error(client, -1) != SSL_ERROR_WANT_READ;
        }
        int r;
        while (wrote && (r = SSL_read(client, echoed + echoed_len, (int)(sizeof echoed - echoed_len))) > 0)
            echoed_len += (size_t)r;
        n = BIO_read(SSL_get_wbio(client), bytes, sizeof bytes);
        if (n > 0)
            pass_on(t, &state, e, bytes, (size_t)n, piece, got, &got_len);
        m = (int)tls_take(t, bytes, sizeof bytes);
        if (m > 0)
            BIO_write(SSL_get_rbio(client), bytes, m);
    }
    fuzz_expect(got_len <= len && (got_len == 0 || memcmp(got, text, got_len) == 0));
    fuzz_expect(echoed_len <= got_len && (echoed_len == 0 || memcmp(echoed, text, echoed_len) == 0));
    const char *name = tls_peer_name(t);
    fuzz_expect(!name || (flags & 2 && strcmp(name, client_name) == 0));
    if (e->n == 0) {
        fuzz_expect((state == TLS_UP) == !(flags & 8));
        fuzz_expect(state != TLS_UP || (!!name == !!(flags & 2) && got_len == len && echoed_len == len));
    }
    if (state == TLS_OVER)
        check_over(t);
    SSL_free(client);
    tls_free(t);
    ERR_clear_error();
}

static void with_bytes(size_t piece, fuzz_input in)
{
    tls *t = tls_accept(with.server);
    static uint8_t got[BUFFER], out[512];
    size_t got_len = 0;
    tls_state state = TLS_HANDSHAKE;

    fuzz_expect(t);
    while (in.len > 0 && state != TLS_OVER) {
        size_t n;
        uint8_t *data = fuzz_bytes(&in, piece, &n);
        fuzz_expect(tls_feed(t, data, n));
        serve(t, &state, got, &got_len);
        while (tls_take(t, out, sizeof out) > 0)
            ;
        free(data);
    }
    fuzz_expect(state != TLS_UP && got_len == 0 && tls_pending(t) == 0 && !tls_peer_name(t));
    if (state == TLS_OVER)
        check_over(t);
    tls_free(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    fuzz_input in = {.data = data, .len = len};
    unsigned flags = fuzz_byte(&in), piece = fuzz_byte(&in);
    edits e = {.n = fuzz_byte(&in) % (EDITS_MAX + 1)};

    if (!with.server)
        set_up();
    for (size_t i = 0; i < e.n; i++) {
        size_t high = fuzz_byte(&in), low = fuzz_byte(&in);
        e.list[i] = (edit){.offset = high << 8 | low, .how = fuzz_byte(&in)};
        e.list[i].value = fuzz_byte(&in);
    }
    if (flags & 1)
        with_client(flags, piece > 0 ? piece : 256, &e, in.data, in.len < 4096 ? in.len : 4096);
    else
        with_bytes(piece > 0 ? piece : 256, in);
    return 0;
}
