/* A hand-made SP REQ peer over TCP: sends what no client library would. Every
 * wait ends after SP_PEER_TIMEOUT_MS. */
#ifndef LOCKSTOCK_TESTS_SP_PEER_H
#define LOCKSTOCK_TESTS_SP_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SP_PEER_TIMEOUT_MS = 30000 };

/* Connects to 127.0.0.1 without a handshake. receive_buffer is SO_RCVBUF in
 * bytes, 0 = the system's. -1 on failure. */
int sp_peer_connect(unsigned short port, int receive_buffer);

/* Connects and shakes hands; -1 on failure. */
int sp_peer_open(unsigned short port);

/* Sends all bytes. False when the other side closed or does not read. */
bool sp_peer_send(int fd, const void *data, size_t len);

/* "length(8) id(4) body", to be freed; *len is its whole length. */
uint8_t *sp_peer_message(uint32_t id, const void *body, size_t body_len, size_t *len);

/* The next message's body after the id, to be freed; NULL when the connection
 * ends first. */
uint8_t *sp_peer_receive(int fd, uint32_t *id, size_t *len);

/* True when the other side closes without sending anything more. */
bool sp_peer_closed(int fd);

#endif
