/* Who lockstockd is to Redis. */
#ifndef LOCKSTOCK_SERVER_STORE_CREDENTIALS_H
#define LOCKSTOCK_SERVER_STORE_CREDENTIALS_H

/* The strings stay their owner's. */
typedef struct credentials {
    const char *user;     /* NULL = the default user */
    const char *password; /* NULL = no AUTH */
} credentials;

#endif
