/* Checks the guard of a method, so that the generator finds errors, not the first call. */
#include <string.h>

#include "build.h"
#include "paths.h"

typedef Lockstock__Rpc__V1__Guard guard_option;

/* The limits of the server: server/services/ratelimit_limits.c, lock.c, idempotency.c. */
#define LIMIT_MAX 1000000000000LL
#define PERIOD_MS_MAX 31622400000LL /* 366 days */
#define RETAIN_MS_MAX 2592000000LL  /* 30 days */
enum {
    LOG_LIMIT_MAX = 100000,
    LEASE_MS_MIN = 10,
    LEASE_MS_MAX = 86400000,
    RETAIN_MS_MIN = 1000,
    WAIT_MS_MAX = 86400000,
    NAME_BYTES_MAX = 128,
    PREFIX_BYTES_MAX = NAME_BYTES_MAX - 2, /* followed by a colon and at least a byte */
    KEY_GROUP_BYTES_MAX = 255 - 2,         /* followed by the key of a call */
    LOCKS_MAX = 16,
};

/* The guard that is being checked. */
typedef struct place {
    gen_model *model;
    const gen_method *method;
    const guard_option *option;
    const gen_enum *outcomes; /* the enum of the field `outcome`; NULL: none */
} place;

#define WRONG(of, ...) model_error((of)->model, (of)->method->at, "guard" __VA_ARGS__)

static void check_range(const place *at, const char *field, int64_t value, int64_t min, int64_t max)
{
    if (value < min || value > max)
        WRONG(at, ".%s: must be %lld to %lld", field, (long long)min, (long long)max);
}

/* Allows 0, the default. */
static void check_range_or_0(const place *at, const char *field, int64_t value, int64_t min, int64_t max)
{
    if (value != 0 && (value < min || value > max))
        WRONG(at, ".%s: must be 0, or %lld to %lld", field, (long long)min, (long long)max);
}

static void check_length(const place *at, const char *field, const char *text, size_t min, size_t max)
{
    size_t len = strlen(text);
    if (len < min || len > max)
        WRONG(at, ".%s: must be %zu to %zu bytes long", field, min, max);
}

/* Returns whether the path can give several values. */
static bool check_path(const place *at, const char *field, const char *name)
{
    gen_path path;
    const char *problem = paths_follow(at->model, at->method->request, name, &path);
    if (problem) {
        WRONG(at, ".%s \"%s\": %s", field, name, problem);
    } else if (path.oneof) {
        WRONG(at, ".%s \"%s\": %s is a member of a oneof", field, name, path.oneof);
    } else if (!paths_is_key(path.field)) {
        WRONG(at, ".%s \"%s\": %s.%s is not a string, bytes, integer or enum", field, name, path.message->full_name,
              path.field->name);
    }
    return path.repeated;
}

/* Returns whether the paths can give several values. */
static bool check_paths(const place *at, const char *field, size_t n, char *const *names)
{
    bool several = n > 1;
    if (n == 0)
        WRONG(at, ".%s: must name a field", field);
    for (size_t i = 0; i < n; i++) {
        several |= check_path(at, field, names[i]);
        for (size_t j = 0; j < i; j++) {
            if (strcmp(names[i], names[j]) == 0) {
                WRONG(at, ".%s \"%s\": given more than once", field, names[i]);
                break;
            }
        }
    }
    return several;
}

/* Returns a value of the outcome's enum by its name, in protoc-c's spelling; "0" if there is none. */
static const char *find_value(const place *at, const char *field, const char *name)
{
    if (*name != '\0' && *at->option->outcome == '\0')
        WRONG(at, ".%s \"%s\": guard.outcome is not set", field, name);
    if (*name == '\0' || !at->outcomes)
        return "0";
    for (size_t i = 0; i < at->outcomes->n_values; i++) {
        if (strcmp(at->outcomes->proto->value[i]->name, name) != 0)
            continue;
        if (at->outcomes->proto->value[i]->number == 0)
            WRONG(at, ".%s \"%s\": its number is 0, as in a response without an outcome", field, name);
        return at->outcomes->values[i].pb_name;
    }
    WRONG(at, ".%s \"%s\": %s has no such value", field, name, at->outcomes->full_name);
    return "0";
}

