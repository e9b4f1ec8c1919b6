/* Invariant: a call that the policy does not allow is refused, and all refusals of a kind have the same text. Called by
 * dispatch.c. */
#include "calls/identity.h"

#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/queue.h>

#include <ini.h>

#include "base/hex.h"
#include "base/number.h"
#include "hashed.h"
#include "digest.h"
#include "memory.h"
#include "services/service.h"
#include "slice.h"

enum {
    TOKENS_MAX = 2,
    LINE_BYTES_MAX = 512,
    NAMESPACE_BYTES_MAX = 128,
    INI_NAME_BYTES_MAX = 48 /* inih cuts longer ones */
};

/* A service's name, or "*", and a bit for each effect. */
typedef struct grant {
    char *service;
    unsigned effects;
    TAILQ_ENTRY(grant) next;
} grant;

/* "c" and a certificate's name in lower case, or "u" and a user id. */
typedef struct alias {
    char *text;
    principal *of;
    UT_hash_handle hh; /* by `text` */
} alias;

/* A caller who measures how long a search takes learns about digests, which do not reveal tokens. */
typedef struct token {
    unsigned char digest[DIGEST_BYTES];
    int64_t until; /* 0 = no end */
    principal *of;
    UT_hash_handle hh; /* by `digest` */
} token;

struct principal {
    char *name, *ns; /* ns NULL: the caller chooses */
    TAILQ_HEAD(, grant) grants;
    const token *tokens[TOKENS_MAX];
    size_t n_tokens;
    uint64_t admitted, refused; /* calls */
    UT_hash_handle hh;          /* by `name`; in the order of the file */
};

struct identity {
    bool required;
    char policy[DIGEST_HEX_LEN + 1]; /* "": no policy */
    principal *principals;
    alias *aliases;
    token *tokens;
};

/* ---- reading the files ------------------------------------------------------------ */

typedef struct reading {
    identity *identity;
    const char *file;
    FILE *from;
    digest_parts *digest; /* of the lines read so far of the policy; NULL: of nothing */
    unsigned line;
    lks_code failed;
    lks_error *error;
} reading;

static bool bad_line(reading *r, const char *what)
{
    r->failed =
        lks_error_set(r->error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "%s: line %u: %s", r->file, r->line, what);
    return false;
}

/* `name` is in the line, or is that of the section. */
static bool bad(reading *r, const char *name, const char *what)
{
    r->failed = lks_error_set(r->error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "%s: line %u: %s: %s", r->file, r->line,
                              name, what);
    return false;
}

/* Like fgets, but never splits a line: returns NULL with an error then. */
static char *next_line(char *line, int size, void *from)
{
    reading *r = from;
    int n = 0, c = 0;

    r->line++;
    while (c != '\n' && (c = getc(r->from)) != EOF) {
        if (c == '\0' || n + 1 == size) {
            bad_line(r, c == '\0' ? "contains a NUL" : "too long");
            return NULL;
        }
        line[n++] = (char)c;
    }
    line[n] = '\0';
    if (r->digest)
        digest_more(r->digest, line, (size_t)n);
    if (ferror(r->from))
        bad_line(r, "cannot be read");
    return n > 0 && r->failed == LKS_OK ? line : NULL;
}

static principal *find(const identity *i, const char *name)
{
    principal *p;

    HASH_FIND_STR(i->principals, name, p);
    return p;
}

static principal *find_or_add(identity *i, const char *name)
{
    principal *p = find(i, name);

    if (p)
        return p;
    p = memory_alloc(sizeof *p);
    TAILQ_INIT(&p->grants);
    p->name = memory_copy(name, strlen(name));
    HASH_ADD_KEYPTR(hh, i->principals, p->name, strlen(p->name), p);
    return p;
}

/* Returns the text of an alias; NULL: longer than any in the file. */
static const char *certificate_text(const char *name, char text[LINE_BYTES_MAX])
{
    size_t n = 0;

    text[n++] = 'c';
    for (; *name && n < LINE_BYTES_MAX - 1; name++)
        text[n++] = (char)tolower((unsigned char)*name);
    text[n] = '\0';
    return *name ? NULL : text;
}

static const char *uid_text(uid_t uid, char text[LINE_BYTES_MAX])
{
    snprintf(text, LINE_BYTES_MAX, "u%ju", (uintmax_t)uid);
    return text;
}

static principal *of_alias(const identity *i, const char *text)
{
    alias *a = NULL;

    if (text)
        HASH_FIND_STR(i->aliases, text, a);
    return a ? a->of : NULL;
}

static bool add_alias(reading *r, principal *p, const char *text)
{
    if (of_alias(r->identity, text))
        return bad(r, p->name, "a certificate or uid may be given once, for one principal");
    alias *a = memory_alloc(sizeof *a);
    a->of = p;
    a->text = memory_copy(text, strlen(text));
    HASH_ADD_KEYPTR(hh, r->identity->aliases, a->text, strlen(a->text), a);
    return true;
}

