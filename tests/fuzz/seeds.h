/* A seed being made. */
#ifndef LOCKSTOCK_TESTS_FUZZ_SEEDS_H
#define LOCKSTOCK_TESTS_FUZZ_SEEDS_H

#include <stddef.h>
#include <stdint.h>

typedef struct seed {
    size_t len;
    uint8_t data[16384];
} seed;

void seed_put(seed *s, const void *data, size_t len);
void seed_byte(seed *s, unsigned byte);

/* Into the corpus of a target. */
void seed_save(const seed *s, const char *target, const char *name);

/* seeds_grpc.c */
void seeds_grpc(void);

/* seeds_tls.c */
void seeds_tls(void);

#endif
