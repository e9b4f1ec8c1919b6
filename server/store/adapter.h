/* hiredis on libuv: one connection that sends bytes and reads replies. It uses hiredis' non-blocking context, not the
 * async one, which aborts on an unexpected reply, does not report a refused connection under libuv, and gives pending
 * callbacks no reason. connection.c knows which reply belongs to which command. */
#ifndef LOCKSTOCK_SERVER_STORE_ADAPTER_H
#define LOCKSTOCK_SERVER_STORE_ADAPTER_H

#include <stddef.h>
#include <stdint.h>

#include <lockstock/status.h>

struct redisReply;
struct tls_context;
struct uv_loop_s;

typedef struct adapter adapter;

/* Callbacks run on the loop, never inside a function of this file. */
typedef struct adapter_events {
    void (*connected)(void *arg);
    /* `reply` is valid until it returns. */
    void (*reply)(void *arg, const struct redisReply *reply);
    /* Called at most once, as the last event; adapter_close must still be called. `reason` is valid until it
     * returns. */
    void (*lost)(void *arg, const char *reason);
    void *arg;
} adapter_events;

/* A numeric address and a port, or a socket's path (not NULL). */
typedef struct adapter_target {
    const char *path, *address;
    uint16_t port;
} adapter_target;

/* Starts to connect. context_of_tls: NULL: no TLS; otherwise the peer must have a certificate for `name`, and
 * `connected` runs after the handshake. LKS_UNAVAILABLE: refused at once. */
lks_code adapter_open(struct uv_loop_s *loop, const adapter_target *to, struct tls_context *context_of_tls,
                      const char *name, const adapter_events *events, adapter **ret, lks_error *error);

/* The greeting has passed: from now on a reply may take 64 MiB of memory, before that 1 MiB. A longer one ends the
 * connection. */
void adapter_trust(adapter *adapter);

/* Appends a copy of a command to the output: in RESP, or as words without NUL. */
void adapter_append(adapter *adapter, const char *command, size_t len);
void adapter_append_words(adapter *adapter, size_t argc, const char **argv);

/* Writes as much as the kernel takes now; the rest follows by itself. */
void adapter_flush(adapter *adapter);

/* Returns the number of bytes not sent: neither the kernel nor TLS has taken them. */
size_t adapter_unsent(const adapter *adapter);

/* Closes; no event follows. Allowed inside an event. Takes NULL. */
void adapter_close(adapter *adapter);

#endif
