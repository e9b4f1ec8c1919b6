/* Shared by zookeeper.c and requests.c. */
#ifndef LOCKSTOCK_SERVER_ENSEMBLE_PARTS_H
#define LOCKSTOCK_SERVER_ENSEMBLE_PARTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include <uv.h>

#include "net/close_barrier.h"
#include "ensemble/hosts.h"
#include "ensemble/session.h"
#include "ensemble/zookeeper.h"

struct ACL_vector;

typedef enum zookeeper_state { RESOLVING, CONNECTING, CHECKING, READY, ENDING, PAUSING, CLOSING } zookeeper_state;

enum { ZOOKEEPER_REASON_BYTES = 256 };

/* Requests that the library does not have, and the timer that ends them. */
typedef struct requests {
    TAILQ_HEAD(request_list, request) over;
    uv_timer_t timer;
} requests;

struct zookeeper {
    uv_loop_t *loop;
    char *root; /* "" is "/" */
    size_t root_len;
    char *credentials; /* NULL: none */
    uint32_t session_timeout_ms;
    bool create_root;
    zk_events on;

    zookeeper_state state;
    hosts *hosts;
    session *session; /* NULL: RESOLVING, PAUSING */
    int64_t id;       /* of the session that was last reported; 0: none */
    uv_timer_t timer; /* CONNECTING: resolves names again; CHECKING: checks the root again; PAUSING: ends the pause */
    uint32_t failures;
    uint64_t random;
    uint64_t root_id;
    size_t created; /* bytes of the root that were created */
    bool reported;  /* the state was reported, with `reason` */
    bool reported_ready;
    char reason[ZOOKEEPER_REASON_BYTES];

    requests requests;
    close_barrier barrier;
};

/* The permissions of nodes that are created. */
const struct ACL_vector *zookeeper_acl(const zookeeper *zookeeper);

/* Whether it is "/", or parts each preceded by one "/". */
bool requests_is_path(const char *path);

void requests_init(zookeeper *zookeeper);

/* Ends all requests that the library does not have, including those that their callbacks make. */
void requests_end_all(zookeeper *zookeeper);

#endif