/* Returns a field of the response with a type, or NULL after reporting an error. */
static const gen_field *find_response_field(const place *at, const char *field, const char *name,
                                            Google__Protobuf__FieldDescriptorProto__Type type, const char *kind)
{
    const gen_message *response = at->method->response;
    const gen_field *found = paths_field(response, name);
    if (found && found->type == type && !paths_is_repeated(found) && !found->has_oneof_index)
        return found;
    WRONG(at, ".%s \"%s\": is not one %s field of %s, outside of a oneof", field, name, kind, response->full_name);
    return NULL;
}

static void check_outcome(place *at, gen_guard *made)
{
    const guard_option *option = at->option;
    if (*option->outcome != '\0') {
        const gen_field *field = find_response_field(at, "outcome", option->outcome,
                                                     GOOGLE__PROTOBUF__FIELD_DESCRIPTOR_PROTO__TYPE__TYPE_ENUM, "enum");
        at->outcomes = field ? model_find_enum(at->model, field->type_name) : NULL;
        if (field && !at->outcomes)
            model_error(at->model, at->method->at, "the type %s is in no file that protoc sent", field->type_name);
    }
    const char *denied = option->rate_limit ? option->rate_limit->denied : "";
    const char *in_progress = option->idempotency ? option->idempotency->in_progress : "";
    const char *mismatch = option->idempotency ? option->idempotency->mismatch : "";
    const char *busy = option->lock ? option->lock->busy : "";
    made->denied = find_value(at, "rate_limit.denied", denied);
    made->in_progress = find_value(at, "idempotency.in_progress", in_progress);
    made->mismatch = find_value(at, "idempotency.mismatch", mismatch);
    made->busy = find_value(at, "lock.busy", busy);
    if (*option->outcome != '\0' && *denied == '\0' && *in_progress == '\0' && *mismatch == '\0' && *busy == '\0')
        WRONG(at, ".outcome \"%s\": no guard names a value of it", option->outcome);
    if (*option->retry_after == '\0')
        return;
    if (*option->outcome == '\0')
        WRONG(at, ".retry_after \"%s\": guard.outcome is not set", option->retry_after);
    find_response_field(at, "retry_after", option->retry_after,
                        GOOGLE__PROTOBUF__FIELD_DESCRIPTOR_PROTO__TYPE__TYPE_INT64, "int64");
}

static void check_algorithm(const place *at, const Lockstock__Rpc__V1__RateLimitGuard *limit)
{
    bool bucket = limit->algorithm == LOCKSTOCK__RPC__V1__LIMIT_ALGORITHM__LIMIT_ALGORITHM_TOKEN_BUCKET;

    if (*limit->policy != '\0' && limit->algorithm != 0)
        WRONG(at, ".rate_limit.algorithm: must not be set with a policy");
    if (*limit->policy == '\0' && limit->algorithm == LOCKSTOCK__RPC__V1__LIMIT_ALGORITHM__LIMIT_ALGORITHM_SLIDING_LOG)
        check_range(at, "rate_limit.limit", limit->limit, 1, LOG_LIMIT_MAX);
    if (bucket)
        check_range(at, "rate_limit.burst", limit->burst, 0, LIMIT_MAX);
    else if (limit->burst != 0)
        WRONG(at, ".rate_limit.burst: only for LIMIT_ALGORITHM_TOKEN_BUCKET");
}

