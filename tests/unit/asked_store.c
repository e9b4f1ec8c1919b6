#include "asked_store.h"

/* ---- questions ---------------------------------------------------------------------- */

bool store_part_from(const store *s, uint32_t from, store_part *ret)
{
    ret->slot = (uint16_t)((from + 9) / 10 * 10);
    snprintf(ret->base, sizeof ret->base, "ls:{%u}:", (unsigned)ret->slot);
    return ret->slot < (s->n_parts ? s->n_parts : 1) * 10;
}

void store_submit(store *s, const store_call *call, uint64_t deadline_ns, store_done *done, void *arg)
{
    assert_true(s->n < ASKED_MAX);
    s->asked[s->n++] = (struct asked){call, deadline_ns, done, arg};
    if (s->loop)
        uv_stop(s->loop);
}

const char *asked_next(store *s)
{
    static char text[ASKED_TEXT_BYTES];

    while (s->answered == s->n)
        uv_run(s->loop, UV_RUN_DEFAULT);
    const store_call *call = s->asked[s->answered].call;
    int at = call->whole_shard
                 ? snprintf(text, sizeof text, "%s@%u", call->function, (unsigned)call->slot)
                 : snprintf(text, sizeof text, "%s %.*s", call->function, (int)call->base.len, call->base.data);
    for (size_t i = 0; i < call->n_args; i++)
        at += snprintf(text + at, sizeof text - (size_t)at, " %.*s", (int)call->args[i].len, call->args[i].data);
    return text;
}

void asked_expect(store *s, const char *text)
{
    assert_string_equal(asked_next(s), text);
}

void asked_expect_none(store *s)
{
    uv_run(s->loop, UV_RUN_NOWAIT);
    assert_int_equal(s->n, s->answered);
}

/* ---- replies ------------------------------------------------------------------------ */

enum { VALUES_MAX = 64, LEVELS_MAX = 4 };

static store_value word_of(const char **at)
{
    bool quoted = **at == '\'';
    const char *from = *at + quoted;
    size_t len = strcspn(from, quoted ? "'" : " ]");
    char *after;
    long long number = strtoll(from, &after, 10);

    *at = from + len + quoted;
    if (!quoted && after == from + len)
        return (store_value){.type = STORE_INTEGER, .integer = number};
    if (!quoted && len == 1 && *from == '-')
        return (store_value){.type = STORE_NIL};
    return (store_value){.type = STORE_STRING, .string = {from, len}};
}

/* Up to a ] or the end. The values of an array are adjacent, so nested arrays are built first, elsewhere. */
static store_value array_of(const char **at, store_value values[VALUES_MAX], size_t *used)
{
    store_value own[VALUES_MAX];
    size_t n = 0;

    for (; **at && **at != ']'; *at += strspn(*at, " ")) {
        if (**at != '[') {
            own[n++] = word_of(at);
            continue;
        }
        ++*at;
        own[n++] = array_of(at, values, used);
        ++*at;
    }
    memcpy(&values[*used], own, n * sizeof *own);
    *used += n;
    return (store_value){.type = STORE_ARRAY, .n = n, .element = &values[*used - n]};
}

void asked_answer_with(store *s, size_t i, const store_result *result)
{
    store_done *done = s->asked[i].done;

    assert_non_null(done);
    s->asked[i].done = NULL;
    if (i == s->answered)
        s->answered++;
    done(s->asked[i].arg, result);
}

void asked_answer_at(store *s, size_t i, const char *words)
{
    store_value values[VALUES_MAX];
    size_t used = 0;
    const char *at = words + (*words == '=');
    store_value value = *words == '=' ? word_of(&at) : array_of(&at, values, &used);

    asked_answer_with(s, i,
                      &(store_result){.code = LKS_OK, .applied = LKS_APPLIED_YES, .message = "", .value = &value});
}

void asked_answer(store *s, const char *words)
{
    asked_next(s);
    asked_answer_at(s, s->answered, words);
}

void asked_fail(store *s, lks_code code)
{
    asked_next(s);
    asked_answer_with(s, s->answered,
                      &(store_result){.code = code, .applied = LKS_APPLIED_NO, .message = "it said so"});
}
