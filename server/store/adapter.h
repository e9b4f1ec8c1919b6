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
struct tls_context;
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

/* A numeric address and a port, or a socket's path (not NULL). */
typedef struct adapter_target {
    const char *path, *address;
    uint16_t port;
} adapter_target;

/* Starts to connect. context_of_tls: NULL, or what makes TLS of it, with a peer whose certificate is for `name`; connected is
 * told when that is up. LKS_UNAVAILABLE: refused at once. */
lks_code adapter_open(struct uv_loop_s *loop, const adapter_target *to, struct tls_context *context_of_tls,
                      const char *name, const adapter_events *events, adapter **ret, lks_error *error);

/* The peer has been greeted: from now on a reply may take 64 MiB of memory; until then one of more than 1 MiB ends the
 * connection. */
void adapter_trust(adapter *adapter);

/* Appends a command to what is to be sent; copies it: as Redis reads it, or words without NUL. */
void adapter_append(adapter *adapter, const char *command, size_t len);
void adapter_append_words(adapter *adapter, size_t argc, const char **argv);

/* Gives the kernel as much as it takes now; the rest follows when it takes more. */
void adapter_flush(adapter *adapter);

/* Bytes appended that the kernel, or TLS, has not taken: they were surely not sent. */
size_t adapter_unsent(const adapter *adapter);

/* Closes; no event comes after. Legal inside an event. Takes NULL. */
void adapter_close(adapter *adapter);

#endif
