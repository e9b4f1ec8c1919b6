/* Certificates that a test makes at run time: an authority, and certificates that it signs.
 * Keys are on P-256, so each is made quickly. A failure ends the program. */
#ifndef LOCKSTOCK_TESTS_CERTIFICATES_H
#define LOCKSTOCK_TESTS_CERTIFICATES_H

#include <stddef.h>

typedef struct authority authority;

/* The caller frees. */
authority *authority_new(const char *name);
void authority_free(authority *a);

/* Its own certificate, PEM. */
void authority_write(const authority *a, const char *path);

/* A name of any bytes; len 0 = strlen. */
typedef struct certificate_name {
    const char *text;
    size_t len;
} certificate_name;

enum { CERTIFICATE_DNS_MAX = 4 };

typedef struct certificate_wish {
    certificate_name common;                   /* text NULL = none */
    certificate_name dns[CERTIFICATE_DNS_MAX]; /* up to the first NULL */
    const char *alternatives;                  /* instead of dns: "DNS:a,URI:b,email:c"; NULL = none */
    const char *usage;                         /* "clientAuth", "serverAuth"; NULL = any */
    long valid_from_s, valid_until_s;          /* from now; until 0 = a day */
    const char *password;                      /* of the key; NULL = none */
} certificate_wish;

/* Signs one and writes it and its key, PEM. */
void authority_sign(const authority *a, const certificate_wish *wish, const char *certificate_path,
                    const char *key_path);

#endif
