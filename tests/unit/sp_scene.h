/* An SP server on a loop of the test's own, and raw peers. frames_take is the scene's,
 * and callers are fakes: those with IN_FLIGHT messages or more that are not answered queue. */
#ifndef LOCKSTOCK_TESTS_SP_SCENE_H
#define LOCKSTOCK_TESTS_SP_SCENE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <uv.h>

#include "support/fake_sink.h"
#include "support/sp_peer.h"
#include "net/sp/sp_server.h"

enum { MESSAGES_MAX = 4096, IN_FLIGHT = 4, BIG = 256 * 1024 };

typedef struct taken {
    const frames_port *port;
    void *message; /* NULL: ended */
    caller *from;
    unsigned peer; /* its number */
    char text;
} taken;

extern struct sp_scene {
    uv_loop_t loop;
    streams *streams;
    sp_server *server;
    uint16_t port, web_port;
    taken taken[MESSAGES_MAX];
    size_t n, refused, wanted;
    uint64_t costs_ns;            /* the cost of a message of 'c' */
    size_t answer_len;            /* not 0: each call is answered at once, with so many bytes */
    bool echoes, lets_go, closed; /* lets_go: answers the calls of a lost peer at once */
    int ticks;                    /* of run_until */
} here;

/* REQ's. */
extern const uint8_t handshake[8];

/* Answers the i-th message that was taken. */
void end_one(size_t i, const void *text, size_t len);

/* Runs the loop until it is so; fails when it takes too long. */
void run_until(bool (*condition)(void));

/* here.wanted messages; callers lost; callers opened; messages refused. */
bool has_taken(void);
bool has_lost(void);
bool has_opened(void);
bool has_refused(void);

/* No output waits. */
bool has_flushed(void);

/* Exactly so many messages, callers. */
void run_until_taken(size_t n);
void run_until_lost(size_t n);

/* A server on here.port and, over WebSocket, on here.web_port; NULL: with room for 100. */
void start(const streams_options *given);

/* The server listens there too. */
lks_code listen_unix(const char *path);

/* Answers the open calls and expects that nothing is held. */
void stop(void);

/* Connects and says the handshake. */
int open_peer(void);

/* A request whose frame is one byte. */
void send_text(int fd, uint32_t id, char text);

/* Exactly so many bytes. */
void receive(int fd, uint8_t *to, size_t len);

/* The server's greeting; and an answer of one byte. */
void expect_greeting(int fd);
void expect_answer(int fd, uint32_t id, char text);

/* Closed by the server; earlier output is skipped. */
void run_until_closed(int fd);

#endif
