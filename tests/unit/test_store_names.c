/* Names of Redis hosts: how the store waits for getaddrinfo(3), which may take long, and does not at its end. */
/* promise T3 */
#include <dlfcn.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "store_scene.h"
#include "test.h"

/* ---- a resolver that answers on command ---------------------------------------- */

enum { ALL = 1000000 };

/* It answers the first `answers` questions, with 127.0.0.1 or `failed`; the others wait. */
static struct resolver {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned answers;
    unsigned asked, answered;
    int failed;
} resolver = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

typedef int look_up(const char *, const char *, const struct addrinfo *, struct addrinfo **);

/* In the place of libc's. */
int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **ret)
{
    static look_up *libc;

    if (strcmp(host, "redis.test") != 0) {
        *(void **)&libc = dlsym(RTLD_NEXT, "getaddrinfo");
        return libc(host, port, hints, ret);
    }
    if (hints->ai_flags & AI_NUMERICHOST)
        return EAI_NONAME;
    pthread_mutex_lock(&resolver.lock);
    unsigned number = ++resolver.asked;
    while (number > resolver.answers)
        pthread_cond_wait(&resolver.changed, &resolver.lock);
    int failed = resolver.failed;
    resolver.answered++;
    pthread_cond_broadcast(&resolver.changed);
    pthread_mutex_unlock(&resolver.lock);
    return failed ? failed : getaddrinfo("127.0.0.1", port, hints, ret);
}

static void answer(unsigned answers, int failed)
{
    pthread_mutex_lock(&resolver.lock);
    resolver.answers = answers;
    resolver.failed = failed;
    pthread_cond_broadcast(&resolver.changed);
    pthread_mutex_unlock(&resolver.lock);
}

static unsigned times_asked(void)
{
    pthread_mutex_lock(&resolver.lock);
    unsigned n = resolver.asked;
    pthread_mutex_unlock(&resolver.lock);
    return n;
}

/* Until every question has its answer. */
static void end_resolver(void)
{
    answer(ALL, 0);
    pthread_mutex_lock(&resolver.lock);
    while (resolver.answered < resolver.asked)
        pthread_cond_wait(&resolver.changed, &resolver.lock);
    resolver.asked = resolver.answered = 0;
    pthread_mutex_unlock(&resolver.lock);
}

/* ---- a store ----------------------------------------------------------------------------- */

static int end(void **state)
{
    scene_end(state);
    end_resolver();
    return 0;
}

static void open_by_name(uint32_t connect_timeout_ms)
{
    char url[64];

    scene_begin();
    snprintf(url, sizeof url, "redis://redis.test:%u", fake_redis_listen_tcp(here.fake));
    scene_open(&(store_options){.url = url, .connect_timeout_ms = connect_timeout_ms});
}

static bool was_asked(void *arg)
{
    return times_asked() >= *(unsigned *)arg;
}

static void wait_until_asked(unsigned times)
{
    store_driver_until(here.d, was_asked, &times);
}

TEST(a_store_closes_while_the_resolver_does_not_answer)
{
    answer(0, 0);
    open_by_name(600000);
    wait_until_asked(1);
    store_driver_close_store(here.d);
    assert_int_equal(resolver.answered, 0);
}

/* A resolver whose first name server is down takes longer than an attempt to connect. */
TEST(an_answer_that_comes_late_serves_the_next_attempt)
{
    answer(0, 0);
    open_by_name(100);
    scene_until_reason("it does not answer in time");
    answer(1, 0);
    scene_until_connections(1);
    answer(ALL, 0);
    store_driver_wait_ready(here.d, true);
}

TEST(a_name_that_is_not_found_is_reported_and_looked_up_again)
{
    answer(ALL, EAI_NONAME);
    open_by_name(600000);
    scene_until_reason("the store's host cannot be found: ");
    wait_until_asked(3);
    answer(ALL, 0);
    store_driver_wait_ready(here.d, true);
}

TEST_MAIN(.teardown = end)
