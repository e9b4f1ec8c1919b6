/* The scripted Redis of all tests of the store: it answers as scripted, on a unix socket, on the loop of the store
 * under test, and every other command like a usable Redis 7.0. */
#ifndef LOCKSTOCK_TESTS_FAKE_REDIS_H
#define LOCKSTOCK_TESTS_FAKE_REDIS_H

#include <stdbool.h>
#include <stddef.h>

struct uv_loop_s;

typedef struct fake_redis fake_redis;

/* Answers beside RESP, and RESP in short: a list of strings, numbers and lists in brackets, "[subscribe x :1 [a b]]";
 * a string after an apostrophe, "'role:master". */
extern const char fake_usual[];  /* the answer of a good Redis; to an FCALL, {{'DONE'}...} */
extern const char fake_silent[]; /* nothing, ever */
extern const char fake_stuck[];  /* nothing, nor to what follows on the connection */
extern const char fake_close[];  /* closes the connection */

/* Listens in a temporary directory. */
fake_redis *fake_redis_start(struct uv_loop_s *loop);

/* From now on commands that begin with these words ("CONFIG", "SENTINEL MASTER shop") are answered so, until another
 * answer for the same words; NULL: as if it had not been set. Of several that fit, the one that was set last counts.
 * It is copied. */
void fake_redis_answer(fake_redis *fake, const char *words, const char *reply);

/* The next command that begins with these words is answered so, before any fake_redis_answer; several of these are
 * used in turn, each once. */
void fake_redis_next(fake_redis *fake, const char *words, const char *reply);

/* How many commands came that begin with these words, over all connections. */
unsigned fake_redis_seen(const fake_redis *fake, const char *words);

/* All commands, a line each: "SELECT 7\n"; each is cut at 200 bytes. */
const char *fake_redis_log(const fake_redis *fake);

/* Sub-calls of the i-th FCALL, from 0 on: how many its arguments carry. */
size_t fake_redis_sub_calls(const fake_redis *fake, size_t i);

/* Listens on 127.0.0.1 too, and returns the port that the system chose. Once. */
unsigned fake_redis_listen_tcp(fake_redis *fake);

/* "unix:///tmp/.../redis.sock" */
const char *fake_redis_url(const fake_redis *fake);

/* Connections taken, and open now. */
unsigned fake_redis_connections(const fake_redis *fake);
unsigned fake_redis_open_connections(const fake_redis *fake);

/* Sends bytes to every open connection, asked or not; with a command only to those whose last one it was. */
void fake_redis_say(fake_redis *fake, const char *raw);
void fake_redis_say_to(fake_redis *fake, const char *command, const char *raw);

/* Sends a message to every connection that has subscribed. */
void fake_redis_publish(fake_redis *fake, const char *channel, const char *text);

/* Reads nothing more from the open connections, or from those that have subscribed. */
void fake_redis_turn_deaf(fake_redis *fake, bool only_to_subscribers);

/* Closes every open connection. */
void fake_redis_hang_up(fake_redis *fake);

/* Closes all connections; run the loop again before it is closed. Takes NULL. */
void fake_redis_stop(fake_redis *fake);

#endif
