/* Addresses in text: "host:port", "[::1]:port". */
#ifndef LOCKSTOCK_BASE_ADDRESS_H
#define LOCKSTOCK_BASE_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>

enum { ADDRESS_HOST_BYTES = 280, ADDRESS_PORT_BYTES = 6 };

struct address {
    char host[ADDRESS_HOST_BYTES]; /* a name or an address, without brackets */
    char port[ADDRESS_PORT_BYTES]; /* digits */
    uint16_t number;               /* the port as a number */
};

/* Parses an address. False: it is malformed, or the port is above 65,535. */
bool address_parse(const char *text, struct address *ret);

#endif
