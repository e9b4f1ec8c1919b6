/* Addresses to listen on, and the file of a unix socket.
 * Errors do not repeat the address; the caller puts it before them. */
#ifndef LOCKSTOCK_NET_STREAM_ADDRESS_BIND_H
#define LOCKSTOCK_NET_STREAM_ADDRESS_BIND_H

#include <stdbool.h>

#include <lockstock/status.h>

struct addrinfo;
struct uv_pipe_s;

/* Whether a socket may listen on an address (net/address.h; host "*": all of them): binds one and closes it. `starts`:
 * to the address itself; else to another port of its host, so that the server that runs on the address is no obstacle.
 * Blocks for a name. LKS_INVALID_ARGUMENT: badly written, or no such host. LKS_UNAVAILABLE: in use, or not this
 * machine's. */
lks_code address_check_tcp(const char *text, bool starts, lks_error *error);

/* The first of its addresses, to bind to. Blocks for a name. *ret is to be given to
 * freeaddrinfo. LKS_INVALID_ARGUMENT: badly written, or no such host. */
lks_code address_resolve(const char *text, struct addrinfo **ret, lks_error *error);

/* Whether a socket may be made at a path; changes nothing. LKS_INVALID_ARGUMENT: not
 * absolute or too long. LKS_FAILED_PRECONDITION: there is something that is not a
 * socket of this user; or others may put a socket of theirs there, because its
 * directory is theirs, or writable for all without being sticky. */
lks_code address_check_unix(const char *path, lks_error *error);

/* The same, and binds the pipe there with mode 0600. A socket that nobody listens on
 * is removed first; nothing else ever is. LKS_UNAVAILABLE: in use, or it cannot be
 * made. */
lks_code address_bind_unix(struct uv_pipe_s *pipe, const char *path, lks_error *error);

#endif
