/* SP over TCP: an 8-byte handshake, then messages of an 8-byte big-endian length,
 * a 4-byte request id with its highest bit set, and the body. */
#include "support/sp_peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { HEADER = 8, ID = 4, REPLY_MAX = 16 << 20 };

int sp_peer_connect(unsigned short port, int receive_buffer)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval limit = {.tv_sec = SP_PEER_TIMEOUT_MS / 1000};
    int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    if (receive_buffer > 0)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

bool sp_peer_send(int fd, const void *data, size_t len)
{
    const uint8_t *at = data;

    while (len > 0) {
        ssize_t n = send(fd, at, len, MSG_NOSIGNAL);
        if (n <= 0)
            return false;
        at += n;
        len -= (size_t)n;
    }
    return true;
}

static bool receive_all(int fd, void *data, size_t len)
{
    uint8_t *at = data;

    while (len > 0) {
        ssize_t n = recv(fd, at, len, 0);
        if (n <= 0)
            return false;
        at += n;
        len -= (size_t)n;
    }
    return true;
}

static bool shake(int fd)
{
    static const uint8_t req[HEADER] = {0, 'S', 'P', 0, 0, 0x30, 0, 0};
    static const uint8_t rep[HEADER] = {0, 'S', 'P', 0, 0, 0x31, 0, 0};
    uint8_t got[HEADER];

    return sp_peer_send(fd, req, sizeof req) && receive_all(fd, got, sizeof got) && memcmp(got, rep, sizeof rep) == 0;
}

int sp_peer_open(unsigned short port)
{
    int fd = sp_peer_connect(port, 0);

    if (fd >= 0 && !shake(fd)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static void put_big_endian(uint8_t *to, uint64_t value, size_t n)
{
    for (size_t i = n; i-- > 0; value >>= 8)
        to[i] = (uint8_t)value;
}

uint8_t *sp_peer_message(uint32_t id, const void *body, size_t body_len, size_t *len)
{
    uint8_t *message = malloc(HEADER + ID + body_len);

    if (!message)
        abort();
    put_big_endian(message, ID + body_len, HEADER);
    put_big_endian(message + HEADER, id | 0x80000000U, ID);
    if (body_len > 0)
        memcpy(message + HEADER + ID, body, body_len);
    *len = HEADER + ID + body_len;
    return message;
}

uint8_t *sp_peer_receive(int fd, uint32_t *id, size_t *len)
{
    uint8_t head[HEADER + ID];
    uint64_t length = 0;

    if (!receive_all(fd, head, sizeof head))
        return NULL;
    for (size_t i = 0; i < HEADER; i++)
        length = length << 8 | head[i];
    if (length < ID || length > REPLY_MAX)
        return NULL;
    uint8_t *body = malloc((size_t)length - ID + 1);
    if (!body)
        abort();
    if (!receive_all(fd, body, (size_t)length - ID)) {
        free(body);
        return NULL;
    }
    *id = (uint32_t)head[HEADER] << 24 | (uint32_t)head[HEADER + 1] << 16 | (uint32_t)head[HEADER + 2] << 8 |
          head[HEADER + 3];
    *len = (size_t)length - ID;
    return body;
}

bool sp_peer_closed(int fd)
{
    char byte;

    ssize_t n = recv(fd, &byte, 1, 0);

    return n == 0 || (n < 0 && errno == ECONNRESET); /* reset: it closed with bytes unread */
}
