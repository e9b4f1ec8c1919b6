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

/* Ended requests that the library will not call back: the timer runs their callbacks. */
typedef struct requests {
    TAILQ_HEAD(request_list, request) ended;
    uv_timer_t timer;
} requests;

struct zookeeper {
    uv_loop_t *loop;
    char *root;
    size_t root_len;
    char *credentials; /* NULL: none */
    uint32_t session_timeout_ms;
    zk_events on;

    zookeeper_state state;
    hosts *hosts;
    session *session; /* NULL: RESOLVING, PAUSING */
    int64_t id;       /* of the last session reported by on.session; 0: none */
    uv_timer_t timer; /* CONNECTING: resolve again; CHECKING: check the root again; PAUSING: the end of the pause */
    uint32_t failures;
    uint64_t random;
    uint64_t root_id;
    size_t created;                      /* the root is created up to this byte */
    bool reported;                       /* on.state was called */
    char reason[ZOOKEEPER_REASON_BYTES]; /* the last one reported; "": ready */

    requests requests;
    close_barrier barrier;
};

/* The ACL of created nodes. */
const struct ACL_vector *zookeeper_acl(const zookeeper *zookeeper);

/* Whether it is parts that each follow one "/". */
bool requests_is_path(const char *path);

void requests_init(zookeeper *zookeeper);

/* Runs the callbacks of all ended requests, also of those that these callbacks make. */
void requests_end_all(zookeeper *zookeeper);

#endif
