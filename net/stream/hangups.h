/* Detects that a peer closed, also while the connection is not read, waits to write, or is half closed. libuv
 * reports this only to readers. Loop thread only.
 *
 * A close behind bytes that do not fit into the kernel's buffer is not seen until these bytes are read. */
#ifndef LOCKSTOCK_NET_HANGUPS_H
#define LOCKSTOCK_NET_HANGUPS_H

#include <stdbool.h>

struct uv_loop_s;

typedef struct hangups hangups;

/* hung_up: the peer of `who` will send nothing more, or is gone. It may forget any connection. NULL without memory
 * or a descriptor. */
hangups *hangups_new(struct uv_loop_s *loop, void (*hung_up)(void *who));

/* Reports it once, also when the peer closed before. False: it cannot be watched. */
bool hangups_watch(hangups *all, int fd, void *who);

/* Must be called before the descriptor is closed. Closing alone does not suffice: a child process may have the
 * descriptor for a moment. */
void hangups_forget(hangups *all, int fd);

/* `closed` runs on the loop when everything is freed. */
void hangups_close(hangups *all, void (*closed)(void *arg), void *arg);

#endif
