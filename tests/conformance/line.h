/* A connection as bytes: TCP, a unix socket, or TLS over TCP. Every wait ends after
 * LINE_TIMEOUT_MS. One thread. */
#ifndef LOCKSTOCK_TESTS_LINE_H
#define LOCKSTOCK_TESTS_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LINE_TIMEOUT_MS = 30000 };

typedef struct line line;

/* Connects to the address of a server_fixture_url, of any scheme. certificate: TLS, and
 * this one (PEM) must be the server's; NULL or "": no TLS. alpn: "h2", or NULL. NULL when
 * refused. */
line *line_open(const char *url, const char *certificate, const char *alpn);

typedef struct line_tls {
    const char *ca;                /* who signed the server's certificate, PEM; NULL: no TLS */
    const char *certificate, *key; /* the client's own; NULL: none */
    const char *host;              /* that the server's certificate must be for; NULL: any */
    const char *alpn;              /* NULL: none */
} line_tls;

/* The same with all options of TLS. */
line *line_open_tls(const char *url, const line_tls *tls);

/* The common name of the server's certificate, the line's; "" without TLS. */
const char *line_server_name(const line *l);

/* False when the other side has closed or does not read. */
bool line_send(line *l, const void *data, size_t len);

/* Some bytes; 0 when the connection is over, or nothing came in time. */
size_t line_receive(line *l, void *data, size_t len);

/* Exactly so many. */
bool line_receive_all(line *l, void *data, size_t len);

/* Reads to the end. Returns true when the other side closes, false when it stays open. */
bool line_ends(line *l);

/* Whether the other side has not closed so far. */
bool line_is_open(const line *l);

/* Takes NULL. */
void line_close(line *l);

#endif
