/* One handle of the C library, so one session, on libuv. Loop thread only. */
#ifndef LOCKSTOCK_SERVER_ENSEMBLE_SESSION_H
#define LOCKSTOCK_SERVER_ENSEMBLE_SESSION_H

#include <stdbool.h>
#include <stdint.h>

struct uv_loop_s;
struct _zhandle;

typedef struct session session;

typedef enum session_state {
    SESSION_DOWN,    /* not connected: the library tries the members in turn */
    SESSION_UP,      /* connected; requests are sent */
    SESSION_EXPIRED, /* ended: close it */
    SESSION_REFUSED  /* ended: the ensemble refused the credentials; close it */
} session_state;

/* All run on the loop, never inside a function of this file. */
typedef struct session_events {
    /* The state, or the reason why it is down, has changed. */
    void (*changed)(void *arg);
    /* A watch fired. */
    void (*watch)(void *arg, const char *path);
    void *arg;
} session_events;

/* addresses: numeric, as in "127.0.0.1:2181,::1:2181". credentials: NULL, or "user:password", borrowed until it
 * returns. NULL: the library returned no handle; errno says why. */
session *session_open(struct uv_loop_s *loop, const char *addresses, uint32_t timeout_ms, const char *credentials,
                      const session_events *events);

session_state session_state_of(const session *session);

/* Whether a request can be sent now. False also between the loss of the connection and its event. */
bool session_is_up(const session *session);

/* Why it is down, as text that is valid until the next event; NULL: not known yet. */
const char *session_why(const session *session);

/* The id that the ensemble gave the session; 0: none yet. */
int64_t session_id(const session *session);

/* The handle for requests, while the session is up. */
struct _zhandle *session_handle(session *session);

/* Call this after each request. Returns false if the library found the connection broken, so that it has not sent all
 * of the request. The callback of the request still runs. */
bool session_submitted(session *session);

/* Replaces the addresses, if the session is down. */
void session_set_addresses(session *session, const char *addresses);

/* Ends the session. The callbacks of all requests run with ZCLOSING, then `closed` runs, on the loop; there are no
 * other events. Does not block. */
void session_close(session *session, void (*closed)(void *arg), void *arg);

#endif
