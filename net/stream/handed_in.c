/* Called by wires.c and the engines. */
#include "net/stream/handed_in.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/number.h"

enum { FIRST_FD = 3, NAME_BYTES_MAX = 255 };

union name {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_storage room;
};

static lks_code refuse(lks_error *error, const char *why)
{
    return lks_error_set(error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO, "%s", why);
}

lks_code handed_in_check_text(const char *text, size_t len, lks_error *error)
{
    bool good = len > 0 && len <= NAME_BYTES_MAX;

    for (size_t i = 0; i < len && good; i++)
        good = text[i] > ' ' && text[i] <= '~' && text[i] != ':';
    return good ? LKS_OK
                : lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO,
                                "must be the number of a descriptor, or a name of LISTEN_FDNAMES");
}

/* The number of descriptors that were handed in to this process. */
static int count(void)
{
    const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");

    if (!pid || !fds || number_parse(pid, strlen(pid), INT32_MAX) != getpid())
        return 0;
    int64_t n = number_parse(fds, strlen(fds), INT32_MAX - FIRST_FD);
    return n > 0 ? (int)n : 0;
}

static union name local_name(int fd)
{
    union name name = {.any.sa_family = AF_UNSPEC};
    socklen_t len = sizeof name;

    if (getsockname(fd, &name.any, &len) != 0)
        name.any.sa_family = AF_UNSPEC;
    return name;
}

static lks_code check(int fd, lks_error *error)
{
    int type = 0, listens = 0;
    socklen_t len = sizeof(int);

    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) != 0)
        return refuse(error, errno == EBADF ? "no such descriptor is open" : "the descriptor is not a socket");
    len = sizeof(int);
    sa_family_t family = local_name(fd).any.sa_family;
    if (type != SOCK_STREAM || (family != AF_INET && family != AF_INET6 && family != AF_UNIX))
        return refuse(error, "the descriptor is not a TCP or unix stream socket");
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) != 0 || !listens)
        return refuse(error, "the descriptor is a socket that is not listening");
    return LKS_OK;
}

static lks_code find_name(const char *text, size_t len, int fds[HANDED_IN_MAX], size_t *n, lks_error *error)
{
    const char *names = getenv("LISTEN_FDNAMES");

    *n = 0;
    for (int i = 0, all = count(); names && i < all && *n < HANDED_IN_MAX; i++) {
        size_t name_len = strcspn(names, ":");
        if (name_len == len && memcmp(names, text, len) == 0)
            fds[(*n)++] = FIRST_FD + i;
        names = names[name_len] == ':' ? names + name_len + 1 : NULL;
    }
    return *n > 0 ? LKS_OK : refuse(error, "no descriptor with this name was handed in (LISTEN_FDNAMES, LISTEN_PID)");
}

lks_code handed_in_find(const char *text, size_t len, int fds[HANDED_IN_MAX], size_t *n, lks_error *error)
{
    int64_t number = number_parse(text, len, INT32_MAX);

    lks_code code = handed_in_check_text(text, len, error);
    if (code != LKS_OK)
        return code;
    *n = 1;
    fds[0] = (int)number;
    if (number < 0)
        code = find_name(text, len, fds, n, error);
    for (size_t i = 0; i < *n && code == LKS_OK; i++)
        code = check(fds[i], error);
    return code;
}

bool handed_in_is_unix(int fd)
{
    return local_name(fd).any.sa_family == AF_UNIX;
}

bool handed_in_is_exposed(int fd)
{
    const union name name = local_name(fd);

    if (name.any.sa_family == AF_INET)
        return ntohl(name.v4.sin_addr.s_addr) >> 24 != 127;
    if (name.any.sa_family != AF_INET6 || IN6_IS_ADDR_LOOPBACK(&name.v6.sin6_addr))
        return false;
    return !IN6_IS_ADDR_V4MAPPED(&name.v6.sin6_addr) || name.v6.sin6_addr.s6_addr[12] != 127;
}
