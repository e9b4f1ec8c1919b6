/* The ports are below the range of outgoing ports: there no client's connection can occupy one while the server is down,
 * and no client that keeps trying can end up connected to itself. Who uses a port has bound a name for it (unix(7),
 * abstract). */
#include "support/ports.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { PORT_FIRST = 20000, PORT_COUNT = 12000 };

static bool port_is_free(unsigned short port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return false;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    bool is_free = bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(fd, 1) == 0;
    close(fd);
    return is_free;
}

/* The name's descriptor; -1: another test uses the port. */
static int name_port(unsigned short port)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "lockstock-tests-port-%u", port);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    close(fd);
    return -1;
}

int ports_take(unsigned short *ret)
{
    for (;;) {
        unsigned short random = 0;
        if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
            continue;
        *ret = (unsigned short)(PORT_FIRST + random % PORT_COUNT);
        int fd = name_port(*ret);
        if (fd >= 0 && port_is_free(*ret))
            return fd;
        if (fd >= 0)
            close(fd);
    }
}

int ports_bind(unsigned short *ret)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (bind(fd, (const struct sockaddr *)&address, len) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) != 0)
        abort();
    *ret = ntohs(address.sin_port);
    return fd;
}
