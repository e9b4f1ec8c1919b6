/* hiredis on libuv: one connection, its bytes out and its replies in.
 *
 * It stands on hiredis' plain non-blocking context, not on its async one: that
 * one ends the process by an assertion when a peer sends a reply nobody asked
 * for, never tells of a refused connection under libuv, and gives pending
 * callbacks no reason. Who expects which reply is connection.c's affair. */
#ifndef LOCKSTOCK_SERVER_STORE_ADAPTER_H
#define LOCKSTOCK_SERVER_STORE_ADAPTER_H

#include <stddef.h>
#include <stdint.h>

#include <lockstock/status.h>

struct redisReply;
struct uv_loop_s;

typedef struct adapter adapter;

/* All run on the loop, never inside a function of this file. */
typedef struct adapter_events {
    void (*connected)(void *arg);
    /* `reply` is valid until it returns. */
    void (*reply)(void *arg, const struct redisReply *reply);
    /* At most once, and nothing after it; adapter_close is still due. `reason` is
     * valid until it returns. */
    void (*lost)(void *arg, const char *reason);
    void *arg;
} adapter_events;

/* Starts to connect to a numeric address, or to a socket's path (`path` not
 * NULL). LKS_UNAVAILABLE: refused at once. */
lks_code adapter_open(struct uv_loop_s *loop, const char *path, const char *address, uint16_t port,
                      const adapter_events *events, adapter **ret, lks_error *error);

/* Appends a command to what is to be sent; copies it: as Redis reads it, or words without NUL. */
void adapter_append(adapter *adapter, const char *command, size_t len);
void adapter_append_words(adapter *adapter, size_t argc, const char **argv);

/* Gives the kernel as much as it takes now; the rest follows when it takes more. */
void adapter_flush(adapter *adapter);

/* Bytes appended that the kernel has not taken: they were surely not sent. */
size_t adapter_unsent(const adapter *adapter);

/* Closes; no event comes after. Legal inside an event. Takes NULL. */
void adapter_close(adapter *adapter);

#endif
