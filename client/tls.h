/* The client's side of TLS without I/O, over OpenSSL 3: bytes of the network in and out
 * on one side, plain bytes on the other. TLS 1.2 or newer; the server's certificate is
 * always verified. A context is constant and may be shared by threads, a connection not.
 *
 *   network --tls_feed--> [ handshake, records ] --tls_read--> plain
 *   network <--tls_take-- [                    ] <--tls_write-- plain */
#ifndef LOCKSTOCK_CLIENT_TLS_H
#define LOCKSTOCK_CLIENT_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/status.h>

typedef struct tls_context tls_context;
typedef struct tls tls;

/* Reads the files, PEM. ca_file NULL: the certificates that the system trusts.
 * certificate_file and key_file: both or neither. LKS_INVALID_ARGUMENT names the file. */
lks_code tls_context_new(const char *ca_file, const char *certificate_file, const char *key_file, tls_context **ret,
                         lks_error *error);

/* Takes NULL. */
void tls_context_free(tls_context *context);

/* A connection to a server that must show a certificate for `name`, a host's name or an
 * address. NULL when out of memory. */
tls *tls_connect(tls_context *context, const char *name);
void tls_free(tls *t);

/* Takes bytes of the network. False when out of memory. */
bool tls_feed(tls *t, const uint8_t *data, size_t len);

typedef enum tls_state { TLS_SHAKING, TLS_UP, TLS_OVER } tls_state;

/* Goes on with the handshake as far as what was fed allows. */
tls_state tls_shake(tls *t);

/* Once up: plain bytes; 0 when there are none now, -1 when the connection is over. */
int tls_read(tls *t, uint8_t *data, size_t len);

/* Once up: encrypts bytes. False when the connection is over or out of memory. */
bool tls_write(tls *t, const uint8_t *data, size_t len);

/* Bytes for the network. */
size_t tls_pending(const tls *t);
size_t tls_take(tls *t, uint8_t *data, size_t len);

/* Why it is over, in OpenSSL's words; static. */
const char *tls_why(const tls *t);

#endif
