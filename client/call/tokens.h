/* Tokens from the callback of a channel (lks_channel_options.get_token). The callback runs on its own thread, so that
 * no call that has a token waits for it.
 *
 *   IDLE --a call wants one--> WANTED --the callback has returned--> FETCHED --the loop thread takes it--> IDLE */
#ifndef LOCKSTOCK_CLIENT_CALL_TOKENS_H
#define LOCKSTOCK_CLIENT_CALL_TOKENS_H

#include <stdbool.h>
#include <stdint.h>

#include <lockstock/channel.h>

#include "client/loop/loop.h"

typedef struct tokens tokens;

/* Posts `fetched` to the loop each time the callback has returned. NULL: out of memory or threads. */
tokens *tokens_new(const lks_channel_options *options, struct loop *loop, loop_task *fetched);

/* Waits until the callback has returned. After loop_close. Takes NULL. */
void tokens_free(tokens *t);

/* Whether this is the thread of the callback. Takes NULL. */
bool tokens_is_thread(const tokens *t);

/* RFC 6750, 2.1. */
bool tokens_is_valid(const char *token);

/* ---- on the loop thread -------------------------------------------------------------------- */

/* The metadata "authorization", until the next call of tokens_*; NULL: there is no token yet, and `fetched` will run.
 * Starts the callback in the last fifth of a token's life, before it ends. */
const char *tokens_get(tokens *t);

/* Call it when `fetched` runs: returns the new token, for the calls that wait; NULL with *error. */
const char *tokens_take(tokens *t, lks_error *error);

#endif
