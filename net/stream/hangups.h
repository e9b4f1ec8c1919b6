/* Detects that a peer closed, also while the connection is not read, waits to write, or is half closed; libuv detects
 * it only while reading. Loop thread only.
 *
 * A close that follows bytes that do not fit into the kernel's buffer is not detected until these bytes are read. */
#ifndef LOCKSTOCK_NET_HANGUPS_H
#define LOCKSTOCK_NET_HANGUPS_H

#include <stdbool.h>

struct uv_loop_s;

typedef struct hangups hangups;

/* hung_up: the peer of `owner` will send nothing more, or is gone. It may call hangups_forget for any connection.
 * Returns NULL when out of memory or descriptors. */
hangups *hangups_new(struct uv_loop_s *loop, void (*hung_up)(void *owner));

/* Reports the close once, also when the peer has already closed. False: the descriptor cannot be watched. */
bool hangups_watch(hangups *all, int fd, void *owner);

/* Must be called before the descriptor is closed. Closing alone is not enough: a child process may have the descriptor
 * for a moment. */
void hangups_forget(hangups *all, int fd);

/* `closed` runs on the loop when everything is freed. */
void hangups_close(hangups *all, void (*closed)(void *arg), void *arg);

#endif
