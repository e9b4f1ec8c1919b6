/* Store URLs, taken apart. */
#ifndef LOCKSTOCK_SERVER_STORE_URL_H
#define LOCKSTOCK_SERVER_STORE_URL_H

#include <stdint.h>

#include <lockstock/status.h>

typedef enum url_kind { URL_EMBEDDED, URL_TCP, URL_UNIX } url_kind;

/* Owns its strings; url_clear frees them. */
typedef struct url {
    url_kind kind;
    char *path;     /* EMBEDDED: the directory; UNIX: the socket */
    char *host;     /* TCP: a name or an address, without brackets */
    uint16_t port;  /* TCP */
    uint32_t db;    /* 0 = no SELECT */
    char *user;     /* NULL = the default user */
    char *password; /* NULL = no AUTH */
} url;

/* embedded:DIR, redis://[[user]:password@]host[:port][/db],
 * unix://[[user]:password@]/path[?db=n]; user, password and path are
 * percent-decoded. LKS_INVALID_ARGUMENT with a text that never quotes the URL,
 * which may hold a password. */
lks_code url_parse(const char *text, url *ret, lks_error *error);

/* Frees the strings; takes a zeroed one. */
void url_clear(url *url);

#endif
