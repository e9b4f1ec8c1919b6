/* A hand-made SP REQ peer over TCP: sends what no client library would. Every
 * wait ends after SP_PEER_TIMEOUT_MS. */
#ifndef LOCKSTOCK_TESTS_SP_PEER_H
#define LOCKSTOCK_TESTS_SP_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/rpc/v1/envelope.pb-c.h>

enum { SP_PEER_TIMEOUT_MS = 30000 };

/* Connects to 127.0.0.1 without a handshake. receive_buffer is SO_RCVBUF in
 * bytes, 0 = the system's. -1 on failure. */
int sp_peer_connect(unsigned short port, int receive_buffer);

/* Sends REQ's handshake and reads REP's. */
bool sp_peer_shake(int fd);

/* Connects and shakes hands; -1 on failure. */
int sp_peer_open(unsigned short port);

/* Sends all bytes. False when the other side closed or does not read. */
bool sp_peer_send(int fd, const void *data, size_t len);

/* "length(8) id(4) body", to be freed; *len is its whole length. */
uint8_t *sp_peer_message(uint32_t id, const void *body, size_t body_len, size_t *len);

/* A frame with one call in it, to be freed. */
uint8_t *sp_peer_frame(const char *method, const void *payload, size_t payload_len, uint32_t timeout_ms, size_t *len);

/* The next message's body after the id, to be freed; NULL when the connection
 * ends first. */
uint8_t *sp_peer_receive(int fd, uint32_t *id, size_t *len);

/* True when the other side closes without sending anything more. */
bool sp_peer_closed(int fd);

/* Sends one call and reads its reply: to be freed with
 * lockstock__rpc__v1__reply__free_unpacked(reply, NULL). NULL when the connection
 * ends first. */
Lockstock__Rpc__V1__Reply *sp_peer_call(int fd, const char *method, const void *payload, size_t payload_len);

/* The same with a frame of the test's own. */
Lockstock__Rpc__V1__Reply *sp_peer_ask(int fd, const void *frame, size_t frame_len);

#endif
