/* A thread that accepts connections and reads from them: the part that scripted servers share. It calls the functions
 * of `on` while it holds `lock`. */
#ifndef LOCKSTOCK_TESTS_LISTENER_H
#define LOCKSTOCK_TESTS_LISTENER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LISTENER_CONNECTIONS_MAX = 128 };

typedef struct listener listener;

typedef struct listener_events {
    void *(*opened)(listener *l, int fd); /* returns the server's own record of the connection */
    bool (*received)(void *connection, const uint8_t *data, size_t len); /* false: the connection is to be closed */
    void (*closed)(void *connection);                                    /* before its descriptor is */
    void (*turned)(listener *l);                                         /* after the others, and after listener_wake */
} listener_events;

struct listener {
    listener_events on;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* after each turn */
    bool deaf;              /* does not read */
    size_t n;               /* connections */

    int fd, wake;
    pthread_t thread;
    bool stopping;
    struct {
        int fd;
        void *record;
    } connections[LISTENER_CONNECTIONS_MAX];
};

/* Takes a bound socket. Ends the program when it cannot. */
void listener_start(listener *l, listener_events on, int fd);

/* Closes all connections, and ends. */
void listener_stop(listener *l);

void listener_wake(listener *l);

/* With the lock held: closes all connections. */
void listener_drop(listener *l);

/* Blocks until a value that the lock protects is in this range; false after half a minute. */
bool listener_await(listener *l, const size_t *value, size_t least, size_t most);

#endif
