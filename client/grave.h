/* Where libnng's sockets are closed. In libnng 1.5.2 a connection that fails while it
 * is written to and read from can hang the one thread that clears connections away,
 * for the rest of the process (docs/client.md); then nng_close never returns. So it is
 * called on a thread of its own, which may hang, and a socket that cannot be closed is
 * left behind. All of it may be called from any thread. */
#ifndef LOCKSTOCK_CLIENT_GRAVE_H
#define LOCKSTOCK_CLIENT_GRAVE_H

#include <nng/nng.h>

/* What is buried; embedded at the start of what nng's callbacks for the socket look at,
 * which is freed by free() when they cannot run any more. */
struct grave {
    struct grave *next;
    nng_socket socket;
};

/* Closes grave->socket soon, then frees the grave. */
void grave_bury(struct grave *grave);

/* Waits until all that was buried so far is closed; not for long if that hangs. */
void grave_wait(void);

#endif
