/* Finds problems of a server and its store from their answers, and a remedy for each. No I/O. */
#ifndef LOCKSTOCK_CLI_DIAGNOSIS_H
#define LOCKSTOCK_CLI_DIAGNOSIS_H

#include <stdint.h>

#include <lockstock/v1/admin.lks.h>

#include "probe.h"

/* The answers. */
typedef struct diagnosis_facts {
    const char *version;                   /* of this program */
    probe server, store;                   /* the median of several calls, or the first that failed */
    const lks_get_status_response *status; /* NULL: the call failed with status_error */
    lks_error status_error;
    int64_t here_ms;   /* this machine's clock when the server read its own, milliseconds since 1970 */
    int64_t within_ms; /* the possible error of here_ms */
} diagnosis_facts;

typedef enum diagnosis_level {
    DIAGNOSIS_OK,
    DIAGNOSIS_NOTE,    /* worth knowing */
    DIAGNOSIS_WARNING, /* works now, but is at risk */
    DIAGNOSIS_PROBLEM, /* does not work, or loses data */
    DIAGNOSIS_DOWN     /* does not answer */
} diagnosis_level;

enum { DIAGNOSIS_TEXT_BYTES = 2048 };

typedef struct diagnosis_finding {
    diagnosis_level level;
    /* server, rights, store, persistence, memory, sentinels, failover, replicas, certificate, servers, clock, latency;
     * static */
    const char *about;
    char text[DIAGNOSIS_TEXT_BYTES];
    const char *remedy; /* NULL: none; static */
} diagnosis_finding;

/* Returns *n findings in the order of `about` above, to be freed by the caller. Returns NULL when out of memory. */
diagnosis_finding *diagnosis_of(const diagnosis_facts *facts, size_t *n);

/* "ok", "note", "warning" or "problem"; DIAGNOSIS_DOWN is a "problem". */
const char *diagnosis_word(diagnosis_level level);

#endif
