/* TLS without I/O, on OpenSSL 3: network bytes on one side, plain bytes on the other. TLS 1.2 or newer, without
 * renegotiation or resumption. A client always verifies the server's certificate. Threads may share a context; a
 * connection belongs to one thread.
 *
 *   network --tls_feed--> [ handshake, records ] --tls_read--> plain
 *   network <--tls_take-- [                    ] <--tls_write-- plain
 */
#ifndef LOCKSTOCK_NET_TLS_H
#define LOCKSTOCK_NET_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/rpc/service.h>
#include <lockstock/status.h>

enum { TLS_NAMES_MAX = 64 };

typedef struct tls_context tls_context;
typedef struct tls tls;

/* Names of the settings that name the files, for errors. */
typedef struct tls_names {
    const char *certificate, *key, *ca, *client_required; /* client_required: of a server */
} tls_names;

typedef struct tls_files {
    const char *certificate; /* chain, PEM */
    const char *key;         /* PEM */
    const char *client_ca;   /* PEM; NULL: client certificates are not requested */
    bool client_required;    /* refuse clients without a certificate */
    const tls_names *names;  /* static; NULL: errors have only the file's path */
} tls_files;

/* Makes a server's context from the files. alpn: either one protocol, which a client must request, or several,
 * "h2,http/1.1", of which a client may request none; static; NULL: no ALPN. LKS_INVALID_ARGUMENT names the file. */
lks_code tls_context_load(const tls_files *files, const char *alpn, tls_context **ret, lks_error *error);

/* Makes a client's context from the PEM files. ca_file NULL: the certificates that the system trusts.
 * certificate_file and key_file: both or neither. names as in tls_files. LKS_INVALID_ARGUMENT names the file. */
lks_code tls_context_load_client(const char *ca_file, const char *certificate_file, const char *key_file,
                                 const tls_names *names, tls_context **ret, lks_error *error);

/* When the context's certificate, or the first of its chain to expire, expires, in seconds since 1970. 0: it has
 * none. Takes NULL. */
int64_t tls_context_ends(const tls_context *context);

/* Existing connections keep working. Takes NULL. */
void tls_context_free(tls_context *context);

/* A server's side of a connection; NULL when out of memory. */
tls *tls_accept(tls_context *context);

/* Connections that are made from now on use the settings of `by`, which is freed. The same function must have loaded
 * both contexts. Thread-safe. */
void tls_context_replace(tls_context *context, tls_context *by);

/* A client's side. The server must have a certificate for `name`, a host name or an address, and accept the protocol
 * `alpn`; NULL: no ALPN. NULL when out of memory. */
tls *tls_connect(tls_context *context, const char *name, const char *alpn);

void tls_free(tls *t);

/* Takes bytes from the network. False when out of memory. */
bool tls_feed(tls *t, const uint8_t *data, size_t len);

typedef enum tls_state { TLS_HANDSHAKE, TLS_UP, TLS_OVER } tls_state;

/* Continues the handshake with the bytes that were fed. TLS_OVER: the peer is not accepted, or does not speak TLS;
 * tls_take may still give an alert for it. */
tls_state tls_handshake(tls *t);

/* After the handshake: reads plain bytes. 0: none now. -1: the connection is over, also because the peer makes TLS
 * answer and does not read the answers. */
int tls_read(tls *t, uint8_t *data, size_t len);

/* After the handshake: encrypts bytes. False when the connection is over or out of memory. */
bool tls_write(tls *t, const uint8_t *data, size_t len);

/* Bytes to send to the network. */
size_t tls_pending(const tls *t);
size_t tls_take(tls *t, uint8_t *data, size_t len);

/* Why the connection is over, in OpenSSL's words if it has any; static. */
const char *tls_why(const tls *t);

/* On a server: the name in the client's verified certificate. It is the first DNS name, or without one the common
 * name. NULL without a certificate, and when the name contains NUL or has more than 255 bytes. Valid as long as the
 * connection. */
const char *tls_peer_name(const tls *t);

/* On a server: all names in the client's verified certificate, TLS_NAMES_MAX at most; none without a certificate. Names
 * that contain NUL are left out. Valid as long as the connection. */
size_t tls_peer_names(const tls *t, const lks_rpc_name **names);

#endif
