#include "store_scene.h"
#include "test.h"

scene here;

fake_redis *scene_fake(void)
{
    size_t i = 0;

    while (here.fakes[i])
        assert_in_range(++i, 0, SCENE_FAKES_MAX - 1);
    return here.fakes[i] = fake_redis_start(store_driver_loop(here.d));
}

void scene_stop(fake_redis *fake)
{
    for (size_t i = 0; i < SCENE_FAKES_MAX; i++)
        if (here.fakes[i] == fake)
            here.fakes[i] = NULL;
    fake_redis_stop(fake);
}

void scene_begin(void)
{
    scene_end(NULL);
    here = (scene){.d = store_driver_new()};
    here.fake = scene_fake();
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
    here.listening_while_unready |= !store_driver_ready(here.d, NULL);
}

store_options scene_listens(store_options options)
{
    options.wake_channel = SCENE_CHANNEL;
    options.on_wake = on_wake;
    options.on_listening = on_listening;
    return options;
}

void scene_open(const store_options *options)
{
    store_options full = *options;

    if (!full.url)
        full.url = fake_redis_url(here.fake);
    assert_int_equal(store_driver_open(here.d, &full, NULL), LKS_OK);
}

void scene_open_url(const store_options *options, const char *credentials, const char *suffix)
{
    store_options full = *options;
    char url[256];

    snprintf(url, sizeof url, "unix://%s%s%s", credentials, fake_redis_url(here.fake) + strlen("unix://"), suffix);
    full.url = url;
    scene_open(&full);
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
    start_with(&(store_options){0}, NULL);
    return 0;
}

int scene_end(void **state)
{
    if (!here.d)
        return 0;
    store_driver_close_store(here.d);
    for (size_t i = 0; i < SCENE_FAKES_MAX; i++)
        fake_redis_stop(here.fakes[i]);
    store_driver_free(here.d);
    here.d = NULL;
    assert_false(here.listening_while_unready);
    assert_false(here.disorder);
    return 0;
}

void scene_restart_with(const store_options *options)
{
    start_with(options, NULL);
}

void scene_restart_on_cluster(void)
{
    start_with(&(store_options){0}, SCENE_CLUSTER);
}

void scene_answer(const char *words, const char *reply)
{
    fake_redis_answer(here.fake, words, reply);
}

unsigned scene_seen(const char *words)
{
    return fake_redis_seen(here.fake, words);
}

void scene_reply(const char *reply, unsigned times)
{
    while (times-- > 0)
        fake_redis_next(here.fake, "FCALL", reply);
}

void scene_assert_last(const char *command)
{
    const char *log = fake_redis_log(here.fake);
    size_t len = strlen(command), n = strlen(log);

    if (n <= len || strncmp(log + n - len - 1, command, len) != 0)
        fail_msg("\"%s\" is not the last of:\n%s", command, log);
}

/* ---- waiting --------------------------------------------------------------------- */

static struct {
    const fake_redis *fake;
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
    return fake_redis_seen(wanted.fake, wanted.text) >= wanted.times;
}

static bool has_connections(void *arg)
{
    return fake_redis_connections(here.fake) >= wanted.times;
}

static bool has_reason(void *arg)
{
    return strstr(store_driver_reason(here.d), wanted.text);
}

static bool is_fatal(void *arg)
{
    const char *fatal = store_fatal(store_driver_store(here.d));

    return fatal && strstr(fatal, wanted.text);
}

static bool is_listening(void *arg)
{
    return here.listening >= wanted.times;
}

static bool has_messages(void *arg)
{
    return here.messages >= wanted.times;
}

void scene_until_seen_at(const fake_redis *fake, const char *words, unsigned times)
{
    wanted.fake = fake;
    until(has_seen, words, times);
}

void scene_until_seen(const char *words, unsigned times)
{
    scene_until_seen_at(here.fake, words, times);
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

outcome *scene_submit(void)
{
    return store_driver_submit(here.d, &(driver_call){.function = "echo"});
}

outcome *scene_echo(void)
{
    return store_driver_call(here.d, &(driver_call){.function = "echo"});
}
