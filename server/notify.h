/* What a service manager is told, as sd_notify(3) says: datagrams to $NOTIFY_SOCKET. Without that variable nothing is
 * told. Loop thread only. All functions take NULL. */
#ifndef LOCKSTOCK_SERVER_NOTIFY_H
#define LOCKSTOCK_SERVER_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>

struct uv_loop_s;

typedef struct notify notify;

/* Takes NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID out of the environment: they are not for children. With a watchdog
 * the loop says that it runs in half of that time. Before other threads start. NULL: nobody is to be told. */
notify *notify_open(struct uv_loop_s *loop);

/* The server serves, or `reason` (a line) says why not; with both, what of it does not. Systemd has no word for a server
 * that has become ready and is so no more: it reads the reason as the status. */
void notify_store(notify *n, bool ready, const char *reason);

/* Around a reload. Without a word before the server was ready. `failure` is the reason why all is as before, NULL: none;
 * it stays a part of the status until a reload succeeds. */
void notify_reloading(notify *n);
void notify_reloaded(notify *n, const char *failure);

/* The last state. `failure` is why the server ends, NULL: it was told to. It ends within so many milliseconds, for which
 * the manager is asked to wait. */
void notify_stopping(notify *n, const char *failure, uint64_t within_ms);

/* Frees it when the loop has run once more. */
void notify_close(notify *n);

#endif
