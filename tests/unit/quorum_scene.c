#include "quorum_scene.h"

#include "base/clock.h"
#include "digest.h"
#include "functions/library.h"
#include "memory.h"
#include "quorum/sweep_groups.h"

enum { CALLS_MAX = 1024, SERVERS_MAX = 4 };

uv_loop_t loop;
server a, b;
static uint64_t now_ns;
static call *calls[CALLS_MAX];
static size_t n_calls;
static server *open_servers[SERVERS_MAX];
static stored_group read_group;

uint64_t __wrap_clock_now_ns(void);
uint64_t __wrap_clock_now_ns(void)
{
    return now_ns;
}

int scene_setup(void **state)
{
    now_ns = CLOCK_NS_PER_S;
    n_calls = 0;
    stored_init(&read_group);
    fake_begin();
    return uv_loop_init(&loop);
}

int scene_teardown(void **state)
{
    for (size_t i = 0; i < SERVERS_MAX; i++)
        if (open_servers[i])
            server_close(open_servers[i]);
    while (n_calls > 0)
        call_free(calls[0]);
    stored_free(&read_group);
    fake_end();
    return uv_loop_close(&loop);
}

int scene_setup_a(void **state)
{
    const int failed = scene_setup(state);

    server_open(&a, "a", true);
    return failed;
}

/* ---- servers --------------------------------------------------------------------------- */

static void on_ready(void *arg, bool ready, store_fault fault)
{
    server *s = arg;

    s->ready = ready;
    snprintf(s->fault, sizeof s->fault, "%s", fault.text ? fault.text : "");
}

static void on_wake(void *arg, const char *data, size_t len)
{
    server *s = arg;
    const size_t at = strlen(s->heard);

    snprintf(s->heard + at, sizeof s->heard - at, "%.*s\n", (int)len, data);
}

static void on_listening(void *arg)
{
    server *s = arg;

    s->listened++;
}

void server_open(server *s, const char *id, bool up)
{
    *s = (server){.id = id};
    const quorum_options options = {.loop = &loop,
                                    .url = "zookeeper://zk1/lockstock",
                                    .url_from = "--lock-store",
                                    .server = id,
                                    .library_text = functions_text,
                                    .library_len = functions_len,
                                    .library_digest = functions_digest,
                                    .sweep_ms = SCENE_SWEEP_MS,
                                    .on_ready = on_ready,
                                    .on_wake = on_wake,
                                    .on_listening = on_listening,
                                    .arg = s};
    size_t at = 0;

    assert_int_equal(quorum_open(&options, &s->q, NULL), LKS_OK);
    s->z = fake_last();
    while (open_servers[at])
        at++;
    open_servers[at] = s;
    if (!up)
        return;
    fake_up(s->z, true);
    settle_all(s);
    assert_true(s->ready);
    s->listened = 0;
}

static void on_closed(void *arg)
{
    *(bool *)arg = true;
}

void server_close(server *s)
{
    bool closed = false;

    for (size_t i = 0; i < SERVERS_MAX; i++)
        open_servers[i] = open_servers[i] == s ? NULL : open_servers[i];
    quorum_close(s->q, on_closed, &closed);
    while (!closed)
        uv_run(&loop, UV_RUN_ONCE);
}

void server_sweep(server *s)
{
    group_sweep_begin(s->q->sweep);
}

/* ---- calls ----------------------------------------------------------------------------- */

static void write_value(char *text, size_t room, const store_value *v)
{
    const size_t at = strlen(text);

    if (v->type == STORE_INTEGER)
        snprintf(text + at, room - at, "%lld", (long long)v->integer);
    else if (v->type != STORE_ARRAY)
        snprintf(text + at, room - at, "%.*s", (int)v->string.len, v->string.data);
    for (size_t i = 0; v->type == STORE_ARRAY && i < v->n; i++) {
        if (i > 0 && strlen(text) + 1 < room)
            strcat(text, " ");
        write_value(text, room, &v->element[i]);
    }
}

