/* HTTP/1.1 without a library. */
#ifndef LOCKSTOCK_TESTS_HTTP_ASK_H
#define LOCKSTOCK_TESTS_HTTP_ASK_H

#include <stddef.h>
#include <stdint.h>

#define HTTP_GET(path) "GET " path " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"

/* Sends a request to 127.0.0.1, reads until the server closes, and returns `answer`, with a NUL behind it; empty when the
 * server cannot be reached. */
const char *http_ask(uint16_t port, const char *request, char *answer, size_t room);

#endif
