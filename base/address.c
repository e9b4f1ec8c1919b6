/* Invariant: only a host in brackets has a colon. */
#include "base/address.h"

#include <stdlib.h>
#include <string.h>

bool address_parse(const char *text, struct address *ret)
{
    bool bracket = text[0] == '[';
    const char *host = text + bracket, *end = strpbrk(host, bracket ? "]" : ":");
    const char *colon = end ? end + bracket : NULL;

    if (!colon || *colon != ':' || end == host || (size_t)(end - host) >= sizeof ret->host || strpbrk(text, "/?#@ \t"))
        return false;
    size_t digits = strspn(colon + 1, "0123456789");
    if (digits == 0 || digits >= sizeof ret->port || colon[1 + digits] != '\0')
        return false;
    unsigned long number = strtoul(colon + 1, NULL, 10);
    if (number > UINT16_MAX)
        return false;
    memcpy(ret->host, host, (size_t)(end - host));
    ret->host[end - host] = '\0';
    memcpy(ret->port, colon + 1, digits + 1);
    ret->number = (uint16_t)number;
    return true;
}
