/* The members of an ensemble, from a list of hosts, and their addresses. Loop thread only. */
#ifndef LOCKSTOCK_SERVER_ENSEMBLE_HOSTS_H
#define LOCKSTOCK_SERVER_ENSEMBLE_HOSTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/status.h>

struct uv_loop_s;

typedef struct hosts hosts;

/* Runs on the loop, never inside hosts_find. `addresses`: "127.0.0.1:2181,::1:2181", in the form that the library
 * reads, of at least one member; NULL: none was found, and `why` gives the reason. Both are valid until it returns. */
typedef void hosts_found(void *arg, const char *addresses, const char *why);

/* Checks a text like "h1:2181,h2,[::1]:2181"; a host without a port has 2181. LKS_INVALID_ARGUMENT: malformed. */
lks_code hosts_check(const char *text, lks_error *error);

/* The text has passed hosts_check. */
hosts *hosts_open(struct uv_loop_s *loop, const char *text, hosts_found *found, void *arg);

/* Whether one of the hosts is a name. The addresses of a name may change. */
bool hosts_have_names(const hosts *hosts);

/* Resolves the names on other threads, then calls `found`. Does nothing while an earlier call still runs. After two
 * seconds it leaves out names without an answer, if at least one address is known. */
void hosts_find(hosts *hosts);

/* Afterwards only `closed` is called, on the loop. */
void hosts_close(hosts *hosts, void (*closed)(void *arg), void *arg);

#endif
