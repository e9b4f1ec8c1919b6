/* The checks of a new connection: credentials, version, safety, data layout, function library. */
#ifndef LOCKSTOCK_SERVER_STORE_GREETING_H
#define LOCKSTOCK_SERVER_STORE_GREETING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/connection.h"
#include "store/library.h"
#include "store/safety.h"

/* The version of the data layout. A server refuses a store with another number before the dot. */
#define GREETING_SCHEMA_KEY "ls:{meta}:schema"

#define GREETING_OF_CLUSTER "the store is a node of a Redis Cluster: its URL is redis+cluster://"

/* The owner fills it in once, and uses it for one connection after another. */
typedef struct greeting {
    const login *as;
    uint32_t db;      /* 0 = no SELECT */
    bool sentinel;    /* it must be a Redis Sentinel, not a primary */
    library *library; /* NULL: no calls will use the connection, so safety, layout and library are not checked */
    bool allow_unsafe;
    bool any_role;  /* it may be a replica */
    const char *id; /* the id that the node of a cluster must have; NULL: any */
    void (*on_passed)(void *arg);
    /* The server must never run on this store. The connection is dropped after this call. NULL: no callback. */
    void (*on_fatal)(void *arg, store_fault fault);
    void *arg;

    connection *connection; /* private to greeting.c from here on */
    size_t step;
    bool has_schema;
    bool cluster;     /* a node of Redis Cluster */
    char version[32]; /* of Redis; "" until a greeting has learned it */
    safety safety;    /* the settings found, after a greeting with a library passed */
    char db_text[12];
} greeting;

/* Writes the words of AUTH and returns their number; 0 = no password. */
enum { GREETING_AUTH_WORDS = 3 };
size_t greeting_auth_words(const login *as, const char **words);

/* Greets a connection, as an on_up callback; `greeting` is a struct greeting. Drops a connection that does not pass.
 * Calls nothing back if the connection is lost before. */
void greeting_start(void *greeting, connection *connection);

#endif
