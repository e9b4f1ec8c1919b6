/* The guards of a skeleton: each is one object that contains its parts and paths. */
#include "emit.h"

#include <string.h>

void emit_string(FILE *out, const char *text)
{
    fputc('"', out);
    for (const char *c = text; *c != '\0'; c++)
        if (strchr("\"\\?", *c))
            fprintf(out, "\\%c", *c);
        else if (*c >= ' ' && *c <= '~')
            fputc(*c, out);
        else
            fprintf(out, "\\%03o", (unsigned char)*c);
    fputc('"', out);
}

static void emit_text(FILE *out, const char *indent, const char *member, const char *text)
{
    fprintf(out, "%s.%s = ", indent, member);
    emit_string(out, text);
    fputs(",\n", out);
}

static void emit_paths(FILE *out, const char *member, size_t n, char *const *paths)
{
    fprintf(out, "        .%s = (const char *const[]){", member);
    for (size_t i = 0; i < n; i++)
        fprintf(out, "\"%s\", ", paths[i]);
    fputs("NULL},\n", out);
}

static void emit_number(FILE *out, const char *member, int64_t number)
{
    fprintf(out, "        .%s = %lld,\n", member, (long long)number);
}

static void emit_word(FILE *out, const char *member, const char *word)
{
    fprintf(out, "        .%s = %s,\n", member, word);
}

static void emit_rate_limit(FILE *out, const gen_guard *guard, const Lockstock__Rpc__V1__RateLimitGuard *limit)
{
    fputs("    .rate_limit = &(const lks_rpc_guard_limit){\n", out);
    emit_paths(out, "key", limit->n_key, limit->key);
    emit_text(out, "        ", "name", limit->name);
    emit_text(out, "        ", "group", limit->group);
    emit_text(out, "        ", "policy", limit->policy);
    emit_number(out, "limit", limit->limit);
    emit_number(out, "period_ms", limit->period_ms);
    emit_number(out, "burst", limit->burst);
    emit_number(out, "algorithm", limit->algorithm);
    emit_word(out, "fail_open", limit->fail_open ? "true" : "false");
    emit_word(out, "denied", guard->denied);
    fputs("    },\n", out);
}

static void emit_idempotency(FILE *out, const gen_guard *guard, const Lockstock__Rpc__V1__IdempotencyGuard *idempotency)
{
    fputs("    .idempotency = &(const lks_rpc_guard_idempotency){\n", out);
    emit_text(out, "        ", "scope", idempotency->scope);
    emit_paths(out, "key", idempotency->n_key, idempotency->key);
    emit_text(out, "        ", "group", idempotency->group);
    emit_number(out, "lease_ms", idempotency->lease_ms);
    emit_number(out, "retain_ms", idempotency->retain_ms);
    emit_number(out, "wait_ms", idempotency->wait_ms);
    emit_word(out, "key_alone", idempotency->key_alone ? "true" : "false");
    emit_word(out, "in_progress", guard->in_progress);
    emit_word(out, "mismatch", guard->mismatch);
    fputs("    },\n", out);
}

static void emit_lock(FILE *out, const gen_guard *guard, const Lockstock__Rpc__V1__LockGuard *lock)
{
    fputs("    .lock = &(const lks_rpc_guard_lock){\n", out);
    emit_text(out, "        ", "prefix", lock->prefix);
    emit_paths(out, "keys", lock->n_keys, lock->keys);
    emit_text(out, "        ", "group", lock->group);
    emit_number(out, "wait_ms", lock->wait_ms);
    emit_number(out, "lease_ms", lock->lease_ms);
    emit_word(out, "busy", guard->busy);
    fputs("    },\n", out);
}

void emit_guard(FILE *out, const gen_guard *guard)
{
    const Lockstock__Rpc__V1__Guard *option = guard->option;
    fprintf(out, "\nstatic const lks_rpc_guard %s = {\n", guard->name);
    if (option->rate_limit)
        emit_rate_limit(out, guard, option->rate_limit);
    if (option->idempotency)
        emit_idempotency(out, guard, option->idempotency);
    if (option->lock)
        emit_lock(out, guard, option->lock);
    emit_text(out, "    ", "group", option->group);
    emit_text(out, "    ", "outcome", option->outcome);
    emit_text(out, "    ", "retry_after", option->retry_after);
    fputs("};\n", out);
}
