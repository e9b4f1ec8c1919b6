/* A service of the tests' own, for hosts: Buy returns what it knows of its call, Refuse fails, Fill and Look answer
 * with so many bytes, Block waits until the shop is open. */
#ifndef LOCKSTOCK_TESTS_SHOP_H
#define LOCKSTOCK_TESTS_SHOP_H

#include <pthread.h>
#include <stdbool.h>

#include <lockstock/rpc/service.h>

/* The shop: what its handlers share with the test. */
typedef struct shop {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int running; /* calls of Block that wait */
    int bought;
    bool open; /* Block returns */
} shop;
extern shop the_shop;

extern const lks_rpc_method shop_buy_method, shop_refuse_method, shop_fill_method, shop_look_method, shop_block_method;
extern const lks_rpc_service shop_service;

/* Until so many calls of Block wait. */
void shop_await(int n);

/* They return; those that come too. And not any more, with nothing bought. */
void shop_open(void);
void shop_close(void);

#endif
