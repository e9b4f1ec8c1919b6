/* A host with the guarded shop, a lockstockd and a redis, and calls to the host. */
#ifndef LOCKSTOCK_TESTS_GUARDS_SCENE_H
#define LOCKSTOCK_TESTS_GUARDS_SCENE_H

#include <lockstock/lockstock.h>

#include "e2e/guarded_shop.h"
#include "support/redis_fixture.h"
#include "support/server_fixture.h"
#include "test.h"

/* AWAY_MS: of calls that cannot succeed, so long that their refusal comes first. */
enum { LIMIT_MS = 60000, AWAY_MS = 3000, THREADS = 2 };

extern redis_fixture *redis;
extern server_fixture *server;
extern lks_channel *channel;  /* to lockstockd */
extern lks_channel *shop_way; /* to the host */
extern lks_host *host;        /* with THREADS threads; NULL: a test has closed it */
extern guarded_shop shop;
extern char effects[256], gate[256], shop_url[64]; /* shop_url: of the host */

int scene_setup(void **state);
int scene_teardown(void **state);

/* A further connection to the host. */
lks_channel *scene_connect(void);

void open_gate(void);

/* The lines of the file of effects that begin so; all with NULL. */
int n_effects(const char *line);

buy_request order(char *id, char **items, size_t n_items);

/* The response is free_response's; NULL with an error. */
buy_response *buy_within(const lks_rpc_method *method, const buy_request *request, uint32_t timeout_ms,
                         lks_error *error);
buy_response *buy(const lks_rpc_method *method, const buy_request *request, lks_error *error);
void free_response(buy_response *response);

/* What the call gives, which must not fail, nor wait until a lease ends. */
buy_response *answer_to(const lks_rpc_method *method, const buy_request *request);
void expect_bought(const lks_rpc_method *method, const buy_request *request);
void expect_attempt(const lks_rpc_method *method, const buy_request *request, int64_t attempt);
void expect_error(const lks_error *error, lks_code code, lks_applied applied, const char *message);
void expect_refused(const lks_rpc_method *method, const buy_request *request, lks_code code, const char *message);

/* A call under way, on a channel to a host. */
lks_call *start_on(lks_channel *way, const lks_rpc_method *method, const buy_request *request, uint32_t timeout_ms);
lks_call *start(const lks_rpc_method *method, const buy_request *request);

/* A call whose handler waits for the gate, and runs by now; and its end, with a response. */
lks_call *start_and_hold(const lks_rpc_method *method, buy_request *request);
void let_end(lks_call *call);

/* Waits for its end: the response, which lives as long as the call. */
const buy_response *ended(lks_call *call);

/* Its end, with a response, or an error. They free it. */
void expect_ended(lks_call *call);
void expect_failed(lks_call *call, lks_code code, lks_applied applied, const char *message);

bool same_answer(const buy_response *a, const buy_response *b);

void await(atomic_int *what, int n);

/* Of a lock in group "items". */
lks_inspect_response *inspect(const char *name); /* for lks_inspect_response_free */
int64_t waiters(const char *name);
size_t holders(const char *name);
void await_waiters(const char *name, int64_t n);
void await_holders(const char *name, size_t n);

extern char x[], y[], item_x[], item_y[], o1[], o2[];
extern char *x_alone[1], *y_alone[1], *yxy[3];

#endif
