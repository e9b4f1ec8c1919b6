/* The tokens that the callback of a channel gives (lks_channel_options.get_token). It runs on a thread of its own, so that
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

/* `fetched` is posted to the loop each time the callback has returned. NULL: no memory, or no thread. */
tokens *tokens_new(const lks_channel_options *options, struct loop *loop, loop_task *fetched);

/* Waits until the callback has returned. After loop_close. Takes NULL. */
void tokens_free(tokens *t);

/* Whether this is the thread of the callback. Takes NULL. */
bool tokens_is_thread(const tokens *t);

/* RFC 6750, 2.1. */
bool tokens_is_valid(const char *token);

/* ---- on the loop thread -------------------------------------------------------------------- */

/* The metadata "authorization", until the next call of tokens_*; NULL: there is none yet, and `fetched` will run. Has the
 * callback run early enough that the next token is there when this one ends. */
const char *tokens_get(tokens *t);

/* When `fetched` runs: what the callback gave, for the calls that wait; NULL with *error. */
const char *tokens_take(tokens *t, lks_error *error);

#endif
