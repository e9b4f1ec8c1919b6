/* The connection to Redis that comes back: connects, expects replies in order,
 * notices silence, reconnects with backoff. Loop thread only. */
#ifndef LOCKSTOCK_SERVER_STORE_CONNECTION_H
#define LOCKSTOCK_SERVER_STORE_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/store.h"

struct secrets_tls;
struct redisReply;
struct url;
struct uv_loop_s;

typedef struct connection connection;

/* A command's end, exactly once: its reply, valid until it returns; or NULL when the connection was lost. */
typedef void connection_reply(void *arg, const struct redisReply *reply);

typedef struct connection_options {
    struct uv_loop_s *loop;
    const char *path;              /* a socket; NULL: host and port. Both stay the caller's */
    const struct secrets_tls *tls; /* stays the caller's; NULL: none */
    const char *host;              /* NULL: none yet, until connection_move */
    uint16_t port;
    bool waits_to_be_told;       /* after each loss it connects only once connection_move or _confirm told where */
    uint32_t connect_timeout_ms; /* for each of: name and connect, and the greeting */
    uint32_t silence_timeout_ms; /* no reply to a command or PING for that long: lost; 0 = not watched, no PING */
    /* Greets a fresh connection, then calls connection_ready or connection_drop. */
    void (*on_up)(void *greeting, connection *connection);
    void *greeting;
    /* It is lost, or could not be made; commands under way have ended before. */
    void (*on_down)(void *arg, store_fault fault);
    /* A reply that no command asked for, or the answer to PING among messages; valid until it returns. NULL: what nobody
     * asked for drops the connection. */
    void (*on_push)(void *arg, const struct redisReply *reply);
    void *arg;
} connection_options;

/* Starts connecting, and does so until connection_close. Calls nothing back
 * before it returns. The options are copied. */
connection *connection_open(const connection_options *options);

/* Appends a command as Redis reads it, which is copied. Only between on_up and on_down. */
void connection_command(connection *connection, connection_reply *on_reply, void *arg, const char *command, size_t len);

/* The same for words without NUL. */
void connection_append(connection *connection, connection_reply *on_reply, void *arg, size_t argc, const char **argv);

/* The same, flushed at once. */
void connection_words(connection *connection, connection_reply *on_reply, void *arg, size_t argc, const char **argv);

/* Sends what was appended. */
void connection_flush(connection *connection);

/* While a connection_reply runs with NULL: whether any byte of that command may have been sent. */
bool connection_was_sent(const connection *connection);

/* How many replies came so far, over all its connections. */
uint64_t connection_replies(const connection *connection);

/* Greeted: from now on silence is watched. */
void connection_ready(connection *connection);

/* Gives the connection up; it is made again after a pause. Commands under way
 * and on_down are called back from here. */
void connection_drop(connection *connection, store_fault fault);

/* From now on it connects there, at once; the address stays the caller's. What was connected is dropped. */
void connection_move(connection *connection, const char *host, uint16_t port, store_fault fault);

/* The address is still right. */
void connection_confirm(connection *connection);

/* The same as connection_drop, once all replies that are due have come; no command may follow. */
void connection_retire(connection *connection, store_fault fault);

/* Closes for good: commands under way end, on_down is not called; `closed` runs
 * on the loop, last. */
void connection_close(connection *connection, void (*closed)(void *arg), void *arg);

#endif
