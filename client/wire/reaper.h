/* Closes libnng's sockets. In libnng 1.5.2 a connection that fails while it is written to
 * and read from can hang the one thread that clears connections away, for the rest of the
 * process (docs/client.md); then nng_close never returns. So it is called on a thread of
 * its own, which may hang, and a socket that cannot be closed is left behind. All of it may
 * be called from any thread. */
#ifndef LOCKSTOCK_CLIENT_WIRE_REAPER_H
#define LOCKSTOCK_CLIENT_WIRE_REAPER_H

#include <nng/nng.h>

/* What is to be closed; embedded at the start of what nng's callbacks for the socket look at,
 * which is freed by free() when they cannot run any more. */
struct reaper_item {
    struct reaper_item *next;
    nng_socket socket;
};

/* Closes item->socket soon, then frees the item. */
void reaper_close(struct reaper_item *item);

/* Waits until all that was given to it so far is closed; not for long if that hangs. */
void reaper_wait(void);

#endif
