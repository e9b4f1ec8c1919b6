/* A Redis that answers what a test scripts, on a unix socket, on the loop of the
 * store it is asked by. What the script leaves alone is answered as a usable
 * Redis 7.0 would. */
#ifndef LOCKSTOCK_TESTS_FAKE_REDIS_H
#define LOCKSTOCK_TESTS_FAKE_REDIS_H

#include <stddef.h>

struct uv_loop_s;

typedef struct fake_redis fake_redis;

/* Answers of a script beside a raw RESP reply. */
extern const char fake_usual[];  /* what a good Redis says; to an FCALL, {{'DONE'}...} */
extern const char fake_silent[]; /* nothing, ever */
extern const char fake_close[];  /* closes the connection */

/* Called for each command; words are NUL-terminated. May return text of its own,
 * valid until the next call. */
typedef const char *fake_script(void *arg, size_t argc, const char *const *argv);

/* Listens in a temporary directory. script may be NULL. */
fake_redis *fake_redis_start(struct uv_loop_s *loop, fake_script *script, void *arg);

/* Listens on 127.0.0.1 too, and returns the port that the system chose. Once. */
unsigned fake_redis_listen_tcp(fake_redis *fake);

/* "unix:///tmp/.../redis.sock" */
const char *fake_redis_url(const fake_redis *fake);

/* Connections taken, and open now; FCALLs seen. */
unsigned fake_redis_connections(const fake_redis *fake);
unsigned fake_redis_open_connections(const fake_redis *fake);
unsigned fake_redis_calls(const fake_redis *fake);

/* Sends bytes to every open connection, asked or not. */
void fake_redis_say(fake_redis *fake, const char *raw);

/* The same to the connections whose last command this was. */
void fake_redis_say_to(fake_redis *fake, const char *command, const char *raw);

/* Reads nothing more from the open connections. */
void fake_redis_turn_deaf(fake_redis *fake);

/* The same of those that have subscribed. */
void fake_redis_deafen_subscribers(fake_redis *fake);

/* Closes every open connection. */
void fake_redis_hang_up(fake_redis *fake);

/* Closes all; run the loop once more before it is closed. Takes NULL. */
void fake_redis_stop(fake_redis *fake);

/* Sub-calls of an FCALL: how many its arguments carry. */
size_t fake_redis_sub_calls(size_t argc, const char *const *argv);

#endif
