/* Sees the end of a peer, whatever is read from it at the time: also with its reading
 * stopped, output waiting for it, or half closed. libuv tells of an end only to who
 * reads. Loop thread only.
 *
 * What cannot be seen is an end behind bytes that the kernel has no room for: that is
 * told with the rest of them, once they are read. */
#ifndef LOCKSTOCK_NET_HANGUPS_H
#define LOCKSTOCK_NET_HANGUPS_H

#include <stdbool.h>

struct uv_loop_s;

typedef struct hangups hangups;

/* hung_up: the peer of `who` sends no more, or is gone. May forget it, and others.
 * NULL when there is no memory or descriptor for it. */
hangups *hangups_new(struct uv_loop_s *loop, void (*hung_up)(void *who));

/* Told once, also of what was so before. False: it cannot be watched. */
bool hangups_watch(hangups *all, int fd, void *who);

/* Before the descriptor is closed, which alone would not do: a child process may have
 * it for a moment, too. */
void hangups_forget(hangups *all, int fd);

/* `closed` runs on the loop when it is freed. */
void hangups_close(hangups *all, void (*closed)(void *arg), void *arg);

#endif
