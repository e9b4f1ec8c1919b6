/* One handle of the C library, so one session, on libuv. Loop thread only. */
#ifndef LOCKSTOCK_SERVER_QUORUM_SESSION_H
#define LOCKSTOCK_SERVER_QUORUM_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include <lockstock/status.h>

struct uv_loop_s;
struct _zhandle;

typedef struct session session;

typedef enum session_state {
    SESSION_DOWN,    /* not connected: the library tries one member after the other */
    SESSION_UP,      /* connected; requests are sent */
    SESSION_EXPIRED, /* over: to be closed */
    SESSION_REFUSED  /* over: the credentials were refused */
} session_state;

/* All run on the loop, never inside a function of this file. */
typedef struct session_events {
    /* The state, or why it is down, has changed. */
    void (*changed)(void *arg);
    /* A watch fired: one of the library's ZOO_..._EVENT. */
    void (*watch)(void *arg, const char *path, int type);
    void *arg;
} session_events;

/* addresses: "127.0.0.1:2181,::1:2181": numbers. credentials: NULL, or "user:password", borrowed
 * until it returns. LKS_UNAVAILABLE: the library gives no handle. */
lks_code session_open(struct uv_loop_s *loop, const char *addresses, uint32_t timeout_ms, const char *credentials,
                      const session_events *events, session **ret, lks_error *error);

session_state session_state_of(const session *session);

/* Whether a request can be sent now: also between a loss and its event. */
bool session_is_up(const session *session);

/* Why it is down, in words, valid until the next event; NULL: not known yet. */
const char *session_why(const session *session);

/* The session's id with the ensemble; 0: none yet. */
int64_t session_id(const session *session);

/* For requests while it is up. */
struct _zhandle *session_handle(session *session);

/* To be called after each request. False: the library found the connection broken, and has not sent the request
 * whole. Its callback still runs. */
bool session_submitted(session *session);

/* Other addresses, while it is down. */
void session_set_addresses(session *session, const char *addresses);

/* Ends the callbacks of all requests, with ZCLOSING, and the session. Calls no other event, and then `closed`, on the
 * loop. Does not block. */
void session_close(session *session, void (*closed)(void *arg), void *arg);

#endif
