/* A URL with any part that is not understood is an error. */
#include "store/url.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "base/number.h"
#include "memory.h"

enum { REDIS_PORT = 6379, SENTINEL_PORT = 26379, DB_MAX = 65535 };

#define FORMS                                                            \
    "embedded:DIR, unix:///path, redis://[user:password@]host:port/db, " \
    "redis+sentinel://host:port,host:port/master/db or redis+cluster://host:port,host:port; with TLS rediss..."

typedef struct scheme {
    const char *prefix;
    lks_code (*parse)(const struct scheme *scheme, const char *text, url *ret, lks_error *error);
    url_kind kind;
    uint16_t port;    /* if the URL has none */
    size_t hosts_max; /* separated by commas */
    bool tls;
} scheme;

/* Returns a percent-decoded copy; NULL for a bad escape or an encoded NUL. */
static char *decode(const char *text, size_t len)
{
    char *out = memory_alloc(len + 1);

    if (percent_decode(text, len, out) == SIZE_MAX) {
        free(out);
        return NULL;
    }
    return out;
}

/* Parses a database number, which is all of the text. */
static bool parse_db(const char *text, uint32_t *ret)
{
    int64_t db = number_parse(text, strlen(text), DB_MAX);

    if (db >= 0)
        *ret = (uint32_t)db;
    return db >= 0;
}

static lks_code invalid(lks_error *error, const char *what)
{
    return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "%s", what);
}

static lks_code bad_escape(lks_error *error, const char *where)
{
    return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO,
                         "a %% in the %s must begin an escape such as %%2F; write %%25 for a plain %%", where);
}

/* An @ after the host or path: a character in the password ended it too early. */
static lks_code cut_password(lks_error *error)
{
    return invalid(error, "in a user or password, write %2F for /, %3F for ? and %25 for %");
}

/* Parses "[user]:password@" at *text, which ends at `end`, and moves *text past it. */
static lks_code parse_credentials(const char **text, const char *end, url *ret, lks_error *error)
{
    const char *at = memrchr(*text, '@', (size_t)(end - *text));
    const char *colon = at ? memchr(*text, ':', (size_t)(at - *text)) : NULL;

    if (!at)
        return LKS_OK;
    if (!colon || colon + 1 == at)
        return invalid(error, "a URL with a user needs a password: user:password@");
    ret->password = decode(colon + 1, (size_t)(at - colon - 1));
    if (colon > *text)
        ret->user = decode(*text, (size_t)(colon - *text));
    if (!ret->password || (colon > *text && !ret->user))
        return bad_escape(error, "user or password");
    *text = at + 1;
    return LKS_OK;
}

static lks_code parse_hosts(const scheme *form, const char *text, const char *end, url *ret, lks_error *error)
{
    const char *wrong = NULL;

    for (const char *comma; !wrong && text <= end; text = comma + 1) {
        comma = memchr(text, ',', (size_t)(end - text));
        comma = comma ? comma : end;
        if (ret->n_hosts == form->hosts_max)
            return invalid(error, form->hosts_max == 1 ? "redis:// takes one host" : "at most 16 hosts are allowed");
        wrong = address_parse(text, (size_t)(comma - text), form->port, &ret->hosts[ret->n_hosts++]);
    }
    return wrong ? invalid(error, wrong) : LKS_OK;
}

/* Parses "/master" at *text, and moves *text past it. */
static lks_code parse_master(const char **text, url *ret, lks_error *error)
{
    size_t len = **text == '/' ? strcspn(*text + 1, "/?") : 0;

    ret->master = len > 0 ? decode(*text + 1, len) : NULL;
    *text += 1 + len;
    if (!ret->master && len > 0)
        return bad_escape(error, "primary's name");
    if (!ret->master)
        return invalid(error, "after the hosts must come the sentinels' name for the primary: /master or /master/db");
    return LKS_OK;
}

