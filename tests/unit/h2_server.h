/* A scripted gRPC server for tests of the client: the i-th whole request is answered by the i-th step, later ones by the
 * last. A ping that comes back answers the first request. A step runs on the server's only thread, and speaks through nghttp2 or these functions. */
#ifndef LOCKSTOCK_TESTS_H2_SERVER_H
#define LOCKSTOCK_TESTS_H2_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <nghttp2/nghttp2.h>

typedef struct h2_server h2_server;

/* A request, as it came. */
typedef struct h2_request {
    nghttp2_session *session;
    int32_t id;
    size_t connection;  /* 0: the first that was accepted */
    char headers[4096]; /* "name: value\n" */
    uint8_t *body;      /* with its prefix */
    size_t len;
    uint32_t error; /* with which the client reset it */
} h2_request;

typedef void h2_step(h2_server *s, h2_request *request);

typedef struct h2_script {
    h2_step *const *steps;          /* ends with NULL */
    nghttp2_settings_entry setting; /* its only one; id 0: none. Windows are never widened */
    size_t pings; /* the first request is answered when so many of the client's came; 0: when one is back */
    bool early;   /* steps run when the headers are there */
} h2_script;

h2_server *h2_server_start(h2_script script);
void h2_server_stop(h2_server *s); /* takes NULL */

/* "grpc://127.0.0.1:PORT" */
const char *h2_server_url(const h2_server *s);

/* For steps. Fields: "name", "value", ... NULL. Without a message: trailers only. */
void h2_answer_fields(h2_request *r, const char *const *head, const void *body, size_t len,
                      const char *const *trailers);
/* The response that pings want, with its id. */
void h2_answer_pong(h2_request *r);
/* The i-th request; NULL: not yet. */
h2_request *h2_server_request(h2_server *s, size_t i);

/* From the test's thread: wait until so many requests came, or were reset; false after half a minute. */
bool h2_server_await(h2_server *s, size_t n);
bool h2_server_await_resets(h2_server *s, size_t n);

#endif
