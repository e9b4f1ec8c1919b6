/* A store on the scripted Redis, as its tests need it. */
#ifndef LOCKSTOCK_TESTS_STORE_SCENE_H
#define LOCKSTOCK_TESTS_STORE_SCENE_H

#include <stdbool.h>
#include <stddef.h>

#include "support/fake_redis.h"
#include "support/store_driver.h"

enum { SCENE_FAKES_MAX = 6 };

#define SCENE_CHANNEL "ls:wake:test"
#define SCENE_LIBRARY "FUNCTION LIST LIBRARYNAME lockstock_7e577e577e577e57 WITHCODE"
#define SCENE_LIBRARIES "FUNCTION LIST LIBRARYNAME lockstock_*"
#define SCENE_CLUSTER "[version 7.0.15 role master mode cluster]" /* the answer to HELLO of a node of a cluster */

typedef struct scene {
    store_driver *d;
    fake_redis *fake;                   /* the first one */
    fake_redis *fakes[SCENE_FAKES_MAX]; /* all; NULL: stopped, or none */
    unsigned listening, messages;       /* of a store with scene_listens: the number of calls, */
    size_t last_len;                    /* and the last message, */
    char last[64];                      /* cut */
    bool listening_while_unready;       /* ever, as the next: */
    bool disorder;                      /* messages that are numbers did not follow each other */
} scene;

extern scene here;

/* A fake Redis, and no store yet. Then answers may be set. Ends a scene that was begun before. */
void scene_begin(void);

/* Another fake Redis, until scene_stop or the end of the scene. */
fake_redis *scene_fake(void);
void scene_stop(fake_redis *fake);

/* Options of a store that subscribes to SCENE_CHANNEL. */
store_options scene_listens(store_options options);

/* Opens the store, on the first fake unless the options have a URL; or on that with these credentials, and what
 * follows the socket's path in its URL. */
void scene_open(const store_options *options);
void scene_open_url(const store_options *options, const char *credentials, const char *suffix);

/* For cmocka, around each test: a ready store; scene_end also without a store. From then on nothing but the test's
 * calls is on the connection. */
int scene_start(void **state);
int scene_end(void **state);

/* The same with options, or on a node of a cluster. */
void scene_restart_with(const store_options *options);
void scene_restart_on_cluster(void);

/* As fake_redis_answer and fake_redis_seen. */
void scene_answer(const char *words, const char *reply);
unsigned scene_seen(const char *words);

/* The next FCALLs, so many, are answered so. */
void scene_reply(const char *reply, unsigned times);

/* Fails unless this is the last command that came. */
void scene_assert_last(const char *command);

/* Runs the loop until so many commands came that begin with these words, at the first fake or at this one; until so many
 * connections were made; until the reason for not being ready has this text, or the store is fatal with it. */
void scene_until_seen(const char *words, unsigned times);
void scene_until_seen_at(const fake_redis *fake, const char *words, unsigned times);
void scene_until_connections(unsigned times);
void scene_until_reason(const char *text);
void scene_until_fatal(const char *text);
void scene_until_listening(unsigned times);
void scene_until_messages(unsigned times);

/* Submits n calls, waits for them, and asserts that all went well. */
void scene_call_all(const driver_call *calls, size_t n, outcome **ret);

/* Submits "echo"; also waits for it; also asserts that it ends so. */
outcome *scene_submit(void);
outcome *scene_echo(void);
#define scene_assert_echo(code, applied) assert_outcome(scene_echo(), (code), (applied))

#endif
