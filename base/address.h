/* Addresses and URLs in text: "host:port", "[::1]:port", "tcp://host:port". Thread-safe. */
#ifndef LOCKSTOCK_BASE_ADDRESS_H
#define LOCKSTOCK_BASE_ADDRESS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { ADDRESS_HOST_BYTES = 256, ADDRESS_PORT_BYTES = sizeof "65535" };

struct address {
    char host[ADDRESS_HOST_BYTES]; /* a name or an address, without brackets */
    uint16_t port;
};

/* Parses the `len` bytes of an address. default_port 0: the text must have a port, from 0 to 65,535. Otherwise the
 * text may leave it out, and port 0 is wrong. Returns what is wrong; NULL: nothing. */
const char *address_parse(const char *text, size_t len, uint16_t default_port, struct address *ret);

/* Returns what follows the scheme, "tcp://"; NULL: the URL has another one. */
static inline const char *url_after(const char *url, const char *scheme)
{
    size_t len = strlen(scheme);

    return strncmp(url, scheme, len) == 0 ? url + len : NULL;
}

#endif
