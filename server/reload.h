/* SIGHUP: reads the policy and the tokens again. Files of many principals take a while to read, and what they said
 * before to forget, so a thread of libuv's pool does both. Loop thread only. */
#ifndef LOCKSTOCK_SERVER_RELOAD_H
#define LOCKSTOCK_SERVER_RELOAD_H

#include <uv.h>

#include "calls/identity.h"
#include "config.h"

/* On the loop. code: what reading the files came to, with its error. What *loaded is afterwards is freed. */
typedef void reload_use(void *arg, identity **loaded, lks_code code, lks_error *error);

typedef struct reload {
    uv_loop_t *loop;
    const settings *config;
    reload_use *use;
    void *arg;
    /* its own; zero at first */
    uv_work_t work;
    bool runs, again; /* again: it was begun once more meanwhile */
    identity *loaded;
    lks_code code;
    lks_error error;
} reload;

/* Begun while it runs, it runs once more afterwards. Keeps the loop alive until it is over. */
void reload_begin(reload *r);

#endif
