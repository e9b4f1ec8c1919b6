/* TLS without I/O, over OpenSSL 3: bytes of the network in and out on one side, plain
 * bytes on the other. TLS 1.2 or newer, no renegotiation, no resumption. A client always
 * verifies the server's certificate. A context is constant and may be shared by threads, a
 * connection is one thread's.
 *
 *   network --tls_feed--> [ handshake, records ] --tls_read--> plain
 *   network <--tls_take-- [                    ] <--tls_write-- plain
 */
#ifndef LOCKSTOCK_NET_TLS_H
#define LOCKSTOCK_NET_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/status.h>

typedef struct tls_context tls_context;
typedef struct tls tls;

/* What the settings are called that name the files: said before the path of one that cannot be used. */
typedef struct tls_names {
    const char *certificate, *key, *ca;
} tls_names;

typedef struct tls_files {
    const char *certificate; /* chain, PEM */
    const char *key;         /* PEM */
    const char *client_ca;   /* PEM; NULL: client certificates are not asked for */
    bool client_required;    /* a client without a certificate is refused */
    const tls_names *names;  /* static; NULL: a file is named by its path alone */
} tls_files;

/* A server's. Reads the files. alpn: the one protocol that is offered, which a client must
 * then ask for; static; NULL: none. LKS_INVALID_ARGUMENT names the file. */
lks_code tls_context_load(const tls_files *files, const char *alpn, tls_context **ret, lks_error *error);

/* A client's. Reads the files, PEM. ca_file NULL: the certificates that the system trusts.
 * certificate_file and key_file: both or neither. names as in tls_files. LKS_INVALID_ARGUMENT names the file. */
lks_code tls_context_load_client(const char *ca_file, const char *certificate_file, const char *key_file,
                                 const tls_names *names, tls_context **ret, lks_error *error);

/* When the certificate that it shows, or the first of its chain, is over: seconds since 1970; 0: it shows none. Takes NULL. */
int64_t tls_context_ends(const tls_context *context);

/* Connections that were made from it live on. Takes NULL. */
void tls_context_free(tls_context *context);

/* The server's side of a connection; NULL when out of memory. */
tls *tls_accept(tls_context *context);

/* The client's side, to a server that must show a certificate for `name`, a host's name or
 * an address; NULL when out of memory. */
tls *tls_connect(tls_context *context, const char *name);

void tls_free(tls *t);

/* Takes bytes of the network. False when out of memory. */
bool tls_feed(tls *t, const uint8_t *data, size_t len);

typedef enum tls_state { TLS_SHAKING, TLS_UP, TLS_OVER } tls_state;

/* Goes on with the handshake as far as what was fed allows. TLS_OVER: the peer is not
 * accepted, or does not speak TLS; what tls_take gives may still tell it why. */
tls_state tls_shake(tls *t);

/* Once up: plain bytes; 0 when there are none now, -1 when the connection is over; as it is
 * when the peer asks for more answers of TLS' own than it takes. */
int tls_read(tls *t, uint8_t *data, size_t len);

/* Once up: encrypts bytes. False when the connection is over or out of memory. */
bool tls_write(tls *t, const uint8_t *data, size_t len);

/* Bytes for the network. */
size_t tls_pending(const tls *t);
size_t tls_take(tls *t, uint8_t *data, size_t len);

/* Why it is over, in OpenSSL's words where it has some; static. */
const char *tls_why(const tls *t);

/* Of a server's connection: the name in the client's verified certificate: its first DNS name, and where it has
 * none its common name; NULL without one, or when that has a NUL in it or more than 255
 * bytes. The connection's. */
const char *tls_peer_name(const tls *t);

#endif
