/* A store on a fake Redis, whose answers to FCALL are scripted. */
#ifndef LOCKSTOCK_TESTS_STORE_SCENE_H
#define LOCKSTOCK_TESTS_STORE_SCENE_H

#include <stdbool.h>
#include <stddef.h>

#include "support/fake_redis.h"
#include "support/store_driver.h"

enum { SCENE_SCRIPT_MAX = 8, SCENE_SEEN_MAX = 64 };

typedef struct scene {
    store_driver *d;
    fake_redis *fake;
    const char *script[SCENE_SCRIPT_MAX]; /* answers to FCALL, in turn; then, or NULL, as usual */
    size_t next;                          /* of script */
    const char *list;                     /* answer to FUNCTION LIST of the library; NULL = usual */
    const char *libraries;                /* of all libraries */
    const char *last_use;                 /* answer to HGET of one */
    const char *get;                      /* answer to GET of the schema */
    const char *hello;
    const char *ping, *time;
    bool told_time;
    size_t sub_calls[SCENE_SEEN_MAX]; /* of each FCALL seen */
    size_t seen;
    char words[512];   /* of the last FCALL */
    unsigned loads;    /* FUNCTION LOADs seen */
    bool kept_library; /* the store's upkeep after connecting is over */
    bool looked_up, deleted_library;
} scene;

extern scene here;

/* For cmocka, around each test: a ready store. From then on nothing but the test's calls is on the connection. */
int scene_start(void **state);
int scene_end(void **state);

/* Redis says that it is a node of a cluster. */
void scene_restart_on_cluster(void);

/* With options, of which url and such are filled in. */
void scene_restart_with(const store_options *options);

/* Conditions for store_driver_until, of a scene. */
bool scene_saw_a_call(void *arg);
bool scene_reconnected(void *arg);

#endif
