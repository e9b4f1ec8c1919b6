/* Invariant: the log has a line for each change; if calls can then be served, the line `ready` is the last one. Called
 * by server.c, and read by services/admin.c. */
#include "conditions.h"

#include <stdio.h>
#include <string.h>

#include <lockstock/version.h>

#include "base/clock.h"
#include "commit.h"
#include "log.h"

/* The events of conditions that do not block calls, and of their ends. A blocking condition is logged as "not-ready",
 * and its end as "ready". */
static const struct kind {
    const char *about, *event, *over;
} kinds[CONDITIONS] = {
    [CONDITION_STORE] = {"store", "store-degraded", NULL},
    [CONDITION_LOCK_STORE] = {"lock-store", "lock-store-degraded", "lock-store-ready"},
    [CONDITION_CERTIFICATE] = {"certificate", "certificate-ends", "certificate-good"},
    [CONDITION_SERVERS] = {"servers", "servers-differ", "servers-agree"},
    [CONDITION_DATA] = {"data", "store-lost-data", NULL},
};

void conditions_init(conditions *c)
{
    *c = (conditions){.ready = false};
    for (size_t i = 0; i < CONDITIONS; i++)
        c->of[i].about = kinds[i].about;
    c->of[CONDITION_STORE].blocks = true;
    conditions_expect(c, CONDITION_STORE, "connecting");
}

void conditions_expect(conditions *c, condition_about about, const char *text)
{
    snprintf(c->of[about].text, sizeof c->of[about].text, "%s", text);
}

bool conditions_ready(const conditions *c, const char **reason)
{
    const condition *first = NULL;

    for (size_t i = 0; i < CONDITIONS; i++)
        if (c->of[i].text[0] && (!first || (c->of[i].blocks && !first->blocks)))
            first = &c->of[i];
    if (reason)
        *reason = first ? first->text : NULL;
    return !first || !first->blocks;
}

static void log_change(condition_about about, const condition *now)
{
    const struct kind *kind = &kinds[about];

    const char *word = lks_reason_name(now->reason);

    if (now->text[0])
        log_warn(now->blocks ? "not-ready" : kind->event, "reason=\"%s\"%s%s", now->text, *word ? " reason_word=" : "",
                 word);
    else if (kind->over)
        log_info(kind->over, "%s", "");
}

bool conditions_set(conditions *c, condition_about about, bool blocks, lks_reason reason, const char *text)
{
    condition *now = &c->of[about];

    text = text ? text : "";
    if (strcmp(now->text, text) == 0 && now->blocks == blocks)
        return false;
    if (!now->text[0] || !text[0])
        now->since_ms = clock_unix_ms();
    now->blocks = blocks;
    now->reason = reason;
    snprintf(now->text, sizeof now->text, "%s", text);
    log_change(about, now);
    bool was_ready = c->ready;
    c->ready = conditions_ready(c, NULL);
    if (c->ready && (!was_ready || (about == CONDITION_STORE && !now->text[0])))
        log_info("ready", "version=%s commit=%s", LOCKSTOCK_VERSION, LOCKSTOCK_COMMIT);
    return true;
}

bool conditions_look(const conditions *c, size_t i, condition *ret)
{
    for (size_t k = 0; k < CONDITIONS; k++)
        if (c->of[k].text[0] && i-- == 0) {
            *ret = c->of[k];
            return true;
        }
    return false;
}
