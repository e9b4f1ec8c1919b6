/* The function library as lockstockd runs it for the lock store (server/machine), in the place of a Redis: each group
 * has keys of its own, and a call that leaves keys of another group among them fails the running cmocka test. The time
 * is that of this machine, or ls:test:clock_still_us, plus ls:test:clock_offset_us (support/clock.lua); keys end by it.
 *
 * A shared library, because machine/ has Lua 5.1 and the scripts of tests have Lua 5.4. */
#ifndef LOCKSTOCK_TESTS_MACHINE_ENGINE_H
#define LOCKSTOCK_TESTS_MACHINE_ENGINE_H

#include <stdbool.h>

#include "store/types.h"

typedef struct machine_engine machine_engine;

/* Returns NULL if the library does not load, and prints why on stderr. */
machine_engine *machine_engine_new(const char *library, size_t len, const char *digest);
void machine_engine_free(machine_engine *m);

/* FCALL, EVAL with a key, TIME, INFO commandstats, FLUSHALL, CONFIG SET maxmemory, or a command of keys of one group.
 * An unknown command fails the test. The words have a NUL behind them; the reply lives in the arena. */
const store_value *machine_engine_command(machine_engine *m, size_t n, const lks_rpc_slice *words,
                                          lks_rpc_arena *arena);

/* As harness_snapshot. */
const char *machine_engine_snapshot(machine_engine *m, lks_rpc_arena *arena);

/* Subscribes to the channel, or unsubscribes; earlier messages are dropped. */
void machine_engine_listen(machine_engine *m, const char *channel, bool listens);

/* The first message of the channel that was not given yet; data NULL: none. */
lks_rpc_slice machine_engine_message(machine_engine *m, const char *channel, lks_rpc_arena *arena);

#endif
