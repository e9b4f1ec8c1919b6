/* The scenes of the shop: each plays something with the guards and without them, compares all of it with what it claims,
 * and writes both into a small table. */
#ifndef EXAMPLE_SHOP_SCENES_H
#define EXAMPLE_SHOP_SCENES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "child.h"
#include "lock_scenes.h"
#include "shop.lks_client.h"

typedef struct shop_setup {
    const char *lockstockd;    /* its URLs */
    const char *shop, *clicks; /* paths of the shop, and of clicks.py; clicks NULL = there is no grpcio */
    const char *protos[2];     /* directories of shop.proto, and of lockstock's */
    size_t buyers;
} shop_setup;

typedef struct shop_scene {
    const char *name;
    /* LKS_OK means that it ran: claims->good says how it ended. */
    lks_code (*run)(const shop_setup *setup, lock_claims *claims, lks_error *error);
} shop_scene;

lks_code scene_clicks(const shop_setup *setup, lock_claims *claims, lks_error *error);
lks_code scene_tabs(const shop_setup *setup, lock_claims *claims, lks_error *error);
lks_code scene_storm(const shop_setup *setup, lock_claims *claims, lks_error *error);
lks_code scene_killed(const shop_setup *setup, lock_claims *claims, lks_error *error);
lks_code scene_frozen(const shop_setup *setup, lock_claims *claims, lks_error *error);

/* ---- what scenes share ------------------------------------------------------------------------ */

/* A directory in which shops keep what they have; and names that no other run has, for what lockstock keeps. */
typedef struct premises {
    char dir[64];
    char run[17];
} premises;

lks_code premises_open(premises *ret, lks_error *error);

/* Removes it with all it has. Takes a zeroed one. */
void premises_close(premises *p);

/* How often an order was paid for; of all orders with NULL. */
size_t premises_payments(const premises *p, const char *order);

/* A shop in a process of its own. */
typedef struct shop_process {
    child process;
    char tcp[48], nng[48], grpc[32]; /* URLs; grpc: host:port */
} shop_process;

/* Starts one; stop is a setting of stops.h ("SHOP_MEET=yes"), "" = none. The caller ends it in any case. */
lks_code shop_start(const shop_setup *setup, const premises *p, bool guards, const char *stop, shop_process *ret,
                    lks_error *error);

/* Waits until it says that a call is where it stops: "stopped", "at the gate". */
lks_code shop_await(shop_process *shop, const char *where, lks_error *error);

/* SIGKILL. Takes a zeroed one. */
void shop_end(shop_process *shop);

/* "lamp-RUN-N" and the like. */
enum { SHOP_NAME_SIZE = 48 };
void shop_name(char ret[SHOP_NAME_SIZE], const premises *p, const char *what, size_t n);

/* Fills a shelf. */
lks_code shop_fill(lks_channel *channel, const char *sku, int64_t quantity, lks_error *error);

/* A channel that waits long enough, for as many calls at once as scenes make. retries: it sends a call again that has no
 * answer, as channels do; without guards each of these would run. */
lks_code shop_open(const char *urls, bool retries, lks_channel **ret, lks_error *error);

/* One order for a lamp, started; *ret is the caller's to free with lks_call_free. */
lks_code shop_buy_start(lks_channel *channel, const char *order, const char *buyer, const char *sku, lks_call **ret,
                        lks_error *error);

/* What came of an order. */
typedef struct bought {
    shop_v1_buy_outcome outcome;
    int64_t attempt;
    char receipt[32];
} bought;

/* Waits for the call and frees it. Takes NULL, which failed. */
lks_code shop_bought(lks_call *call, bought *ret, lks_error *error);

/* Both at once. */
lks_code shop_buy(lks_channel *channel, const char *order, const char *buyer, const char *sku, bought *ret,
                  lks_error *error);

typedef struct shelf_status {
    int64_t left, sold, orders;
} shelf_status;

lks_code shop_status(lks_channel *channel, const char *sku, shelf_status *ret, lks_error *error);

#endif
