#include "support/sp_caller.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

enum { HANDSHAKE = 8, HEADER = 12, REPLY_MAX = 16 << 20, METADATA_MAX = 2 };

struct sp_caller {
    int fd;
    SSL *ssl;     /* NULL: in plain */
    bool is_unix; /* a byte, 1, before each length */
    bool is_web;  /* WebSocket's heads for lengths */
    char server_name[256];
};

static bool send_all(sp_caller *c, const uint8_t *data, size_t len)
{
    while (len > 0) {
        ssize_t n = c->ssl ? SSL_write(c->ssl, data, (int)len) : send(c->fd, data, len, MSG_NOSIGNAL);
        if (n <= 0)
            return false;
        data += n;
        len -= (size_t)n;
    }
    return true;
}

static bool receive_all(sp_caller *c, uint8_t *data, size_t len)
{
    while (len > 0) {
        ssize_t n = c->ssl ? SSL_read(c->ssl, data, (int)len) : recv(c->fd, data, len, 0);
        if (n <= 0)
            return false;
        data += n;
        len -= (size_t)n;
    }
    return true;
}

static int connect_to(const char *url)
{
    const struct timeval limit = {.tv_sec = SP_CALLER_TIMEOUT_MS / 1000};
    struct sockaddr_un path = {.sun_family = AF_UNIX};
    struct sockaddr_in port = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    bool is_unix = strncmp(url, "unix://", 7) == 0;
    int fd = socket(is_unix ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    snprintf(path.sun_path, sizeof path.sun_path, "%s", url + 7);
    port.sin_port = htons((uint16_t)strtoul(strrchr(url, ':') + 1, NULL, 10));
    int failed = is_unix ? connect(fd, (const struct sockaddr *)&path, sizeof path)
                         : connect(fd, (const struct sockaddr *)&port, sizeof port);
    if (failed) {
        close(fd);
        return -1;
    }
    return fd;
}

static bool secure(sp_caller *c, const sp_caller_tls *options)
{
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    bool ready = context && SSL_CTX_load_verify_locations(context, options->ca, NULL) == 1;

    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    if (ready && options->certificate)
        ready = SSL_CTX_use_certificate_chain_file(context, options->certificate) == 1 &&
                SSL_CTX_use_PrivateKey_file(context, options->key, SSL_FILETYPE_PEM) == 1;
    c->ssl = ready ? SSL_new(context) : NULL;
    SSL_CTX_free(context);
    if (!c->ssl || SSL_set_fd(c->ssl, c->fd) != 1 || SSL_connect(c->ssl) != 1)
        return false;
    X509 *server = SSL_get1_peer_certificate(c->ssl);
    X509_NAME_get_text_by_NID(X509_get_subject_name(server), NID_commonName, c->server_name, sizeof c->server_name);
    X509_free(server);
    return true;
}

static bool greet(sp_caller *c)
{
    static const uint8_t req[HANDSHAKE] = {0, 'S', 'P', 0, 0, 0x30, 0, 0};
    static const uint8_t rep[HANDSHAKE] = {0, 'S', 'P', 0, 0, 0x31, 0, 0};
    uint8_t got[HANDSHAKE];

    return send_all(c, req, sizeof req) && receive_all(c, got, sizeof got) && memcmp(got, rep, sizeof rep) == 0;
}

/* The key is RFC 6455's example. */
static bool upgrade(sp_caller *c, const char *path)
{
    static const char begin[] = "HTTP/1.1 101 ", end[] = "\r\n\r\n";
    char text[1024];
    size_t n = 0;

    snprintf(text, sizeof text,
             "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
             "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
             "Sec-WebSocket-Protocol: rep.sp.nanomsg.org\r\n\r\n",
             path);
    if (!send_all(c, (const uint8_t *)text, strlen(text)))
        return false;
    while (n < sizeof text && receive_all(c, (uint8_t *)text + n, 1))
        if (++n >= strlen(end) && memcmp(text + n - strlen(end), end, strlen(end)) == 0)
            return memcmp(text, begin, strlen(begin)) == 0;
    return false;
}

sp_caller *sp_caller_open(const char *url, const sp_caller_tls *tls)
{
    sp_caller *c = calloc(1, sizeof *c);

    ERR_clear_error();
    if (!c || (c->fd = connect_to(url)) < 0) {
        free(c);
        return NULL;
    }
    c->is_unix = strncmp(url, "unix://", 7) == 0;
    c->is_web = strncmp(url, "wss://", 6) == 0;
    bool secured = (!c->is_web && strncmp(url, "tls://", 6) != 0) || secure(c, tls);
    if (!secured || !(c->is_web ? upgrade(c, strchr(url + 6, '/')) : greet(c))) {
        sp_caller_close(c);
        return NULL;
    }
    return c;
}

void sp_caller_close(sp_caller *c)
{
    if (c) {
        SSL_free(c->ssl);
        close(c->fd);
    }
    free(c);
    ERR_clear_error();
}

const char *sp_caller_server_name(const sp_caller *c)
{
    return c->server_name;
}

static void add_metadata(Lockstock__Rpc__V1__Call *call, const char *key, char *value)
{
    Lockstock__Rpc__V1__Metadata *item = call->metadata[call->n_metadata++];

    lockstock__rpc__v1__metadata__init(item);
    item->key = (char *)(uintptr_t)key;
    item->value = (ProtobufCBinaryData){.len = strlen(value), .data = (uint8_t *)value};
}

static void put_big_endian(uint8_t *to, uint64_t value, size_t n)
{
    for (size_t i = n; i-- > 0; value >>= 8)
        to[i] = (uint8_t)value;
}

/* "length(8) id(4) frame", to be freed. */
static uint8_t *message_of(const sp_caller_call *from, size_t *len)
{
    Lockstock__Rpc__V1__Metadata items[METADATA_MAX], *metadata[METADATA_MAX] = {&items[0], &items[1]};
    Lockstock__Rpc__V1__Call call = LOCKSTOCK__RPC__V1__CALL__INIT, *calls[] = {&call};
    Lockstock__Rpc__V1__Frame frame = LOCKSTOCK__RPC__V1__FRAME__INIT;
    size_t payload_len = from->request ? protobuf_c_message_get_packed_size(from->request) : 0;
    uint8_t *payload = malloc(payload_len + 1);
    char authorization[512];

    if (!payload)
        abort();
    if (from->request)
        protobuf_c_message_pack(from->request, payload);
    call.method = (char *)(uintptr_t)from->method;
    call.payload = (ProtobufCBinaryData){.len = payload_len, .data = payload};
    call.timeout_ms = SP_CALLER_TIMEOUT_MS / 2;
    call.metadata = metadata;
    snprintf(authorization, sizeof authorization, "Bearer %s", from->token ? from->token : "");
    if (from->token)
        add_metadata(&call, "authorization", authorization);
    if (from->ns)
        add_metadata(&call, "lockstock-namespace", (char *)(uintptr_t)from->ns);
    frame.n_calls = 1;
    frame.calls = calls;
    size_t frame_len = lockstock__rpc__v1__frame__get_packed_size(&frame);
    uint8_t *message = malloc(HEADER + frame_len);
    if (!message)
        abort();
    put_big_endian(message, 4 + frame_len, 8);
    put_big_endian(message + 8, 0x80000001, 4);
    lockstock__rpc__v1__frame__pack(&frame, message + HEADER);
    free(payload);
    *len = HEADER + frame_len;
    return message;
}

/* In one frame, masked with zeros. */
static bool send_message(sp_caller *c, const uint8_t *message, size_t len)
{
    static const uint8_t type = 1;
    uint8_t head[8] = {0x82};
    size_t n = len - 8, head_len = n < 126 ? 6 : 8;

    if (!c->is_web)
        return (!c->is_unix || send_all(c, &type, 1)) && send_all(c, message, len);
    head[1] = (uint8_t)(0x80 | (n < 126 ? n : 126));
    if (n >= 126)
        put_big_endian(head + 2, n, 2);
    return n <= UINT16_MAX && send_all(c, head, head_len) && send_all(c, message + 8, n);
}

/* Up to the frame of the reply, whose length it gives. Over WebSocket it has to be in one piece. */
static bool receive_header(sp_caller *c, uint64_t *len)
{
    uint8_t type = 1, header[HEADER] = {0};
    size_t n = 8;

    if (c->is_web) {
        if (!receive_all(c, header, 2) || header[0] != 0x82)
            return false;
        n = header[1] == 127 ? 8 : header[1] == 126 ? 2 : 0;
        *len = header[1];
    } else if (c->is_unix && !receive_all(c, &type, 1)) {
        return false;
    }
    if (!receive_all(c, header, n + 4)) /* the id, too */
        return false;
    for (size_t i = 0; i < n; i++)
        *len = (i > 0 ? *len << 8 : 0) | header[i];
    *len -= 4;
    return true;
}

Lockstock__Rpc__V1__Reply *sp_caller_ask(sp_caller *c, const sp_caller_call *call)
{
    Lockstock__Rpc__V1__Reply *reply = NULL;
    uint8_t *body = NULL;
    uint64_t body_len = 0;
    size_t len;
    uint8_t *message = message_of(call, &len);

    if (send_message(c, message, len) && receive_header(c, &body_len) && body_len <= REPLY_MAX)
        body = malloc(body_len + 1);
    if (body && receive_all(c, body, body_len))
        reply = lockstock__rpc__v1__reply__unpack(NULL, body_len, body);
    free(body);
    free(message);
    return reply;
}