static lks_code parse_tcp(const scheme *form, const char *text, url *ret, lks_error *error)
{
    const char *end = text + strcspn(text, "/?"), *rest = end;

    if (strchr(end, '@'))
        return cut_password(error);
    lks_code code = parse_credentials(&text, end, ret, error);
    if (code == LKS_OK)
        code = parse_hosts(form, text, end, ret, error);
    if (code == LKS_OK && form->kind == URL_SENTINEL)
        code = parse_master(&rest, ret, error);
    if (code != LKS_OK)
        return code;
    const char *db = *rest == '/' ? rest + 1 : rest;
    if (*db != '\0' && (db == rest || !parse_db(db, &ret->db)))
        return invalid(error, form->kind == URL_SENTINEL ? "after the primary only /db may follow, a database number"
                                                         : "after the host only /db may follow, a database number");
    if (ret->db != 0 && ret->kind == URL_CLUSTER)
        return invalid(error, "a cluster has no databases: nothing may follow its hosts");
    return LKS_OK;
}

static lks_code parse_unix(const scheme *form, const char *text, url *ret, lks_error *error)
{
    const char *path = strchr(text, '/');
    const char *query;
    (void)form;

    if (path && path != text && path[-1] != '@' && strstr(path, "@/"))
        return cut_password(error);
    if (!path || (path != text && path[-1] != '@'))
        return invalid(error, "unix:// needs an absolute path: unix:///run/redis.sock");
    lks_code code = parse_credentials(&text, path, ret, error);
    if (code != LKS_OK)
        return code;
    query = path + strcspn(path, "?");
    if (*query != '\0' && (strncmp(query, "?db=", 4) != 0 || !parse_db(query + 4, &ret->db)))
        return invalid(error, "after the path only ?db=n may follow, a database number");
    ret->path = decode(path, (size_t)(query - path));
    return ret->path ? LKS_OK : bad_escape(error, "path");
}

static lks_code parse_embedded(const scheme *form, const char *text, url *ret, lks_error *error)
{
    (void)form;
    ret->path = memory_copy(text, strlen(text));
    return *text ? LKS_OK : invalid(error, "embedded: needs a directory: embedded:DIR");
}

static lks_code parse(const char *text, url *ret, lks_error *error)
{
    static const scheme schemes[] = {
        {"embedded:", parse_embedded, URL_EMBEDDED, 0, 0, false},
        {"unix://", parse_unix, URL_UNIX, 0, 0, false},
        {"redis://", parse_tcp, URL_TCP, REDIS_PORT, 1, false},
        {"rediss://", parse_tcp, URL_TCP, REDIS_PORT, 1, true},
        {"redis+sentinel://", parse_tcp, URL_SENTINEL, SENTINEL_PORT, URL_HOSTS_MAX, false},
        {"rediss+sentinel://", parse_tcp, URL_SENTINEL, SENTINEL_PORT, URL_HOSTS_MAX, true},
        {"redis+cluster://", parse_tcp, URL_CLUSTER, REDIS_PORT, URL_HOSTS_MAX, false},
        {"rediss+cluster://", parse_tcp, URL_CLUSTER, REDIS_PORT, URL_HOSTS_MAX, true},
    };

    *ret = (url){0};
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        const char *rest = url_after(text, schemes[i].prefix);
        if (!rest)
            continue;
        ret->kind = schemes[i].kind;
        ret->tls = schemes[i].tls;
        lks_code code = schemes[i].parse(&schemes[i], rest, ret, error);
        if (code != LKS_OK)
            url_clear(ret);
        return code;
    }
    return invalid(error, strstr(text, ":") ? "must be " FORMS : "has no scheme: " FORMS);
}

lks_code url_parse(const char *text, const char *from, url *ret, lks_error *error)
{
    lks_error why;
    lks_code code = parse(text, ret, &why);

    return code == LKS_OK ? LKS_OK : lks_error_set(error, code, why.applied, "%s: %s", from, why.message);
}

void url_clear(url *u)
{
    free(u->path);
    free(u->master);
    free(u->user);
    if (u->password)
        explicit_bzero(u->password, strlen(u->password));
    free(u->password);
    memset(u, 0, sizeof *u);
}
