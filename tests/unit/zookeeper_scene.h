/* Clients of an ensemble of ZooKeeper, and requests that wait for their answers. */
#ifndef LOCKSTOCK_TESTS_ZOOKEEPER_SCENE_H
#define LOCKSTOCK_TESTS_ZOOKEEPER_SCENE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <uv.h>

#include "ensemble/zookeeper.h"
#include "support/zookeeper_fixture.h"

enum {
    SCENE_PATIENCE_MS = 30000,
    SCENE_SESSION_MS = 9000, /* long enough for a busy machine */
    SCENE_SHORT_MS = 2000,
    SCENE_OPS_MAX = 8,
    SCENE_DATA_BYTES = 64,
    SCENE_NAMES_BYTES = 512
};

typedef struct client {
    zookeeper *zookeeper;
    bool ready, closed;
    char reason[256];
    unsigned states, sessions; /* events */
    char watched[64];          /* the path of the last watch that fired */
    size_t n_watched;
} client;

typedef struct answer {
    bool over;
    zk_code code;
    char data[SCENE_DATA_BYTES];
    size_t len, n, failed;
    int32_t version, versions[SCENE_OPS_MAX];
    char names[SCENE_NAMES_BYTES]; /* a space after each */
} answer;

extern struct zookeeper_scene {
    size_t n;            /* members */
    uint32_t session_ms; /* of clients that are opened; 0: SCENE_SESSION_MS */
    zookeeper_fixture *ensemble;
    uv_loop_t loop;
    uv_timer_t limit;
    bool late;
    size_t open; /* clients */
} here;

/* The fixtures of a case and of all. */
int scene_set_up(void **state);
int scene_tear_down(void **state);
int scene_end(void **state);

/* The hosts of an ensemble of here.n members, started when first needed; all of them serve. */
const char *scene_hosts(void);

/* Runs the loop for ms at most, until something happened. */
void scene_turn(unsigned ms);

/* Runs the loop until *flag. False: not within SCENE_PATIENCE_MS. */
bool scene_until(const bool *flag);

/* zk_open; nothing has happened yet. */
void client_open(client *c, const char *hosts, const char *root, const char *credentials);

/* The same without credentials, until it is ready. */
void client_ready(client *c, const char *hosts, const char *root);
void client_close(client *c);

/* Until the reason of its state has this text. */
void client_await_reason(client *c, const char *text);

/* Callbacks, whose arg is an answer. Each checks that it is called once. */
zk_got scene_on_got;
zk_applied scene_on_applied; /* answer.n: how many ops */

/* Requests, until they are over. */
answer client_get(client *c, const char *path);
answer client_sync_get(client *c, const char *path);
answer client_watch(client *c, const char *path);
answer client_children(client *c, const char *path, bool watch);
answer client_multi(client *c, const zk_op *ops, size_t n);
zk_op client_op(zk_kind kind, const char *path, const char *data, int32_t version);
zk_code client_apply(client *c, zk_kind kind, const char *path, const char *data, int32_t version);

#endif
