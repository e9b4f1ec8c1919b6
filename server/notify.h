/* Reports the server's state to a service manager, as sd_notify(3) specifies: datagrams to $NOTIFY_SOCKET. Does nothing
 * without that variable. Loop thread only. All functions take NULL. */
#ifndef LOCKSTOCK_SERVER_NOTIFY_H
#define LOCKSTOCK_SERVER_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>

struct uv_loop_s;

typedef struct notify notify;

/* Removes NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID from the environment, so that children do not inherit them.
 * With a watchdog, reports at half its interval that the loop runs. Call this before other threads start. Returns NULL
 * if there is no manager. */
notify *notify_open(struct uv_loop_s *loop);

/* The server is ready, or `reason` (one line) is why not; with both, the reason is a warning. systemd has no state for
 * a server that was ready and no longer is: the reason becomes the status. */
void notify_store(notify *n, bool ready, const char *reason);

/* Call these around a reload. Nothing is reported before the server was ready. `failure` is why the reload changed
 * nothing, or NULL; it stays in the status until a reload succeeds. */
void notify_reloading(notify *n);
void notify_reloaded(notify *n, const char *failure);

/* Reports the last state. `failure` is why the server ends; NULL: a signal. The manager is asked to wait for
 * within_ms. */
void notify_stopping(notify *n, const char *failure, uint64_t within_ms);

/* Frees it when the loop has run once more. */
void notify_close(notify *n);

#endif
