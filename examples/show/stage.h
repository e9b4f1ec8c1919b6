/* Everything that runs: a temporary directory, a lockstockd that keeps Redis (embedded, fsync always), two lockstockd
 * on the same Redis, and the clients of both shops. Whom the keys strike comes back by itself. */
#ifndef SHOW_STAGE_H
#define SHOW_STAGE_H

#include <stdbool.h>
#include <stdio.h>

#include <lockstock/status.h>

#include "crowd.h"
#include "news.h"

typedef struct stage stage;

/* Makes the directory, starts Redis and the servers, and writes into `c` where they are; all three are used until the
 * stage is closed. `self` is the path of this program. On success the caller closes. */
lks_code stage_open(const char *lockstockd, const char *self, crowd *c, int crowd_fd, news *said, stage **ret,
                    lks_error *error);

/* Starts the clients; the crowd comes when all are ready. */
lks_code stage_let_in(stage *s, lks_error *error);

/* To be called every now and then: brings back who was struck, lets the frozen go on, opens. LKS_INTERNAL: a child ended
 * that nobody struck. */
lks_code stage_tick(stage *s, lks_error *error);

/* All buyers are through, and their clients gone. */
bool stage_is_over(const stage *s);

/* What the keys do: each waits for a moment in the middle of something, seconds at most, and tells what it did.
 * SIGKILL to one of the two servers; to Redis; to a client of each shop with the same buyers. */
void stage_kill_server(stage *s);
void stage_kill_redis(stage *s);
void stage_kill_client(stage *s);
/* SIGSTOP to the client that holds the naive shop's lock, and to the one that holds lockstock's till, for longer than
 * the leases: until another one has written to the till, and a second at least. */
void stage_freeze(stage *s);

/* Ends all clients, at once. */
void stage_end_clients(stage *s);

/* Starts the servers that were killed, before their time: what was sold is asked of them. An error: one cannot be started. */
lks_code stage_revive_servers(stage *s, lks_error *error);

/* Ends what runs and removes the directory. False: a server did not end as it should. The end of the log of whoever
 * failed is written to `out`. Takes NULL. */
bool stage_close(stage *s, FILE *out);

#endif
