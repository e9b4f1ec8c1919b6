#include "conformance/line.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

struct line {
    int fd;
    SSL *tls; /* NULL: in plain */
    char server_name[256];
};

static int connect_to(const char *url)
{
    const char *address = strstr(url, "://");
    struct timeval limit = {.tv_sec = LINE_TIMEOUT_MS / 1000};
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    struct sockaddr_in remote = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    bool is_unix = strncmp(url, "unix://", 7) == 0;
    int on = 1;
    int fd = socket(is_unix ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || !address)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (is_unix) {
        strncpy(local.sun_path, address + 3, sizeof local.sun_path - 1);
    } else {
        remote.sin_port = htons((uint16_t)strtoul(strrchr(address, ':') + 1, NULL, 10));
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
    int failed = is_unix ? connect(fd, (struct sockaddr *)&local, sizeof local)
                         : connect(fd, (struct sockaddr *)&remote, sizeof remote);
    if (failed != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static bool shake(line *l, const line_tls *told)
{
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    bool ready = context && SSL_CTX_load_verify_file(context, told->ca) == 1;

    if (ready && told->certificate)
        ready = SSL_CTX_use_certificate_chain_file(context, told->certificate) == 1 &&
                SSL_CTX_use_PrivateKey_file(context, told->key, SSL_FILETYPE_PEM) == 1;
    l->tls = ready ? SSL_new(context) : NULL;
    SSL_CTX_free(context);
    if (!l->tls)
        return false;
    SSL_set_verify(l->tls, SSL_VERIFY_PEER, NULL);
    if (told->alpn) {
        uint8_t protocol[16] = {(uint8_t)strlen(told->alpn)};
        memcpy(protocol + 1, told->alpn, protocol[0]);
        SSL_set_alpn_protos(l->tls, protocol, protocol[0] + 1U);
    }
    if (told->host)
        SSL_set1_host(l->tls, told->host);
    SSL_set_fd(l->tls, l->fd);
    if (SSL_connect(l->tls) != 1)
        return false;
    X509 *server = SSL_get1_peer_certificate(l->tls);
    X509_NAME_get_text_by_NID(X509_get_subject_name(server), NID_commonName, l->server_name, sizeof l->server_name);
    X509_free(server);
    return true;
}

line *line_open(const char *url, const char *certificate, const char *alpn)
{
    const bool secure = certificate && certificate[0] != '\0';

    return line_open_tls(url, &(line_tls){.ca = secure ? certificate : NULL, .host = "localhost", .alpn = alpn});
}

line *line_open_tls(const char *url, const line_tls *tls)
{
    line *l = calloc(1, sizeof *l);

    if (!l)
        abort();
    l->fd = connect_to(url);
    const bool open = l->fd >= 0 && (!tls->ca || shake(l, tls));
    ERR_clear_error();
    if (open)
        return l;
    if (l->fd >= 0)
        line_close(l);
    else
        free(l);
    return NULL;
}

const char *line_server_name(const line *l)
{
    return l->server_name;
}

bool line_send(line *l, const void *data, size_t len)
{
    const uint8_t *at = data;

    while (len > 0) {
        ssize_t n = l->tls ? SSL_write(l->tls, at, (int)len) : send(l->fd, at, len, MSG_NOSIGNAL);
        if (n <= 0) {
            ERR_clear_error();
            return false;
        }
        at += n;
        len -= (size_t)n;
    }
    return true;
}

size_t line_receive(line *l, void *data, size_t len)
{
    ssize_t n = l->tls ? SSL_read(l->tls, data, (int)len) : recv(l->fd, data, len, 0);

    ERR_clear_error();
    return n > 0 ? (size_t)n : 0;
}

bool line_receive_all(line *l, void *data, size_t len)
{
    uint8_t *at = data;

    while (len > 0) {
        size_t n = line_receive(l, at, len);
        if (n == 0)
            return false;
        at += n;
        len -= n;
    }
    return true;
}

bool line_ends(line *l)
{
    uint8_t bytes[4096];
    ssize_t n;

    while (line_receive(l, bytes, sizeof bytes) > 0) {
    }
    n = recv(l->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN);
}

bool line_is_open(const line *l)
{
    struct pollfd at = {.fd = l->fd, .events = POLLRDHUP};

    return poll(&at, 1, 0) == 0;
}

void line_close(line *l)
{
    if (l) {
        SSL_free(l->tls);
        close(l->fd);
    }
    free(l);
}
