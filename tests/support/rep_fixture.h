/* A REP context pool of the test's own: what it receives is either echoed at once or
 * kept until the test takes it. */
#ifndef LOCKSTOCK_TESTS_REP_FIXTURE_H
#define LOCKSTOCK_TESTS_REP_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/nng/nng_rep.h"

typedef struct rep_fixture rep_fixture;

/* Opens a pool with the options given (on_request and arg are the fixture's) and
 * listens on a loopback port of the system's choice. NULL on failure. */
rep_fixture *rep_fixture_start(lks_rpc_nng_rep_options options);

/* Drops what is kept, closes the pool, frees. Takes NULL. */
void rep_fixture_free(rep_fixture *f);

lks_rpc_nng_rep *rep_fixture_rep(const rep_fixture *f);
unsigned short rep_fixture_port(const rep_fixture *f);

/* From now on: answer everything at once with `bytes` bytes (0 = the request's own),
 * or keep it. A fixture starts by keeping. */
void rep_fixture_echo(rep_fixture *f, size_t bytes);
void rep_fixture_keep(rep_fixture *f);

/* The oldest request kept; the caller ends it. NULL after 30 s without one. */
lks_rpc_nng_request *rep_fixture_take(rep_fixture *f);

/* Requests handed out so far. */
size_t rep_fixture_count(rep_fixture *f);

/* Waits until so many were handed out; false after 30 s. */
bool rep_fixture_wait_count(rep_fixture *f, size_t count);

/* Answers a request with its own bytes. */
void rep_fixture_answer(lks_rpc_nng_request *request);

#endif
