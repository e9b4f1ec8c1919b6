/* What is wrong with a server, by what it and its store answered, and what to do. Pure. */
#ifndef LOCKSTOCK_CLI_DIAGNOSIS_H
#define LOCKSTOCK_CLI_DIAGNOSIS_H

#include <stdint.h>

#include <lockstock/v1/admin.lks.h>

#include "probe.h"

/* What was asked. */
typedef struct diagnosis_facts {
    const char *version;                   /* this program's */
    probe server, store;                   /* the median of several; what failed, failed */
    const lks_get_status_response *status; /* NULL: the server did not tell, as status_error says */
    lks_error status_error;
    int64_t here_ms;   /* this machine's clock when the server told its own: milliseconds since 1970 ... */
    int64_t within_ms; /* ... give or take */
} diagnosis_facts;

typedef enum diagnosis_level {
    DIAGNOSIS_OK,
    DIAGNOSIS_NOTE,    /* good to know */
    DIAGNOSIS_WARNING, /* it works, and will not for ever */
    DIAGNOSIS_PROBLEM, /* it does not work, or loses what it was given */
    DIAGNOSIS_DOWN     /* nobody answers */
} diagnosis_level;

enum { DIAGNOSIS_TEXT_BYTES = 2048 };

typedef struct diagnosis_finding {
    diagnosis_level level;
    const char *
        about; /* server, rights, store, persistence, memory, sentinels, failover, replicas, certificate, servers, clock,
                        * latency; static */
    char text[DIAGNOSIS_TEXT_BYTES];
    const char *remedy; /* NULL: nothing is to be done; static */
} diagnosis_finding;

/* The findings, in the order above; *n is how many. The caller frees. NULL: out of memory. */
diagnosis_finding *diagnosis_of(const diagnosis_facts *facts, size_t *n);

/* "ok", "note", "warning", "problem"; "down" is a problem, too. */
const char *diagnosis_word(diagnosis_level level);

#endif
