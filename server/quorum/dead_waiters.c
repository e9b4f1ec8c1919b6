#include "quorum/dead_waiters.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "functions/arguments.h"
#include "memory.h"
#include "quorum/nodes.h"

enum { TIMEOUT_MS = 5000, WEIGHT = 32 };

/* A call of lock_promote. text: the base, followed by the name. */
typedef struct promotion {
    store_call call;
    lks_rpc_slice name;
    char text[];
} promotion;

static void on_promoted(void *arg, const store_result *result)
{
    (void)result; /* the next sweep tries again */
    free(arg);
}

static void promote(quorum *q, lks_rpc_slice base, lks_rpc_slice name)
{
    promotion *p = memory_alloc(sizeof *p + base.len + name.len + 1);

    memcpy(p->text, base.data, base.len);
    memcpy(p->text + base.len, name.data, name.len);
    p->name = (lks_rpc_slice){p->text + base.len, name.len};
    p->call = (store_call){.base = {p->text, base.len},
                           .function = fn_lock_promote.name,
                           .n_args = 1,
                           .args = &p->name,
                           .weight = WEIGHT,
                           .repeatable = true};
    quorum_submit(q, &p->call, clock_in_ms(TIMEOUT_MS), on_promoted, p);
}

/* Whether one of the fields "@<server>" of the key (functions/lock_names.lua) names a dead server. */
static bool has_dead_server(const quorum *q, const keys *k, lks_rpc_slice key)
{
    const keys_item *field;
    size_t n;

    if (keys_fields(k, key, &field, &n) != KEYS_FOUND)
        return false;
    for (; field; field = keys_next_field(field))
        if (field->name.len > 1 && field->name.data[0] == '@' &&
            !nodes_server_is_alive(q->nodes, (lks_rpc_slice){field->name.data + 1, field->name.len - 1}))
            return true;
    return false;
}

void dead_waiters_skip(quorum *q, const stored_group *s)
{
    static const char prefix[] = "}:lock:s:";

    for (size_t i = 0; i < keys_count(s->keys); i++) {
        const keys_entry *key = keys_at(s->keys, i);
        const char *at = key->type == KEYS_HASH ? memmem(key->name.data, key->name.len, prefix, strlen(prefix)) : NULL;
        if (!at || !has_dead_server(q, s->keys, key->name))
            continue;
        const size_t base_len = (size_t)(at - key->name.data) + strlen("}:"), head = base_len + strlen("lock:s:");
        promote(q, (lks_rpc_slice){key->name.data, base_len},
                (lks_rpc_slice){key->name.data + head, key->name.len - head});
    }
}
