/* Called by host.c. */
#include "host/pages.h"

static http_page_answer metrics_page(void *arg, const char *accept, lks_rpc_arena *arena)
{
    const host_pages *p = arg;
    metrics_text t = {.arena = arena, .openmetrics = metrics_wants_openmetrics(accept)};

    rpc_meter_write(p->meter, &t);
    if (*p->wires)
        wires_write_metrics(*p->wires, &t);
    metrics_single(&t, METRICS_MEMORY, (double)budget_held(p->budget));
    metrics_single(&t, METRICS_MEMORY_MAX, (double)p->memory_bytes);
    metrics_single(&t, METRICS_READY, p->serving);
    metrics_process(&t);
    lks_rpc_slice text = metrics_end(&t);
    return (http_page_answer){
        .status = text.data ? 200 : 503, .type = metrics_content_type(t.openmetrics), .body = text};
}

static http_page_answer ready_page(void *arg, const char *accept, lks_rpc_arena *arena)
{
    const host_pages *p = arg;
    (void)accept;
    (void)arena;

    return (http_page_answer){
        .status = p->serving ? 200 : 503,
        .type = "application/json",
        .body = lks_rpc_slice_of(p->serving
                                     ? "{\"ready\":true,\"reasons\":[]}\n"
                                     : "{\"ready\":false,\"reasons\":[{\"about\":\"server\",\"reason\":\"not_serving\","
                                       "\"blocks\":true,\"text\":\"the server does not serve now\"}]}\n")};
}

void host_pages_init(host_pages *p)
{
    p->of[0] = (http_page){.path = "/metrics", .write = metrics_page, .arg = p};
    p->of[1] = (http_page){.path = "/healthz", .write = http_page_alive};
    p->of[2] = (http_page){.path = "/readyz", .write = ready_page, .arg = p};
}