static bool add_certificate(reading *r, principal *p, const char *name)
{
    char text[LINE_BYTES_MAX];

    return *name ? add_alias(r, p, certificate_text(name, text)) /* never NULL: lines are shorter */
                 : bad(r, p->name, "certificate: must not be empty");
}

static unsigned effect_bit(lks_rpc_effect effect)
{
    return 1U << effect;
}

/* Parses a list such as "READ, WRITE". */
static bool parse_effects(const char *text, unsigned *ret)
{
    static const struct {
        const char *word;
        lks_rpc_effect effect;
    } words[] = {{"READ", LKS_RPC_EFFECT_READ}, {"WRITE", LKS_RPC_EFFECT_WRITE}, {"ADMIN", LKS_RPC_EFFECT_ADMIN}};

    *ret = 0;
    for (text += strspn(text, " ,\t"); *text; text += strspn(text, " ,\t")) {
        size_t len = strcspn(text, " ,\t"), w = 0;
        while (w < 3 && (strlen(words[w].word) != len || memcmp(words[w].word, text, len) != 0))
            w++;
        if (w == 3)
            return false;
        *ret |= effect_bit(words[w].effect);
        text += len;
    }
    return *ret != 0;
}

/* Whether a path belongs to a service: "/lockstock.v1.StockService/Deduct" belongs to "StockService", to
 * "lockstock.v1.StockService" and to "*". */
static bool is_of_service(const char *path, const char *name)
{
    const char *end = strrchr(path, '/');
    size_t len = strlen(name);

    if (strcmp(name, "*") == 0)
        return true;
    if (!end || (size_t)(end - path) <= len || memcmp(end - len, name, len) != 0)
        return false;
    char before = end[-(ptrdiff_t)len - 1];
    return before == '.' || before == '/';
}

static bool is_served(const char *name)
{
    /* standard/ serves these in addition to the contract's services */
    static const char *const standard[] = {"/grpc.health.v1.Health/", "/grpc.reflection.v1.ServerReflection/",
                                           "/grpc.reflection.v1alpha.ServerReflection/"};

    for (size_t s = 0; s < sizeof standard / sizeof *standard; s++)
        if (is_of_service(standard[s], name))
            return true;
    for (size_t s = 0; s < SERVICES; s++)
        for (size_t m = 0; m < all_services[s]->n_methods; m++)
            if (is_of_service(all_services[s]->methods[m].method->path, name))
                return true;
    return false;
}

static bool add_grant(reading *r, principal *p, const char *name, const char *effects)
{
    grant *g = memory_alloc(sizeof *g);

    TAILQ_INSERT_TAIL(&p->grants, g, next);
    if (!is_served(name))
        return bad(r, name, "must be a service of this server, namespace, certificate or uid");
    if (!parse_effects(effects, &g->effects))
        return bad(r, p->name, "effects must be READ, WRITE or ADMIN");
    g->service = memory_copy(name, strlen(name));
    return true;
}

static bool set_namespace(reading *r, principal *p, const char *value)
{
    if (p->ns)
        return bad(r, p->name, "namespace: given twice");
    if (*value == '\0' || strlen(value) > NAMESPACE_BYTES_MAX)
        return bad(r, p->name, "namespace: must have 1 to 128 bytes");
    p->ns = memory_copy(value, strlen(value));
    return true;
}

static bool set_uid(reading *r, principal *p, const char *value)
{
    int64_t uid = number_parse(value, strlen(value), (uid_t)-2);

    if (uid < 0)
        return bad(r, p->name, "uid: not a user id");
    char text[LINE_BYTES_MAX];
    return add_alias(r, p, uid_text((uid_t)uid, text));
}

static int on_policy_key(void *user, const char *section, const char *name, const char *value)
{
    reading *r = user;

    if (r->failed != LKS_OK)
        return 0;
    if (section[0] == '\0')
        return bad(r, name, "must be in the section of a principal");
    if (strlen(section) > INI_NAME_BYTES_MAX || strlen(name) > INI_NAME_BYTES_MAX)
        return bad(r, section, "a name may have at most 48 bytes");
    principal *p = find_or_add(r->identity, section);
    if (strcmp(name, "namespace") == 0)
        return set_namespace(r, p, value);
    if (strcmp(name, "certificate") == 0)
        return add_certificate(r, p, value);
    if (strcmp(name, "uid") == 0)
        return set_uid(r, p, value);
    return add_grant(r, p, name, value);
}

