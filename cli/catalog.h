/* All methods of the contract and their names on the command line. The list is generated from the .proto files. */
#ifndef LOCKSTOCK_CLI_CATALOG_H
#define LOCKSTOCK_CLI_CATALOG_H

#include <stddef.h>

#include <lockstock/rpc/method.h>

#include "words.h"

extern const lks_rpc_method *const catalog[];
extern const size_t catalog_len;

/* Writes the words of a method: "lock", "rate-limit" for its service, "force-release" for the method. */
void catalog_words(const lks_rpc_method *method, char service[WORDS_BYTES], char name[WORDS_BYTES]);

/* Returns its short name, such as "ls", or NULL. */
const char *catalog_short(const lks_rpc_method *method);

/* The service "lockstock.v1.LockService" and the method "ForceRelease", inside the path of the method. */
typedef struct catalog_name {
    const char *service, *method;
    size_t service_len;
} catalog_name;
catalog_name catalog_split(const lks_rpc_method *method);

/* Finds a method by its name or its short name; name NULL: the first method of the service. Words may be given without
 * their dashes. Returns NULL if there is none. */
const lks_rpc_method *catalog_find(const char *service, const char *name);

#endif
