/* Every method of the contract, and what it is called on the command line. */
#ifndef LOCKSTOCK_CLI_CATALOG_H
#define LOCKSTOCK_CLI_CATALOG_H

#include <stddef.h>

#include <lockstock/rpc/method.h>

#include "words.h"

extern const lks_rpc_method *const catalog[];
extern const size_t catalog_len;

/* "lock", "rate-limit": of its service; "force-release": of itself. */
void catalog_words(const lks_rpc_method *method, char service[WORDS_BYTES], char name[WORDS_BYTES]);

/* A shorter name for it: "ls"; NULL = it has none. */
const char *catalog_short(const lks_rpc_method *method);

/* "lockstock.v1.LockService" and "ForceRelease", inside its path. */
typedef struct catalog_name {
    const char *service, *method;
    size_t service_len;
} catalog_name;
catalog_name catalog_split(const lks_rpc_method *method);

/* The first method of a service; NULL = there is no such service. Words may leave the dashes out. */
const lks_rpc_method *catalog_find_service(const char *service);

/* NULL = there is no such method. Also by its shorter names: "ls", "get", "put". */
const lks_rpc_method *catalog_find(const char *service, const char *name);

#endif
