/* Names of Redis hosts: how the store waits for getaddrinfo(3), which may take long, and does not at its end. */
/* promise T3 */
#include <dlfcn.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <uv.h>

#include "support/fake_redis.h"
#include "support/store_driver.h"
#include "test.h"

/* ---- a resolver that answers when it is told to ---------------------------------------- */

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

static struct {
    store_driver *d;
    fake_redis *fake;
    unsigned wanted; /* questions to the resolver */
} here;

static int begin(void **state)
{
    (void)state;
    here.d = store_driver_new();
    here.fake = fake_redis_start(store_driver_loop(here.d), NULL, NULL);
    return 0;
}

static int end(void **state)
{
    (void)state;
    store_driver_close_store(here.d);
    fake_redis_stop(here.fake);
    store_driver_free(here.d);
    end_resolver();
    return 0;
}

static void open_by_name(uint32_t connect_timeout_ms)
{
    char url[64];

    snprintf(url, sizeof url, "redis://redis.test:%u", fake_redis_listen_tcp(here.fake));
    const store_options options = {.url = url, .connect_timeout_ms = connect_timeout_ms};
    assert_int_equal(store_driver_open(here.d, &options, NULL), LKS_OK);
}

static bool was_asked(void *arg)
{
    (void)arg;
    return times_asked() >= here.wanted;
}

static void wait_until_asked(unsigned times)
{
    here.wanted = times;
    store_driver_until(here.d, was_asked, NULL);
}

static bool was_late(void *arg)
{
    (void)arg;
    return strstr(store_driver_reason(here.d), "it does not answer in time");
}

static bool was_not_found(void *arg)
{
    (void)arg;
    return strstr(store_driver_reason(here.d), "the store's host cannot be found: ");
}

static bool is_connected(void *arg)
{
    (void)arg;
    return fake_redis_connections(here.fake) > 0;
}

TEST_WITH(a_store_closes_while_the_resolver_does_not_answer, begin, end)
{
    answer(0, 0);
    open_by_name(600000);
    wait_until_asked(1);
    store_driver_close_store(here.d);
    assert_int_equal(resolver.answered, 0);
}

/* A resolver whose first name server is down takes longer than an attempt to connect. */
TEST_WITH(an_answer_that_comes_late_serves_the_next_attempt, begin, end)
{
    answer(0, 0);
    open_by_name(100);
    store_driver_until(here.d, was_late, NULL);
    answer(1, 0);
    store_driver_until(here.d, is_connected, NULL);
    answer(ALL, 0);
    store_driver_wait_ready(here.d, true);
}

TEST_WITH(a_name_that_is_not_found_is_told_and_asked_for_again, begin, end)
{
    answer(ALL, EAI_NONAME);
    open_by_name(600000);
    store_driver_until(here.d, was_not_found, NULL);
    wait_until_asked(3);
    answer(ALL, 0);
    store_driver_wait_ready(here.d, true);
}

TEST_MAIN()
