/* Memory of a call, freed together by a reset. Not thread-safe: one owner at a time. */
#ifndef LOCKSTOCK_RPC_ARENA_H
#define LOCKSTOCK_RPC_ARENA_H

#include <stddef.h>

#include <protobuf-c/protobuf-c.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes that are owned elsewhere; not NUL-terminated. */
typedef struct lks_rpc_slice {
    const char *data;
    size_t len;
} lks_rpc_slice;

/* Returns the bytes of a C string without its NUL. */
lks_rpc_slice lks_rpc_slice_of(const char *text);

typedef struct lks_rpc_arena lks_rpc_arena;

/* Returns a new, empty arena, or NULL when out of memory. lks_rpc_arena_free takes NULL. */
lks_rpc_arena *lks_rpc_arena_new(void);
void lks_rpc_arena_free(lks_rpc_arena *arena);

/* Returns the bytes that the arena has allocated. */
size_t lks_rpc_arena_bytes(const lks_rpc_arena *arena);

/* Frees everything in the arena, and keeps one block for the next call. */
void lks_rpc_arena_reset(lks_rpc_arena *arena);

/* Returns `size` zeroed bytes, aligned for any type, or NULL when out of memory. Size 0 gives a valid pointer. */
void *lks_rpc_arena_alloc(lks_rpc_arena *arena, size_t size);

/* Returns a copy of the bytes with a NUL after them, or NULL when out of memory. */
char *lks_rpc_arena_copy(lks_rpc_arena *arena, const void *data, size_t len);

/* printf into the arena. Returns NULL when out of memory. */
char *lks_rpc_arena_printf(lks_rpc_arena *arena, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;

/* Returns an allocator for protobuf-c. Its free does nothing. Valid as long as the arena. */
ProtobufCAllocator *lks_rpc_arena_allocator(lks_rpc_arena *arena);

#ifdef __cplusplus
}
#endif

#endif
