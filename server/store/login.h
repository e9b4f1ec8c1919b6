/* A login to Redis. */
#ifndef LOCKSTOCK_SERVER_STORE_LOGIN_H
#define LOCKSTOCK_SERVER_STORE_LOGIN_H

typedef struct login {
    const char *user;     /* NULL = the default user */
    const char *password; /* NULL = no AUTH */
} login;

#endif