static void on_done(void *arg, const store_result *result)
{
    call *c = arg;

    c->answers++;
    c->code = result->code;
    c->applied = result->applied;
    c->text[0] = '\0';
    if (result->code == LKS_OK)
        write_value(c->text, sizeof c->text, result->value);
    else
        snprintf(c->text, sizeof c->text, "%s", result->message);
}

call *ask(server *s, const char *words)
{
    call *c = memory_alloc(sizeof *c);
    char base[64], *rest;

    c->words = memory_copy(words, strlen(words));
    c->of = (store_call){.function = strtok_r(c->words, " ", &rest), .args = c->args, .max_args = CALL_WORDS};
    snprintf(base, sizeof base, "ls:{ns/%s}:", strtok_r(NULL, " ", &rest));
    c->of.base = (lks_rpc_slice){memory_copy(base, strlen(base)), strlen(base)};
    for (char *word; (word = strtok_r(NULL, " ", &rest));)
        c->args[c->of.n_args++] = lks_rpc_slice_of(strcmp(word, "''") == 0 ? "" : word);
    assert_true(n_calls < CALLS_MAX);
    calls[n_calls++] = c;
    quorum_submit(s->q, &c->of, clock_in_ms(CALL_MS), on_done, c);
    return c;
}

/* The arguments of the store call are freed; the answer stays. */
void call_free(call *c)
{
    free(c->words);
    free((char *)c->of.base.data);
    for (size_t i = 0; i < n_calls; i++)
        if (calls[i] == c)
            calls[i] = calls[--n_calls];
    free(c);
}

call *acquire(server *s, const char *in, const char *token, const char *name)
{
    char words[128];

    snprintf(words, sizeof words, "lock_acquire %s %s o %d 0 - %s", in, token, LEASE_MS, name);
    return ask(s, words);
}

call *park(server *s, const char *in, const char *token, const char *name)
{
    char words[128];

    snprintf(words, sizeof words, "lock_acquire %s %s o %d 60000 %s.1.%d %s", in, token, LEASE_MS, s->id, LEASE_MS,
             name);
    return ask(s, words);
}

call *release(server *s, const char *in, const char *token)
{
    char words[128];

    snprintf(words, sizeof words, "lock_release %s %s %s ''", in, token, s->id);
    return ask(s, words);
}

bool is_granted(const call *c)
{
    return c->answers == 1 && c->code == LKS_OK && c->text[0] >= '1' && c->text[0] <= '9';
}

/* ---- steps ----------------------------------------------------------------------------- */

void expects(server *s, const char *text)
{
    uv_run(&loop, UV_RUN_NOWAIT);
    assert_string_equal(fake_next(s->z), text);
}

void answers(server *s, const char *text)
{
    expects(s, text);
    fake_answer(s->z);
}

void settle_all(server *s)
{
    uv_run(&loop, UV_RUN_NOWAIT);
    while (fake_waiting(s->z) > 0) {
        fake_answer(s->z);
        uv_run(&loop, UV_RUN_NOWAIT);
    }
}

void pass_ms(server *s, uint64_t ms)
{
    now_ns += ms * CLOCK_NS_PER_MS;
    heap_run(&s->q->timers.heap);
}

call *done(server *s, call *c)
{
    settle_all(s);
    assert_int_equal(c->answers, 1);
    return c;
}

void open_both(void)
{
    server_open(&b, "b", true);
    settle_all(&a);
}

const char *path_of_group(const char *in)
{
    static char path[128];
    char inner[64], hex[DIGEST_HEX_LEN + 1];

    snprintf(inner, sizeof inner, "ns/%s", in);
    digest_hex(inner, strlen(inner), hex);
    snprintf(path, sizeof path, NODES_GROUPS "/%.2s/ns%%2F%s", hex, in);
    return path;
}

stored_group *group_in_node(const char *in)
{
    const fake_node *node = fake_find(path_of_group(in));

    assert_true(stored_unpack(&read_group, node->data, node->len));
    return &read_group;
}

void write_group(const char *in, const stored_group *s)
{
    lks_rpc_arena *arena = lks_rpc_arena_new();

    fake_write(path_of_group(in), stored_pack(s, arena));
    lks_rpc_arena_free(arena);
}
