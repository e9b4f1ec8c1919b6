/* Listening sockets that the process was started with, as in systemd's socket activation (sd_listen_fds(3)):
 * LISTEN_FDS descriptors from 3 on, named in order by LISTEN_FDNAMES, for the process LISTEN_PID. Error messages do not
 * contain the address; the caller puts it before them. */
#ifndef LOCKSTOCK_NET_STREAM_HANDED_IN_H
#define LOCKSTOCK_NET_STREAM_HANDED_IN_H

#include <stdbool.h>
#include <stddef.h>

#include <lockstock/status.h>

enum { HANDED_IN_MAX = 16 };

/* The descriptors of a name, or the descriptor with a number, which need not be one of LISTEN_FDS. `len`: of the text.
 * LKS_INVALID_ARGUMENT: neither a number nor a name; LKS_FAILED_PRECONDITION: there is no such name, or a descriptor is
 * not a listening stream socket of IP or unix. */
lks_code handed_in_find(const char *text, size_t len, int fds[HANDED_IN_MAX], size_t *n, lks_error *error);

/* Checks only the text. */
lks_code handed_in_check_text(const char *text, size_t len, lks_error *error);

bool handed_in_is_unix(int fd);

/* Whether other machines can reach it. */
bool handed_in_is_exposed(int fd);

#endif
