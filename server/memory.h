/* Memory of lockstockd. Never returns NULL: when memory runs out, the server logs that and aborts. callers.h and
 * budget.h limit what peers can make the server allocate, so then the machine has no memory left. All state is in
 * Redis, and callers get the errors of a killed server. Libraries (rpc, net) return NULL or RESOURCE_EXHAUSTED
 * instead. */
#ifndef LOCKSTOCK_SERVER_MEMORY_H
#define LOCKSTOCK_SERVER_MEMORY_H

#include <stddef.h>

#include <lockstock/rpc/arena.h>

/* Keeps freed memory for the next call: otherwise each call of a megabyte would cause hundreds of page faults.
 * net/stream/trim.c gives memory back after a peak. Call this at the start. */
void memory_keep_what_is_freed(void);

/* Returns zeroed memory. Free it with free(). */
void *memory_alloc(size_t size);

/* A copy with a NUL after it. */
char *memory_copy(const char *text, size_t len);

/* Room for that many timers (base/heap.h). */
struct heap;
void memory_reserve_timers(struct heap *heap, size_t timers);

/* Free it with lks_rpc_arena_free. */
lks_rpc_arena *memory_arena(void);

/* Like memory_alloc, memory_copy and printf, but in an arena. */
void *memory_in(lks_rpc_arena *arena, size_t size);
char *memory_copy_in(lks_rpc_arena *arena, const void *data, size_t len);
char *memory_text_in(lks_rpc_arena *arena, const char *text);
char *memory_printf_in(lks_rpc_arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
