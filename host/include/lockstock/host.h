/* Serve your own typed services: handlers written against a generated skeleton
 * run on worker threads, called over nng by the generated stubs.
 *
 *     lks_host *host;
 *     lks_error error;
 *     shop_v1_shop_handlers handlers = SHOP_V1_SHOP_HANDLERS(shop_);
 *     lks_rpc_service service = shop_v1_shop_service(&handlers, &my_shop);
 *     if (lks_host_open(NULL, &host, &error) == LKS_OK &&
 *         lks_host_add(host, &service, &error) == LKS_OK &&
 *         lks_host_listen(host, "nng+tcp://127.0.0.1:7800", NULL, &error) == LKS_OK)
 *         wait_for_signal();
 *     lks_host_close(host, 5000);
 *
 * A host is opened, filled and closed by one thread at a time; handlers run on
 * several threads at once. */
#ifndef LOCKSTOCK_HOST_H
#define LOCKSTOCK_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/rpc/service.h>
#include <lockstock/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lks_host lks_host;

typedef struct lks_host_options {
    uint32_t threads;         /* that run handlers; 0 = 4 */
    uint32_t in_flight_max;   /* messages that wait for a thread, run or are being answered; more are
                                   refused with RESOURCE_EXHAUSTED, applied NO; 0 = 1,024 */
    uint32_t connections_max; /* 0 = 4,096 */
    size_t message_bytes_max; /* of a request and of a reply; 0 = 1 MiB */
    uint32_t timeout_ms;      /* of a call that names none, and the longest allowed; 0 = 30,000 */
    bool open_enums;          /* hand handlers the values of an enum that their .proto does not have, as
                                   numbers: of a newer client. False: such a request is refused */
} lks_host_options;

/* What a handler gets is well-formed: strings are UTF-8 without NUL, required fields are
 * there. A request that is not, or is more than this, is answered INVALID_ARGUMENT, applied
 * NO, with the field's path, and no handler sees it: a string or bytes as long as
 * message_bytes_max, 16 messages within each other, 20,000 elements of repeated fields and
 * nested messages, 1,000 unknown fields (which are skipped), and, unless open_enums, known
 * values of enums. */

/* A host without a service or an address. options may be NULL. On success *ret is
 * the caller's to close. LKS_RESOURCE_EXHAUSTED: no memory, threads or descriptors. */
lks_code lks_host_open(const lks_host_options *options, lks_host **ret, lks_error *error);

/* Adds a service. Its bindings, handlers and `self` must outlive the host; the struct
 * itself need not. LKS_ALREADY_EXISTS: a method of that path is served already;
 * LKS_FAILED_PRECONDITION: the host listens already. */
lks_code lks_host_add(lks_host *host, const lks_rpc_service *service, lks_error *error);

/* Listens on "nng+tcp://address:port" or "nng+ws://address:port/path"; may be called
 * again for further addresses. Port 0 lets the system choose; the bound port is
 * stored in *port when not NULL (0 over WebSocket, where libnng does not tell). Over
 * WebSocket a connection that a web page opens is closed unread, but libnng holds
 * connections that never finish their handshake, as many as come: it is for peers that
 * are trusted, on a network that is. LKS_INVALID_ARGUMENT: a URL that is none of these;
 * LKS_UNAVAILABLE: the address is in use or not ours. */
lks_code lks_host_listen(lks_host *host, const char *url, uint16_t *port, lks_error *error);

/* Ends the host: takes no new call, lets those that wait run for at most drain_ms,
 * answers the rest UNAVAILABLE, applied NO, waits for the handlers that run (it cannot
 * end them), sends what they answer, and frees. Blocks; not to be called from a handler.
 * Takes NULL. */
void lks_host_close(lks_host *host, uint32_t drain_ms);

#ifdef __cplusplus
}
#endif

#endif