static void check_rate_limit(const place *at, const Lockstock__Rpc__V1__RateLimitGuard *limit)
{
    check_paths(at, "rate_limit.key", limit->n_key, limit->key);
    check_length(at, "rate_limit.group", limit->group, 0, NAME_BYTES_MAX);
    check_length(at, "rate_limit.name", limit->name, 0, PREFIX_BYTES_MAX);
    if (strchr(limit->name, ':'))
        WRONG(at, ".rate_limit.name: must have no colon");
    if (*limit->name == '\0' && strlen(at->method->path) > PREFIX_BYTES_MAX)
        WRONG(at, ".rate_limit.name: must be set, because the method's path has more than %d bytes", PREFIX_BYTES_MAX);
    check_algorithm(at, limit);
    check_length(at, "rate_limit.policy", limit->policy, 0, NAME_BYTES_MAX);
    if (*limit->policy == '\0' && limit->limit == 0 && limit->period_ms == 0) {
        WRONG(at, ".rate_limit: must have limit and period_ms, or a policy");
    } else if (*limit->policy == '\0') {
        check_range(at, "rate_limit.limit", limit->limit, 1, LIMIT_MAX);
        check_range(at, "rate_limit.period_ms", limit->period_ms, 1, PERIOD_MS_MAX);
    } else if (limit->limit != 0 || limit->period_ms != 0) {
        WRONG(at, ".rate_limit.policy: must not be set with limit and period_ms");
    }
}

static void check_idempotency(const place *at, const Lockstock__Rpc__V1__IdempotencyGuard *idempotency)
{
    check_length(at, "idempotency.scope", idempotency->scope, 1, NAME_BYTES_MAX);
    check_paths(at, "idempotency.key", idempotency->n_key, idempotency->key);
    check_length(at, "idempotency.group", idempotency->group, 0, KEY_GROUP_BYTES_MAX);
    check_range_or_0(at, "idempotency.lease_ms", idempotency->lease_ms, LEASE_MS_MIN, LEASE_MS_MAX);
    check_range_or_0(at, "idempotency.retain_ms", idempotency->retain_ms, RETAIN_MS_MIN, RETAIN_MS_MAX);
    check_range(at, "idempotency.wait_ms", idempotency->wait_ms, 0, WAIT_MS_MAX);
}

static void check_lock(const place *at, const Lockstock__Rpc__V1__LockGuard *lock)
{
    bool several = check_paths(at, "lock.keys", lock->n_keys, lock->keys);
    if (lock->n_keys > LOCKS_MAX)
        WRONG(at, ".lock.keys: names more than %d locks", LOCKS_MAX);
    if (several && *lock->group == '\0' && *at->option->group == '\0')
        WRONG(at, ".lock.group: must be set, because keys may give several locks");
    check_length(at, "lock.prefix", lock->prefix, 0, PREFIX_BYTES_MAX);
    check_length(at, "lock.group", lock->group, 0, NAME_BYTES_MAX);
    check_range_or_0(at, "lock.lease_ms", lock->lease_ms, LEASE_MS_MIN, LEASE_MS_MAX);
    check_range(at, "lock.wait_ms", lock->wait_ms, 0, WAIT_MS_MAX);
}

void guards_build(gen_model *model, gen_method *method, const guard_option *option)
{
    place at = {.model = model, .method = method, .option = option};
    gen_guard *made = pool_alloc(model->pool, 1, sizeof *made);
    *made = (gen_guard){
        .name =
            names_add(&model->names, model->pool, pool_format(model->pool, "%s_guard", method->stub), method->at, true),
        .option = option,
    };
    method->guard = made;
    if (!option->rate_limit && !option->idempotency && !option->lock)
        WRONG(&at, ": must have rate_limit, idempotency or lock");
    check_length(&at, "group", option->group, 0, NAME_BYTES_MAX);
    if (option->rate_limit)
        check_rate_limit(&at, option->rate_limit);
    if (option->idempotency)
        check_idempotency(&at, option->idempotency);
    if (option->lock)
        check_lock(&at, option->lock);
    check_outcome(&at, made);
}
