/* Reads the policy and the tokens again on SIGHUP. Reading files of many principals, and freeing the old ones, takes a
 * while, so a thread of libuv's pool does both. Loop thread only. */
#ifndef LOCKSTOCK_SERVER_RELOAD_H
#define LOCKSTOCK_SERVER_RELOAD_H

#include <uv.h>

#include "calls/identity.h"
#include "config.h"

/* Called on the loop. code and error: the result of reading the files. Afterwards the identity that *loaded points to
 * is freed. */
typedef void reload_use(void *arg, identity **loaded, lks_code code, lks_error *error);

typedef struct reload {
    uv_loop_t *loop;
    const settings *config;
    reload_use *use;
    void *arg;
    /* private; zero at first */
    uv_work_t work;
    bool runs, again; /* again: reload_begin was called while it ran */
    identity *loaded;
    lks_code code;
    lks_error error;
} reload;

/* If a reload runs, another one follows it. Keeps the loop alive until it is over. */
void reload_begin(reload *r);

#endif
