/* world.manager(name): the socket of a service manager; world.certify(...): a certificate and its key. */
#include "support/lua_world.h"

#include <lauxlib.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "support/certificates.h"
#include "support/lua_things.h"

enum { LIMIT_S = 120, TEXT_BYTES = 2048 };

static void end_manager(void *it)
{
    close(*(const int *)it);
}

/* `name` is a path, or with @ a name without a file. */
static int l_manager(lua_State *L)
{
    const char *name = luaL_checkstring(L, 1);
    const struct timeval limit = {.tv_sec = LIMIT_S};
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int *fd = malloc(sizeof *fd);

    snprintf(at.sun_path, sizeof at.sun_path, "%s", name);
    if (*name == '@')
        at.sun_path[0] = '\0';
    *fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    thing_push(L, "Manager", fd, end_manager)->memory = fd;
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name) + (*name != '@'));
    if (setsockopt(*fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0 ||
        bind(*fd, (struct sockaddr *)&at, len) != 0)
        return luaL_error(L, "cannot listen at %s", name);
    return 1;
}

/* hear(): waits for the next message and returns it */
static int m_hear(lua_State *L)
{
    char text[TEXT_BYTES];
    ssize_t len = recv(*(const int *)thing_at(L, 1, "Manager"), text, sizeof text, 0);

    if (len < 0)
        return luaL_error(L, "no message came");
    lua_pushlstring(L, text, (size_t)len);
    return 1;
}

/* fill(): sends messages of another process until the socket is full */
static int m_fill(lua_State *L)
{
    int at = *(const int *)thing_at(L, 1, "Manager"), fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un to;
    socklen_t len = sizeof to;

    getsockname(at, (struct sockaddr *)&to, &len);
    while (sendto(fd, "noise", 5, MSG_DONTWAIT, (struct sockaddr *)&to, len) == 5)
        ;
    close(fd);
    return 0;
}

/* certify(path, key path, seconds from now to its end): for localhost, replacing the files */
static int l_certify(lua_State *L)
{
    authority *a = authority_new("authority");
    const certificate_wish wish = {
        .common = {.text = "localhost"}, .valid_from_s = -30 * 86400L, .valid_until_s = luaL_checkinteger(L, 3)};

    authority_sign(a, &wish, luaL_checkstring(L, 1), luaL_checkstring(L, 2));
    authority_free(a);
    chmod(luaL_checkstring(L, 2), S_IRUSR | S_IWUSR);
    return 0;
}

void lua_world_open_manager(lua_State *L)
{
    static const luaL_Reg functions[] = {{"manager", l_manager}, {"certify", l_certify}, {NULL, NULL}};

    things_define(L, "Manager", (const luaL_Reg[]){{"hear", m_hear}, {"fill", m_fill}, {NULL, NULL}});
    luaL_setfuncs(L, functions, 0);
}