static void read_policy(reading *r)
{
    r->digest = digest_begin();
    int failed = ini_parse_stream(next_line, r, on_policy_key, r);
    digest_end(r->digest, r->identity->policy);
    r->digest = NULL;
    if (failed == 0 || r->failed != LKS_OK)
        return;
    r->line = (unsigned)failed;
    bad_line(r, "not `key = value`");
}

static bool parse_digest(const char *text, unsigned char digest[DIGEST_BYTES])
{
    for (size_t i = 0; i < DIGEST_BYTES; i++) {
        int high = hex_value(text[2 * i]), low = high < 0 ? -1 : hex_value(text[2 * i + 1]);
        if (low < 0)
            return false;
        digest[i] = (unsigned char)(high << 4 | low);
    }
    return text[2 * DIGEST_BYTES] == '\0';
}

static const token *find_token(const identity *i, const unsigned char digest[DIGEST_BYTES])
{
    const token *found;

    HASH_FIND(hh, i->tokens, digest, DIGEST_BYTES, found);
    return found;
}

static void add_token(identity *i, principal *p, const token *t)
{
    token *kept = memory_alloc(sizeof *kept);

    *kept = *t;
    kept->of = p;
    HASH_ADD(hh, i->tokens, digest, DIGEST_BYTES, kept);
    p->tokens[p->n_tokens++] = kept;
}

/* Whether this is the SHA-256 of nothing, as from an empty variable or file. */
static bool is_of_nothing(const unsigned char digest[DIGEST_BYTES])
{
    unsigned char nothing[DIGEST_BYTES];

    digest_of("", 0, nothing);
    return memcmp(digest, nothing, DIGEST_BYTES) == 0;
}

/* Reads a line "<digest> <principal> [<until>]". */
static bool read_token(reading *r, char *line)
{
    char *rest;
    const char *digest = strtok_r(line, " \t\r\n", &rest);
    const char *name = strtok_r(NULL, " \t\r\n", &rest);
    const char *until = strtok_r(NULL, " \t\r\n", &rest);
    token t = {.until = 0};

    if (!digest)
        return true;
    if (!parse_digest(digest, t.digest) || !name || strtok_r(NULL, " \t\r\n", &rest))
        return bad_line(r, "must be: SHA-256 in hex, principal, and optionally the end in seconds since 1970");
    if (until) {
        t.until = number_parse(until, strlen(until), INT64_MAX);
        if (t.until <= 0)
            return bad_line(r, "the end of a token must be in seconds since 1970");
    }
    principal *p = find(r->identity, name);
    if (!p)
        return bad_line(r, "the policy has no such principal");
    if (p->n_tokens == TOKENS_MAX)
        return bad_line(r, "a principal may have at most two tokens");
    if (is_of_nothing(t.digest))
        return bad_line(r, "the digest of an empty token");
    if (find_token(r->identity, t.digest))
        return bad_line(r, "a token may be given once, for one principal");
    add_token(r->identity, p, &t);
    return true;
}

static void read_tokens(reading *r)
{
    char line[LINE_BYTES_MAX];

    while (r->failed == LKS_OK && next_line(line, sizeof line, r)) {
        line[strcspn(line, "#")] = '\0';
        read_token(r, line);
    }
}

static lks_code read_file(identity *i, const char *setting, const char *path, void (*read)(reading *r),
                          lks_error *error)
{
    reading r = {.identity = i, .file = path, .from = fopen(path, "re"), .error = error};

    if (!r.from)
        return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "%s: %s: cannot be read: %s", setting, path,
                             strerror(errno));
    read(&r);
    fclose(r.from);
    return r.failed;
}

lks_code identity_load(const char *policy_file, const char *token_file, identity **ret, lks_error *error)
{
    identity *i = memory_alloc(sizeof *i);
    lks_code code = LKS_OK;

    i->required = policy_file;
    if (token_file && !policy_file)
        code = lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "--tokens: %s: tokens need a policy",
                             token_file);
    if (code == LKS_OK && policy_file)
        code = read_file(i, "--policy", policy_file, read_policy, error);
    if (code == LKS_OK && token_file)
        code = read_file(i, "--tokens", token_file, read_tokens, error);
    if (code == LKS_OK)
        *ret = i;
    else
        identity_free(i);
    return code;
}

static void free_principal(principal *p)
{
    grant *g;

    while ((g = TAILQ_FIRST(&p->grants))) {
        TAILQ_REMOVE(&p->grants, g, next);
        free(g->service);
        free(g);
    }
    free(p->name);
    free(p->ns);
    free(p);
}

void identity_free(identity *i)
{
    principal *p, *next_principal;
    alias *a, *next_alias;
    token *t, *next_token;

    if (!i)
        return;
    HASH_ITER(hh, i->tokens, t, next_token)
    {
        HASH_DEL(i->tokens, t);
        free(t);
    }
    HASH_ITER(hh, i->aliases, a, next_alias)
    {
        HASH_DEL(i->aliases, a);
        free(a->text);
        free(a);
    }
    HASH_ITER(hh, i->principals, p, next_principal)
    {
        HASH_DEL(i->principals, p);
        free_principal(p);
    }
    free(i);
}

