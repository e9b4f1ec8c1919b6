/* One handle of the C library, so one session, on libuv. Loop thread only. */
#ifndef LOCKSTOCK_SERVER_ENSEMBLE_SESSION_H
#define LOCKSTOCK_SERVER_ENSEMBLE_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include <lockstock/status.h>

struct uv_loop_s;
struct _zhandle;

typedef struct session session;

typedef enum session_state {
    SESSION_DOWN,    /* not connected: the library tries one member after another */
    SESSION_UP,      /* connected; requests are sent */
    SESSION_EXPIRED, /* ended: to be closed */
    SESSION_REFUSED  /* ended: the credentials were refused */
} session_state;

/* Callbacks run on the loop, never inside a function of this file. */
typedef struct session_events {
    /* The state, or why it is down, has changed. */
    void (*changed)(void *arg);
    /* A watch fired: one of the library's ZOO_..._EVENT. */
    void (*watch)(void *arg, const char *path, int type);
    void *arg;
} session_events;

/* addresses: "127.0.0.1:2181,::1:2181", numeric. credentials: NULL, or "user:password", not used after it returns.
 * LKS_UNAVAILABLE: the library returns no handle. */
lks_code session_open(struct uv_loop_s *loop, const char *addresses, uint32_t timeout_ms, const char *credentials,
                      const session_events *events, session **ret, lks_error *error);

session_state session_state_of(const session *session);

/* Whether a request can be sent now; correct also between a loss and its event. */
bool session_is_up(const session *session);

/* Returns why it is down, valid until the next event; NULL: not known yet. */
const char *session_why(const session *session);

/* Returns the session's id in the ensemble; 0: none yet. */
int64_t session_id(const session *session);

/* Returns the handle for requests while it is up. */
struct _zhandle *session_handle(session *session);

/* Call this after each request. Returns false if the library found the connection broken and has not sent the whole
 * request. The request's callback still runs. */
bool session_submitted(session *session);

/* Sets other addresses while it is down. */
void session_set_addresses(session *session, const char *addresses);

/* Ends all requests with ZCLOSING, and the session. Calls no other event, then `closed` on the loop. Does not block. */
void session_close(session *session, void (*closed)(void *arg), void *arg);

#endif
