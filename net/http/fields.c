#include "net/http/fields.h"

#include <string.h>
#include <strings.h>

#include "base/base64.h"

bool http_fields_set(http_fields *to, lks_rpc_arena *arena, const char *name, const char *value)
{
    http_field *field = value ? lks_rpc_arena_alloc(arena, sizeof *field) : NULL;

    if (!field)
        return !value;
    *field = (http_field){.name = name, .value = value, .name_len = strlen(name), .value_len = strlen(value)};
    TAILQ_INSERT_TAIL(to, field, next);
    return true;
}

bool http_fields_add(http_fields *to, lks_rpc_arena *arena, const char *name, size_t name_len, const char *value,
                     size_t value_len)
{
    http_field *field = lks_rpc_arena_alloc(arena, sizeof *field);
    char *name_copy = lks_rpc_arena_copy(arena, name, name_len);
    char *value_copy = lks_rpc_arena_copy(arena, value, value_len);

    if (!field || !name_copy || !value_copy)
        return false;
    *field = (http_field){.name = name_copy, .value = value_copy, .name_len = name_len, .value_len = value_len};
    TAILQ_INSERT_TAIL(to, field, next);
    return true;
}

lks_rpc_slice http_fields_value(const http_fields *from, const char *name)
{
    const http_field *field;

    TAILQ_FOREACH(field, from, next)
        if (strcmp(field->name, name) == 0)
            return (lks_rpc_slice){.data = field->value, .len = field->value_len};
    return (lks_rpc_slice){.data = "", .len = 0};
}

size_t http_fields_count(const http_fields *from, const char *name)
{
    const http_field *field;
    size_t n = 0;

    TAILQ_FOREACH(field, from, next)
        n += strcmp(field->name, name) == 0;
    return n;
}

const char *http_find_origin(char *const *origins, size_t n, const char *origin)
{
    for (size_t i = 0; i < n; i++)
        if (strcasecmp(origins[i], origin) == 0)
            return origins[i];
    return NULL;
}

/* "gzip;q=0" refuses gzip. */
static bool is_refused(const char *parameters, size_t len)
{
    static const char none[] = "q=0";
    const char *end = parameters + len;

    while (parameters < end && strchr("; \t", *parameters))
        parameters++;
    len = (size_t)(end - parameters);
    if (len < sizeof none - 1 || strncasecmp(parameters, none, sizeof none - 1) != 0)
        return false;
    for (size_t i = sizeof none - 1; i < len; i++)
        if (!strchr(".0 \t", parameters[i]))
            return false;
    return true;
}

bool http_list_has(lks_rpc_slice list, const char *token)
{
    size_t wanted = strlen(token);

    for (size_t at = 0; at < list.len;) {
        while (at < list.len && strchr(", \t", list.data[at]))
            at++;
        const char *entry = list.data + at, *comma = memchr(entry, ',', list.len - at);
        size_t len = comma ? (size_t)(comma - entry) : list.len - at;
        size_t name = 0;
        while (name < len && !strchr("; \t", entry[name]))
            name++;
        if (name == wanted && strncasecmp(entry, token, wanted) == 0 && !is_refused(entry + name, len - name))
            return true;
        at += len;
    }
    return false;
}

/* A name that ends with "-bin": its value is base64 of any bytes. */
static bool is_binary(const char *name)
{
    size_t len = strlen(name);

    return len > 4 && strcmp(name + len - 4, "-bin") == 0;
}

void http_field_pass(const http_field *field, lks_rpc_arena *arena, sink_see_entry *see, void *arg)
{
    uint8_t *bytes = is_binary(field->name) ? lks_rpc_arena_alloc(arena, field->value_len + 1) : NULL;
    lks_rpc_slice value = {.data = field->value, .len = field->value_len};
    size_t len;

    if (bytes && base64_decode(field->value, field->value_len, bytes, &len))
        value = (lks_rpc_slice){.data = (const char *)bytes, .len = len};
    see(arg, field->name, value);
}

static void put(http_fields *to, lks_rpc_arena *arena, const char *prefix, const lks_rpc_metadata *entry)
{
    const char *name = lks_rpc_arena_printf(arena, "%s%s", prefix, entry->key);
    size_t len = BASE64_ENCODED_BYTES(entry->value.len);
    char *text = is_binary(entry->key) ? lks_rpc_arena_alloc(arena, len + 1) : NULL;

    if (text)
        base64_encode((const uint8_t *)entry->value.data, entry->value.len, text);
    if (name && text)
        http_fields_add(to, arena, name, strlen(name), text, len);
    else if (name && !is_binary(entry->key))
        http_fields_add(to, arena, name, strlen(name), entry->value.data, entry->value.len);
}

void http_fields_put(http_fields *to, lks_rpc_arena *arena, const char *prefix, const lks_rpc_list *entries)
{
    for (size_t i = 0; i < entries->n; i++)
        put(to, arena, prefix, &entries->items[i]);
}

credentials http_fields_credentials(const http_fields *from, const char *certificate, const uid_t *uid)
{
    credentials who = {.certificate = certificate, .uid = uid};
    const http_field *field;

    TAILQ_FOREACH(field, from, next)
        credentials_read(&who, field->name, (lks_rpc_slice){field->value, field->value_len});
    return who;
}

void http_fields_put_hints(http_fields *to, lks_rpc_arena *arena, lks_rpc_hints hints, const lks_error *error)
{
    uint32_t retry_after_ms = error ? error->retry_after_ms : hints.retry_after_ms;

    if (error)
        http_fields_set(to, arena, "lockstock-applied", lks_applied_name(error->applied));
    else if (hints.replayed)
        http_fields_set(to, arena, "lockstock-replayed", "true");
    if (retry_after_ms > 0)
        http_fields_set(to, arena, "retry-after-ms", lks_rpc_arena_printf(arena, "%u", retry_after_ms));
}
