/* The fake plays the script; what that leaves alone goes as usual. */
#include "store_scene.h"
#include "test.h"

scene here;

static void note_call(scene *s, size_t argc, const char *const *argv)
{
    size_t used = 0;

    if (s->seen < SCENE_SEEN_MAX)
        s->sub_calls[s->seen++] = fake_redis_sub_calls(argc, argv);
    for (size_t i = 0; i < argc && used < sizeof s->words; i++)
        used += (size_t)snprintf(s->words + used, sizeof s->words - used, "%s ", argv[i]);
}

static const char *or_usual(const char *answer)
{
    return answer ? answer : fake_usual;
}

static const char *play(void *arg, size_t argc, const char *const *argv)
{
    scene *s = arg;

    if (strcmp(argv[0], "FCALL") == 0) {
        note_call(s, argc, argv);
        return or_usual(s->next < SCENE_SCRIPT_MAX ? s->script[s->next++] : NULL);
    }
    if (strcmp(argv[0], "FUNCTION") == 0 && strcmp(argv[1], "LOAD") == 0)
        s->loads++;
    if (strcmp(argv[0], "FUNCTION") == 0 && argc == 5)
        return or_usual(s->list);
    if (strcmp(argv[0], "FUNCTION") == 0 && argc == 4) {
        s->kept_library = true;
        return or_usual(s->libraries);
    }
    if (strcmp(argv[0], "HGET") == 0) {
        s->looked_up = true;
        return or_usual(s->last_use);
    }
    if (strcmp(argv[0], "FUNCTION") == 0 && strcmp(argv[1], "DELETE") == 0)
        s->deleted_library = true;
    if (strcmp(argv[0], "GET") == 0)
        return or_usual(s->get);
    if (strcmp(argv[0], "TIME") == 0) {
        s->told_time = s->time;
        return or_usual(s->time);
    }
    if (strcmp(argv[0], "HELLO") == 0)
        return or_usual(s->hello);
    return strcmp(argv[0], "PING") == 0 ? or_usual(s->ping) : fake_usual;
}

static bool has_kept_library(void *arg)
{
    return ((scene *)arg)->kept_library;
}

static void start_with(scene *s, const store_options *options, const char *hello)
{
    store_options full = *options;

    *s = (scene){.d = store_driver_new(), .hello = hello};
    s->fake = fake_redis_start(store_driver_loop(s->d), play, s);
    full.url = fake_redis_url(s->fake);
    assert_int_equal(store_driver_open(s->d, &full, NULL), LKS_OK);
    store_driver_wait_ready(s->d, true);
    store_driver_until(s->d, has_kept_library, s);
}

int scene_start(void **state)
{
    start_with(&here, &(store_options){0}, NULL);
    return 0;
}

int scene_end(void **state)
{
    store_driver_close_store(here.d);
    fake_redis_stop(here.fake);
    store_driver_free(here.d);
    return 0;
}

void scene_restart_with(const store_options *options)
{
    scene_end(NULL);
    start_with(&here, options, NULL);
}

void scene_restart_on_cluster(void)
{
    scene_end(NULL);
    start_with(&here, &(store_options){0},
               "*6\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$4\r\nmode\r\n$7\r\ncluster\r\n");
}

bool scene_saw_a_call(void *arg)
{
    return ((scene *)arg)->seen > 0;
}

bool scene_reconnected(void *arg)
{
    return fake_redis_connections(((scene *)arg)->fake) >= 2;
}
