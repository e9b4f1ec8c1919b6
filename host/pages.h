/* The pages of a host's http:// URLs: /metrics, /healthz, /readyz. */
#ifndef HOST_PAGES_H
#define HOST_PAGES_H

#include "net/admission/budget.h"
#include "net/http/page.h"
#include "net/metrics/rpc_meter.h"
#include "net/wires.h"

enum { HOST_PAGES = 3 };

/* The data of the pages; must outlive the wires. */
typedef struct host_pages {
    const rpc_meter *meter;
    const budget *budget;
    size_t memory_bytes;
    wires *const *wires;
    bool serving; /* the health of the server as a whole */
    http_page of[HOST_PAGES];
} host_pages;

/* Makes the pages in `of`. */
void host_pages_init(host_pages *p);

#endif
