/* Invariant: only a socket of this user that refuses connections is ever removed. connect() also refuses on a plain
 * file, so the type of the file is checked first. No other user can replace the file meanwhile, because the directory
 * is checked too. Called by listeners.c and wires.c. */
#include "net/stream/address_bind.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <uv.h>

#include "base/address.h"

enum { PATH_BYTES = sizeof((struct sockaddr_un *)0)->sun_path };

/* ---- host:port ------------------------------------------------------------------ */

static bool has_ipv6(void)
{
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

lks_code address_resolve(const char *text, struct addrinfo **ret, lks_error *error)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    char port[ADDRESS_PORT_BYTES];
    struct address parsed;

    if (address_parse(text, strlen(text), 0, &parsed))
        return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "must be host:port");
    bool any = strcmp(parsed.host, "*") == 0;
    if (any)
        hints.ai_family = has_ipv6() ? AF_INET6 : AF_INET; /* a socket of [::] accepts IPv4 too */
    snprintf(port, sizeof port, "%u", parsed.port);
    int failed = getaddrinfo(any ? NULL : parsed.host, port, &hints, ret);
    if (failed)
        return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "%s", gai_strerror(failed));
    return LKS_OK;
}

/* Sets the port to 0: the address's own port may be in use. */
static void clear_port(struct sockaddr *name)
{
    if (name->sa_family == AF_INET)
        ((struct sockaddr_in *)(void *)name)->sin_port = 0;
    else if (name->sa_family == AF_INET6)
        ((struct sockaddr_in6 *)(void *)name)->sin6_port = 0;
}

lks_code address_check_tcp(const char *text, bool starts, lks_error *error)
{
    struct addrinfo *found = NULL;
    int on = 1;

    lks_code code = address_resolve(text, &found, error);
    if (code != LKS_OK)
        return code;
    if (!starts)
        clear_port(found->ai_addr);
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool bound = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
                 bind(fd, found->ai_addr, found->ai_addrlen) == 0;
    if (!bound)
        code = lks_error_set(error, LKS_UNAVAILABLE, LKS_APPLIED_NO, "%s", uv_strerror(uv_translate_sys_error(errno)));
    if (fd >= 0)
        close(fd);
    freeaddrinfo(found);
    return code;
}

/* ---- unix sockets --------------------------------------------------------------- */

static lks_code refuse(lks_error *error, const char *why)
{
    return lks_error_set(error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO, "%s", why);
}

static lks_code refuse_directory(lks_error *error, const char *dir, const char *why)
{
    return lks_error_set(error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO, "the directory %s %s", dir, why);
}

/* A user who may write to the directory could replace the socket with another one and receive the callers' tokens. In a
 * sticky directory (/tmp) only the owner of a file can replace it. */
static lks_code check_directory(const char *path, lks_error *error)
{
    char dir[PATH_BYTES];
    size_t len = (size_t)(strrchr(path, '/') - path);
    struct stat found;

    snprintf(dir, sizeof dir, "%.*s", len > 0 ? (int)len : 1, path);
    if (stat(dir, &found) != 0)
        return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "%s: %s", dir, strerror(errno));
    if (!S_ISDIR(found.st_mode))
        return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "%s is not a directory", dir);
    if (found.st_uid != geteuid() && found.st_uid != 0)
        return refuse_directory(error, dir, "belongs to another user, who could replace the socket");
    if ((found.st_mode & S_IWOTH) && !(found.st_mode & S_ISVTX))
        return refuse_directory(error, dir, "is writable for all users, who could replace the socket");
    return LKS_OK;
}

lks_code address_check_unix(const char *path, lks_error *error)
{
    struct stat found;

    if (path[0] != '/' || path[strlen(path) - 1] == '/' || strlen(path) >= PATH_BYTES)
        return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO,
                             "must be an absolute path of fewer than %d bytes", (int)PATH_BYTES);
    lks_code code = check_directory(path, error);
    if (code != LKS_OK)
        return code;
    if (lstat(path, &found) != 0)
        return errno == ENOENT ? LKS_OK : refuse(error, strerror(errno));
    if (!S_ISSOCK(found.st_mode))
        return refuse(error, "the path exists and is not a socket: remove it, or choose another path");
    if (found.st_uid != geteuid())
        return refuse(error, "the socket at the path belongs to another user");
    return LKS_OK;
}

/* The file of a socket outlives the process that listened on it. */
static void remove_stale(const char *path)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    struct stat found;
    int fd = lstat(path, &found) == 0 ? socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;

    if (fd < 0)
        return;
    strcpy(name.sun_path, path);
    if (connect(fd, (const struct sockaddr *)&name, sizeof name) != 0 && errno == ECONNREFUSED)
        unlink(path);
    close(fd);
}

lks_code address_bind_unix(uv_pipe_t *pipe, const char *path, lks_error *error)
{
    lks_code code = address_check_unix(path, error);
    if (code != LKS_OK)
        return code;
    remove_stale(path);
    mode_t mask = umask(S_IXUSR | S_IRWXG | S_IRWXO);
    int failed = uv_pipe_bind(pipe, path);
    umask(mask);
    if (failed < 0)
        return lks_error_set(error, LKS_UNAVAILABLE, LKS_APPLIED_NO, "%s", uv_strerror(failed));
    return LKS_OK;
}

bool address_is_loopback(const char *address)
{
    char text[INET6_ADDRSTRLEN + 2];
    size_t len = address[0] == '[' ? strcspn(address, "]") + 1 : strcspn(address, ":/");
    struct in_addr v4;

    if (len >= sizeof text || len > strlen(address))
        return false;
    snprintf(text, sizeof text, "%.*s", (int)len, address);
    if (inet_pton(AF_INET, text, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == 127;
    return strcasecmp(text, "localhost") == 0 || strcmp(text, "[::1]") == 0;
}