static int64_t last_end(const principal *p)
{
    int64_t last = 0;

    for (size_t i = 0; i < p->n_tokens; i++) {
        if (p->tokens[i]->until == 0)
            return 0;
        last = p->tokens[i]->until > last ? p->tokens[i]->until : last;
    }
    return last;
}

const principal *identity_next(const identity *i, const principal *before, identity_use *ret)
{
    const principal *p = before ? before->hh.next : i->principals;

    if (p)
        *ret = (identity_use){
            .principal = p->name, .admitted = p->admitted, .refused = p->refused, .token_ends = last_end(p)};
    return p;
}

const char *identity_policy(const identity *i)
{
    return i->policy;
}

bool identity_required(const identity *i)
{
    return i->required;
}

/* ---- admitting ---------------------------------------------------------------------- */

static principal *of_certificate(const identity *i, const char *name)
{
    char text[LINE_BYTES_MAX];

    return of_alias(i, certificate_text(name, text));
}

static principal *of_uid(const identity *i, uid_t uid)
{
    char text[LINE_BYTES_MAX];

    return of_alias(i, uid_text(uid, text));
}

static principal *of_token(const identity *i, lks_rpc_slice text, int64_t *ends)
{
    unsigned char digest[DIGEST_BYTES];

    if (text.len == 0)
        return NULL;
    digest_of(text.data, text.len, digest);
    const token *found = find_token(i, digest);
    if (!found)
        return NULL;
    *ends = found->until;
    return found->of;
}

/* Returns the text after "Bearer ", whose case is ignored; empty for another scheme. */
static lks_rpc_slice bearer(lks_rpc_slice authorization)
{
    static const char scheme[] = "Bearer ";
    size_t len = sizeof scheme - 1;

    if (authorization.len <= len || strncasecmp(authorization.data, scheme, len) != 0)
        return (lks_rpc_slice){.data = "", .len = 0};
    return (lks_rpc_slice){.data = authorization.data + len, .len = authorization.len - len};
}

/* *ends: the end of the caller's token, which may be over; 0: no end, or no token. */
static principal *identify(const identity *i, const credentials *c, int64_t *ends)
{
    *ends = 0;
    if (c->authorization.len > 0)
        return of_token(i, bearer(c->authorization), ends);
    if (c->certificate)
        return of_certificate(i, c->certificate);
    return c->uid ? of_uid(i, *c->uid) : NULL;
}

/* Whether the principal may call the method. Every known caller may ask for its own identity. */
static bool may(const principal *p, const lks_rpc_method *method)
{
    const grant *g;

    TAILQ_FOREACH(g, &p->grants, next)
        if ((g->effects & effect_bit(method->effect)) && is_of_service(method->path, g->service))
            return true;
    return strcmp(method->path, "/lockstock.v1.AdminService/WhoAmI") == 0;
}

static bool right_of(const principal *p, size_t n, service_right *ret)
{
    const grant *g;

    TAILQ_FOREACH(g, &p->grants, next)
        if (n-- == 0)
            break;
    if (g)
        *ret = (service_right){.service = g->service,
                               .read = g->effects & effect_bit(LKS_RPC_EFFECT_READ),
                               .write = g->effects & effect_bit(LKS_RPC_EFFECT_WRITE),
                               .admin = g->effects & effect_bit(LKS_RPC_EFFECT_ADMIN)};
    return g != NULL;
}

lks_code identity_admit(const identity *i, const credentials *c, const lks_rpc_method *method, int64_t now,
                        identity_verdict *ret, lks_error *error)
{
    *ret = (identity_verdict){.ns = c->ns};
    if (!i->required)
        return LKS_OK;
    int64_t token_ends;
    principal *p = identify(i, c, &token_ends);
    if (p)
        ret->caller =
            (service_caller){.principal = p->name, .ns = p->ns, .token_ends = token_ends, .of = p, .right = right_of};
    if (!p || (token_ends != 0 && now >= token_ends))
        return lks_error_set(error, LKS_UNAUTHENTICATED, LKS_APPLIED_NO, "the caller is not known");
    bool elsewhere = p->ns && c->ns.len > 0 && !slice_is(c->ns, p->ns);
    if (elsewhere || (method && !may(p, method))) {
        p->refused++;
        return lks_error_set(error, LKS_PERMISSION_DENIED, LKS_APPLIED_NO, "the caller may not do this");
    }
    p->admitted++;
    if (p->ns)
        ret->ns = lks_rpc_slice_of(p->ns);
    return LKS_OK;
}
