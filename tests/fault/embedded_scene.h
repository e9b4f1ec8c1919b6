/* An embedded store in a directory of its own, for the tests of it. One scene a program: `embedded_set_up` and
 * `embedded_tear_down` run around each case. */
#ifndef LOCKSTOCK_TESTS_FAULT_EMBEDDED_SCENE_H
#define LOCKSTOCK_TESTS_FAULT_EMBEDDED_SCENE_H

#include <sys/types.h>

#include "support/store_driver.h"

enum { WAIT_MS = 60000 };

typedef struct scene {
    char *parent;
    char dir[256]; /* the store's, in parent; not made yet */
    char url[320];
    store_driver *d;
} scene;

extern scene s;

int embedded_set_up(void **state);
int embedded_tear_down(void **state);

lks_code try_open(const char *fsync, lks_error *error);

/* Until it is ready; fails the case when it cannot be. */
void open_store(const char *fsync);

/* The redis-server that is a child of parent; 0 = none. */
pid_t redis_of(pid_t parent);

/* Begins to write `name` under `name`. */
outcome *put(const char *name);

void assert_there(const char *name);

/* For store_driver_until: whether the store will never serve. */
bool is_fatal(void *arg);

#endif
