#include "store_scene.h"
#include "test.h"

scene here;

static const char *play(void *arg, size_t argc, const char *const *argv)
{
    scene *s = arg;
    size_t used = 0;

    if (strcmp(argv[0], "FCALL") != 0)
        return fake_usual;
    if (s->seen < SCENE_SEEN_MAX)
        s->sub_calls[s->seen++] = fake_redis_sub_calls(argc, argv);
    for (size_t i = 0; i < argc && used < sizeof s->words; i++)
        used += (size_t)snprintf(s->words + used, sizeof s->words - used, "%s ", argv[i]);
    const char *answer = s->next < SCENE_SCRIPT_MAX ? s->script[s->next++] : NULL;
    return answer ? answer : fake_usual;
}

void scene_begin(void)
{
    here = (scene){.d = store_driver_new()};
    here.fake = fake_redis_start(store_driver_loop(here.d), play, &here);
}

static void on_wake(void *arg, const char *data, size_t len)
{
    long before = strtol(here.last, NULL, 10);

    assert_ptr_equal(arg, here.d);
    snprintf(here.last, sizeof here.last, "%.*s", len < sizeof here.last ? (int)len : (int)sizeof here.last - 1, data);
    here.disorder |= strtol(here.last, NULL, 10) > 0 && strtol(here.last, NULL, 10) != before + 1;
    here.last_len = len;
    here.messages++;
}

static void on_listening(void *arg)
{
    assert_ptr_equal(arg, here.d);
    here.listening++;
    here.listening_while_unready |= !store_ready(store_driver_store(here.d), NULL);
}

store_options scene_listens(store_options options)
{
    options.wake_channel = SCENE_CHANNEL;
    options.on_wake = on_wake;
    options.on_listening = on_listening;
    return options;
}

void scene_open_url(const store_options *options, const char *credentials, const char *suffix)
{
    store_options full = *options;
    char url[256];

    snprintf(url, sizeof url, "unix://%s%s%s", credentials, fake_redis_url(here.fake) + strlen("unix://"), suffix);
    full.url = url;
    assert_int_equal(store_driver_open(here.d, &full, NULL), LKS_OK);
}

void scene_open(const store_options *options)
{
    scene_open_url(options, "", "");
}

static void start_with(const store_options *options, const char *hello)
{
    scene_begin();
    scene_answer("HELLO", hello);
    scene_open(options);
    store_driver_wait_ready(here.d, true);
    scene_until_seen(SCENE_LIBRARIES, 1);
}

int scene_start(void **state)
{
    (void)state;
    start_with(&(store_options){0}, NULL);
    return 0;
}

int scene_end(void **state)
{
    (void)state;
    if (!here.d)
        return 0;
    store_driver_close_store(here.d);
    fake_redis_stop(here.fake);
    store_driver_free(here.d);
    here.d = NULL;
    assert_false(here.listening_while_unready);
    assert_false(here.disorder);
    return 0;
}

void scene_restart_with(const store_options *options)
{
    scene_end(NULL);
    start_with(options, NULL);
}

void scene_restart_on_cluster(void)
{
    scene_end(NULL);
    start_with(&(store_options){0}, SCENE_CLUSTER);
}

void scene_answer(const char *words, const char *reply)
{
    fake_redis_answer(here.fake, words, reply);
}

/* ---- waiting --------------------------------------------------------------------- */

static struct {
    const char *text;
    unsigned times;
} wanted;

static void until(bool (*condition)(void *arg), const char *text, unsigned times)
{
    wanted.text = text;
    wanted.times = times;
    store_driver_until(here.d, condition, NULL);
}

static bool has_seen(void *arg)
{
    (void)arg;
    return fake_redis_seen(here.fake, wanted.text) >= wanted.times;
}

static bool has_connections(void *arg)
{
    (void)arg;
    return fake_redis_connections(here.fake) >= wanted.times;
}

static bool has_reason(void *arg)
{
    (void)arg;
    return strstr(store_driver_reason(here.d), wanted.text);
}

static bool is_fatal(void *arg)
{
    const char *fatal = store_fatal(store_driver_store(here.d));
    (void)arg;

    return fatal && strstr(fatal, wanted.text);
}

static bool is_listening(void *arg)
{
    (void)arg;
    return here.listening >= wanted.times;
}

static bool has_messages(void *arg)
{
    (void)arg;
    return here.messages >= wanted.times;
}

void scene_until_seen(const char *words, unsigned times)
{
    until(has_seen, words, times);
}

void scene_until_connections(unsigned times)
{
    until(has_connections, NULL, times);
}

void scene_until_reason(const char *text)
{
    until(has_reason, text, 0);
}

void scene_until_fatal(const char *text)
{
    until(is_fatal, text, 0);
}

void scene_until_listening(unsigned times)
{
    until(is_listening, NULL, times);
}

void scene_until_messages(unsigned times)
{
    until(has_messages, NULL, times);
}

void scene_call_all(const driver_call *calls, size_t n, outcome **ret)
{
    for (size_t i = 0; i < n; i++)
        ret[i] = store_driver_submit(here.d, &calls[i]);
    for (size_t i = 0; i < n; i++) {
        store_driver_wait(here.d, ret[i]);
        assert_outcome(ret[i], LKS_OK, LKS_APPLIED_YES);
    }
}

bool scene_saw_a_call(void *arg)
{
    return ((scene *)arg)->seen > 0;
}

bool scene_reconnected(void *arg)
{
    return fake_redis_connections(((scene *)arg)->fake) >= 2;
}
