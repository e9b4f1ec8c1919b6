/* Decides which web pages may call. A browser lets any page send requests to any machine, and names the page's site in
 * Origin or sends "cross-site" in Sec-Fetch-Site. Host shows a page whose name resolves to this machine's address (DNS
 * rebinding). Called by exchange.c. */
#include <string.h>
#include <strings.h>

#include "net/http/exchange_state.h"
#include "net/stream/address_bind.h"

/* "shop.example:7702" of "https://shop.example:7702"; NULL: its scheme is not that of this connection. */
static const char *host_of(const http_exchange *e, const char *origin)
{
    const char *scheme = e->from->encrypted ? "https://" : "http://";
    size_t len = strlen(scheme);

    return strncasecmp(origin, scheme, len) == 0 ? origin + len : NULL;
}

static bool is_own(const http_exchange *e, const char *origin)
{
    const char *host = host_of(e, origin);

    return host && e->host[0] && strcasecmp(host, e->host) == 0;
}

static bool forbidden(lks_error *error, const char *why)
{
    lks_error_set(error, LKS_PERMISSION_DENIED, LKS_APPLIED_NO, "%s", why);
    return false;
}

/* A page of another site may link to a page that everybody may read. */
static bool is_public_page(const http_exchange *e, const http_page *page)
{
    return page && !page->right && e->verb == VERB_GET;
}

bool origin_check(http_exchange *e, const http_page *page, lks_error *error)
{
    const char *origin = e->known[KNOWN_ORIGIN].data;
    const char *site = e->known[KNOWN_SITE].data;

    if (e->from->is_local && e->host[0] && !address_is_loopback(e->host))
        return forbidden(error, "host: must be localhost, 127.0.0.1 or [::1] at this address");
    if (origin[0] == '\0')
        return strcasecmp(site, "cross-site") != 0 || is_public_page(e, page) ||
               forbidden(error, "sec-fetch-site: a page of another site must send Origin");
    e->allowed_origin = http_find_origin(e->site->origins, e->site->n_origins, origin);
    return e->allowed_origin || is_own(e, origin) || forbidden(error, "origin: not allowed by --allow-origin");
}

void origin_put(http_exchange *e)
{
    if (e->site->n_origins > 0)
        exchange_set(e, "vary", "origin");
    if (!e->allowed_origin)
        return;
    exchange_set(e, "access-control-allow-origin", e->allowed_origin);
    exchange_set(e, "access-control-expose-headers",
                 "grpc-status, grpc-message, grpc-status-details-bin, lockstock-applied, lockstock-replayed, "
                 "retry-after, retry-after-ms");
}

void origin_preflight(http_exchange *e, http_answer *answer)
{
    answer->status = e->allowed_origin ? 204 : 405;
    exchange_set(e, "allow", "GET, POST");
    if (!e->allowed_origin)
        return;
    exchange_set(e, "access-control-allow-methods", "GET, POST");
    exchange_set(e, "access-control-allow-headers",
                 "content-type, connect-protocol-version, connect-timeout-ms, grpc-timeout, x-grpc-web, x-user-agent, "
                 "authorization, lockstock-namespace, traceparent");
    exchange_set(e, "access-control-max-age", "7200");
}
