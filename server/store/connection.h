/* A connection to Redis: matches replies with commands, detects silence, reconnects with backoff. Loop thread only. */
#ifndef LOCKSTOCK_SERVER_STORE_CONNECTION_H
#define LOCKSTOCK_SERVER_STORE_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/types.h"

struct close_barrier;
struct secrets_tls;
struct redisReply;
struct url;
struct uv_loop_s;

typedef struct connection connection;

/* Ends a command, exactly once: with its reply, valid until this returns, or with NULL when the connection was lost. */
typedef void connection_reply(void *arg, const struct redisReply *reply);

typedef struct connection_options {
    struct uv_loop_s *loop;
    const char *path;              /* of a socket; NULL: host and port. The caller keeps all three pointers */
    const struct secrets_tls *tls; /* NULL: none */
    const char *host;              /* not read before the first connect */
    uint16_t port;
    bool waits_for_address;      /* connects, also after a loss, only after connection_move or connection_confirm */
    uint32_t connect_timeout_ms; /* for resolving and connecting, and for the greeting */
    uint32_t silence_timeout_ms; /* the connection is lost after this time without a reply to a command or PING; 0 =
                                  * never, no PING */
    /* Greets a new connection, then calls connection_ready or connection_drop. */
    void (*on_up)(void *greeting, connection *connection);
    void *greeting;
    /* The connection was lost or could not be made; its commands have ended before. */
    void (*on_down)(void *arg, store_fault fault);
    /* A reply to no command, or the answer to PING on a connection with messages; valid until it returns. NULL: a
     * reply to no command drops the connection. */
    void (*on_push)(void *arg, const struct redisReply *reply);
    void *arg;
} connection_options;

/* Connects, and reconnects until connection_close. Calls nothing back before it returns. The options are copied. */
connection *connection_open(const connection_options *options);

/* Appends a copy of a command in RESP. Only between on_up and on_down. */
void connection_command(connection *connection, connection_reply *on_reply, void *arg, const char *command, size_t len);

/* Appends the words, which contain no NUL, as a command. */
void connection_append(connection *connection, connection_reply *on_reply, void *arg, size_t argc, const char **argv);

/* Does the same, and flushes. */
void connection_words(connection *connection, connection_reply *on_reply, void *arg, size_t argc, const char **argv);

/* Sends what was appended. */
void connection_flush(connection *connection);

/* Call this inside a connection_reply with NULL: whether any byte of that command may have been sent. */
bool connection_was_sent(const connection *connection);

/* Returns the number of replies so far, over all connections. */
uint64_t connection_replies(const connection *connection);

/* The greeting has passed: from now on silence is detected. */
void connection_ready(connection *connection);

/* Closes the connection, and connects again after a pause. Ends its commands and calls on_down before it returns. */
void connection_drop(connection *connection, store_fault fault);

/* Drops the connection and connects to this address, which the caller keeps. */
void connection_move(connection *connection, const char *host, uint16_t port, store_fault fault);

/* Confirms that the address is still correct. */
void connection_confirm(connection *connection);

/* Does as connection_drop after the replies to all commands; no command may follow. */
void connection_retire(connection *connection, store_fault fault);

/* Ends commands without on_down. `within` counts it until it has closed. */
void connection_close(connection *connection, struct close_barrier *within);

#endif
