/* Addresses to listen on, and the files of unix sockets. Error messages do not contain the address; the caller puts
 * it before them. */
#ifndef LOCKSTOCK_NET_STREAM_ADDRESS_BIND_H
#define LOCKSTOCK_NET_STREAM_ADDRESS_BIND_H

#include <stdbool.h>
#include <stddef.h>

#include <lockstock/status.h>

struct addrinfo;
struct uv_pipe_s;

/* Checks whether a socket can listen on an address (base/address.h; host "*": all addresses) by binding one and
 * closing it. `starts`: bind the address itself; else another port of its host, so that a server that already runs
 * there does not matter. Blocks to resolve a name. LKS_INVALID_ARGUMENT: malformed, or an unknown host.
 * LKS_UNAVAILABLE: in use, or not this machine's. */
lks_code address_check_tcp(const char *text, bool starts, lks_error *error);

/* The first address of a name, to bind to. Blocks to resolve a name. Free *ret with freeaddrinfo. LKS_INVALID_ARGUMENT:
 * malformed, or an unknown host. */
lks_code address_resolve(const char *text, struct addrinfo **ret, lks_error *error);

/* Whether the host of "host", "host:port" or "[v6]:port", up to a "/", names this machine only. Compares addresses, so
 * that a name such as 127.0.0.1.example is not loopback. */
bool address_is_loopback(const char *address);

/* Checks whether a socket can be made at a path, without changing anything. LKS_INVALID_ARGUMENT: not absolute, or
 * too long. LKS_FAILED_PRECONDITION: something other than a socket of this user is there, or others could replace
 * the socket because they own the directory or it is writable for all and not sticky. */
lks_code address_check_unix(const char *path, lks_error *error);

/* Makes the same checks, and binds the pipe there with mode 0600. Removes only a socket that no process listens on.
 * LKS_UNAVAILABLE: in use, or it cannot be made. */
lks_code address_bind_unix(struct uv_pipe_s *pipe, const char *path, lks_error *error);

#endif
