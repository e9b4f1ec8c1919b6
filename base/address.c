/* Invariant: only a host in brackets has a colon. */
#include "base/address.h"

#include <stdbool.h>

#include "base/number.h"

const char *address_parse(const char *text, size_t len, uint16_t default_port, struct address *ret)
{
    bool bracket = len > 0 && text[0] == '[';
    const char *host = text + bracket, *end = text + len;
    const char *host_end = memchr(host, bracket ? ']' : ':', (size_t)(end - host));

    if (bracket && !host_end)
        return "an address lacks its closing bracket";
    const char *colon = host_end ? host_end + bracket : end;
    size_t host_len = (size_t)(colon - host) - bracket;
    if (!bracket && colon < end && memchr(colon + 1, ':', (size_t)(end - colon) - 1))
        return "an IPv6 address must be in brackets: [::1]:7001";
    if (host_len == 0)
        return "a host is missing";
    if (host_len >= sizeof ret->host)
        return "a host is too long";
    if (strcspn(host, "/?#@ \t") < host_len)
        return "a host may not have a blank or one of / ? # @";
    int64_t port = default_port > 0 ? default_port : -1;
    if (colon < end)
        port = *colon == ':' ? number_parse(colon + 1, (size_t)(end - colon) - 1, UINT16_MAX) : -1;
    if (port < 0 || (port == 0 && default_port > 0))
        return "the port must be a number from 1 to 65535";
    ret->port = (uint16_t)port;
    memcpy(ret->host, host, host_len);
    ret->host[host_len] = '\0';
    return NULL;
}
