/* A store on the scripted Redis, as most of its tests need it. */
#ifndef LOCKSTOCK_TESTS_STORE_SCENE_H
#define LOCKSTOCK_TESTS_STORE_SCENE_H

#include <stdbool.h>
#include <stddef.h>

#include "support/fake_redis.h"
#include "support/store_driver.h"

enum { SCENE_SCRIPT_MAX = 8, SCENE_SEEN_MAX = 64 };

#define SCENE_CHANNEL "ls:wake:test"
#define SCENE_LIBRARY "FUNCTION LIST LIBRARYNAME lockstock_7e577e577e577e57 WITHCODE"
#define SCENE_LIBRARIES "FUNCTION LIST LIBRARYNAME lockstock_*"
#define SCENE_CLUSTER "[version 7.0.15 role master mode cluster]" /* the answer to HELLO of a node of a cluster */

typedef struct scene {
    store_driver *d;
    fake_redis *fake;
    const char *script[SCENE_SCRIPT_MAX]; /* answers to FCALL, in turn; then, or NULL, as usual */
    size_t next;                          /* of script */
    size_t sub_calls[SCENE_SEEN_MAX];     /* of each FCALL seen */
    size_t seen;
    char words[512];              /* of the last FCALL */
    unsigned listening, messages; /* of a store with scene_listens: how often told, */
    size_t last_len;              /* and the last message, */
    char last[64];                /* cut */
    bool listening_while_unready; /* ever, as the next: */
    bool disorder;                /* messages that are numbers did not follow each other */
} scene;

extern scene here;

/* A fake Redis, and no store yet. Then answers may be set. */
void scene_begin(void);

/* Options of a store that hears SCENE_CHANNEL. */
store_options scene_listens(store_options options);

/* Opens the store; credentials and what follows the socket's path go into its URL. */
void scene_open_url(const store_options *options, const char *credentials, const char *suffix);
void scene_open(const store_options *options);

/* For cmocka, around each test: a ready store; scene_end also without a store. From then on nothing but the test's
 * calls is on the connection. */
int scene_start(void **state);
int scene_end(void **state);

/* The same with options, or answers that were set between. */
void scene_restart_with(const store_options *options);
void scene_restart_on_cluster(void);

/* As fake_redis_answer. */
void scene_answer(const char *words, const char *reply);

/* Runs the loop until so many commands came that begin with these words; until so many connections were made; until the
 * reason for not being ready has this text, or the store is fatal with it. */
void scene_until_seen(const char *words, unsigned times);
void scene_until_connections(unsigned times);
void scene_until_reason(const char *text);
void scene_until_fatal(const char *text);
void scene_until_listening(unsigned times);
void scene_until_messages(unsigned times);

/* Submits n calls, waits for them, and asserts that all went well. */
void scene_call_all(const driver_call *calls, size_t n, outcome **ret);

/* Conditions for store_driver_until, of a scene. */
bool scene_saw_a_call(void *arg);
bool scene_reconnected(void *arg);

#endif
