/* Shared by the tests of lks_once: a function that follows its job and records its
 * observations, and runs of it in one line. The main thread asserts; work records. */
#ifndef LOCKSTOCK_TESTS_ONCE_FIXTURE_H
#define LOCKSTOCK_TESTS_ONCE_FIXTURE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/lockstock.h>

#include "unit/helpers_fixture.h"

/* LEASE_MS is for what must not be lost however busy the machine is. */
enum { LEASE_MS = 6000, SHORT_MS = 1500 };

/* The steps of the function, and its observations. */
struct job {
    lks_once_verdict verdict;
    size_t extends;  /* waits until so many were seen */
    bool until_lost; /* waits until it is lost */
    const char *detail;
    bool lets_go; /* then lets the server answer held calls */
    bool forgets; /* returns no result */
    /* Its observations. */
    atomic_int runs;
    int64_t number;
    uint64_t fence;
    size_t extended; /* before it began */
    bool seen, lost_first, lost_last;
    uint64_t lost_ns[2]; /* from when on it is lost, at first and in the end */
    lks_code codes[6];
};

/* From when on the attempt counts as lost. Thread-safe. */
uint64_t lost_ns(lks_once_attempt *attempt);

/* An lks_once function whose arg is a job; it returns "paid". */
lks_once_verdict work(void *arg, lks_once_attempt *attempt);

/* charge, order-1, LEASE_MS */
extern const lks_once_options plain;

/* lks_once_run of work, on the fixture's channel. */
lks_once_outcome run(const lks_once_options *options, struct job *job, lks_once_result **ret, lks_error *error);

/* Expects so many calls of the method, and no later ones. */
void assert_nothing_else_came(fake_method method, size_t n);

/* An attempt that began, in so many calls, was given back as the same one. */
void assert_given_back(size_t begins);

#endif
