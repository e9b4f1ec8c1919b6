#include "catalog.h"

#include <stdbool.h>
#include <string.h>

#include <lockstock/v1/admin.lks.h>
#include <lockstock/v1/guard.lks.h>
#include <lockstock/v1/id.lks.h>
#include <lockstock/v1/idempotency.lks.h>
#include <lockstock/v1/lock.lks.h>
#include <lockstock/v1/ratelimit.lks.h>
#include <lockstock/v1/stock.lks.h>

#define METHOD(name, Name, request, response, constant) &(constant),
const lks_rpc_method *const catalog[] = {LKS_LOCK_METHODS(METHOD) LKS_STOCK_METHODS(METHOD) LKS_IDEMPOTENCY_METHODS(
    METHOD) LKS_RATE_LIMIT_METHODS(METHOD) LKS_ID_METHODS(METHOD) LKS_GUARD_METHODS(METHOD) LKS_ADMIN_METHODS(METHOD)};
const size_t catalog_len = sizeof catalog / sizeof *catalog;

/* Short names of methods. */
static const struct {
    const char *service, *short_name, *name;
} shorter[] = {
    {"lock", "ls", "list"},
    {"stock", "ls", "list-items"},
    {"stock", "get", "get-item"},
    {"stock", "put", "put-item"},
    {"stock", "rm", "delete-item"},
    {"stock", "order", "get-order"},
    {"admin", "status", "get-status"},
    {"rate-limit", "ls", "list-policies"},
    {"rate-limit", "put", "put-policy"},
    {"rate-limit", "get", "get-policy"},
    {"rate-limit", "rm", "delete-policy"},
};

catalog_name catalog_split(const lks_rpc_method *method)
{
    const char *service = method->path + 1, *slash = strchr(service, '/');

    return (catalog_name){.service = service, .method = slash + 1, .service_len = (size_t)(slash - service)};
}

void catalog_words(const lks_rpc_method *method, char service[WORDS_BYTES], char name[WORDS_BYTES])
{
    catalog_name split = catalog_split(method);
    const char *from = method->path;

    for (const char *c = split.service; c < split.service + split.service_len; c++)
        if (*c == '.')
            from = c;
    from++;
    words_of_camel(from, (size_t)(split.method - 1 - from) - strlen("Service"), service);
    words_of_camel(split.method, strlen(split.method), name);
}

static bool is_same(const char *word, const char *name)
{
    while (*word || *name) {
        if (*name == '-' && *word != '-')
            name++;
        if (*word++ != *name++)
            return false;
    }
    return true;
}

const char *catalog_short(const lks_rpc_method *method)
{
    char service[WORDS_BYTES], name[WORDS_BYTES];

    catalog_words(method, service, name);
    for (size_t i = 0; i < sizeof shorter / sizeof *shorter; i++)
        if (strcmp(shorter[i].service, service) == 0 && strcmp(shorter[i].name, name) == 0)
            return shorter[i].short_name;
    return NULL;
}

const lks_rpc_method *catalog_find(const char *service, const char *name)
{
    for (size_t i = 0; i < catalog_len; i++) {
        char its_service[WORDS_BYTES], its_name[WORDS_BYTES];
        catalog_words(catalog[i], its_service, its_name);
        if (!is_same(service, its_service))
            continue;
        if (!name || is_same(name, its_name))
            return catalog[i];
        const char *short_name = catalog_short(catalog[i]);
        if (short_name && strcmp(short_name, name) == 0)
            return catalog[i];
    }
    return NULL;
}
