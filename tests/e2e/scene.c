#include "e2e/scene.h"

#include <time.h>

struct scene_state s;

int scene_start(void **state)
{
    static const char *const args[] = {"--allow-unsafe-store", "--waiting-per-connection", "4096", NULL};
    const lks_channel_options options = {.timeout_ms = SCENE_LIMIT_MS, .in_flight_max = 8192};

    (void)state;
    s.redis = redis_fixture_start(NULL);
    if (!s.redis)
        return -1;
    for (int i = 0; i < SCENE_SERVERS; i++) {
        s.servers[i] =
            server_fixture_start(&(server_fixture_options){.store = redis_fixture_url(s.redis), .args = args});
        if (!s.servers[i] ||
            lks_channel_open(server_fixture_url(s.servers[i]), &options, &s.channels[i], NULL) != LKS_OK)
            return -1;
    }
    s.connection = redisConnectUnix(redis_fixture_socket(s.redis));
    return s.connection && !s.connection->err ? 0 : -1;
}

/* The sanitizers of the servers report when they exit. */
int scene_stop(void **state)
{
    int status = 0;

    (void)state;
    redisFree(s.connection);
    for (int i = 0; i < SCENE_SERVERS; i++) {
        lks_channel_close(s.channels[i]);
        status |= server_fixture_stop(s.servers[i], SCENE_LIMIT_MS) ? 0 : -1;
        server_fixture_free(s.servers[i]);
    }
    redis_fixture_free(s.redis);
    return status;
}

/* ---- the table ------------------------------------------------------------------ */

void scene_begin(void)
{
    s.table = open_memstream(&s.text, &s.size);
    assert_non_null(s.table);
}

void scene_end(void)
{
    fclose(s.table);
    printf("%s", s.text);
    scene_assert_on_page(s.text);
    free(s.text);
}

void scene_assert_on_page(const char *text)
{
    enum { PAGE_MAX = 1 << 17 };
    FILE *file = fopen(SCENES_PAGE_PATH, "r");
    char *page = calloc(1, PAGE_MAX);

    assert_non_null(file);
    assert_non_null(page);
    assert_in_range(fread(page, 1, PAGE_MAX - 1, file), 1, PAGE_MAX - 2);
    fclose(file);
    if (text[0] == '\0' || !strstr(page, text))
        fail_msg("not a table of %s:\n%s", SCENES_PAGE_PATH, text);
    free(page);
}

void scene_ok(lks_code code, const lks_error *error)
{
    if (code != LKS_OK)
        fail_msg("%s: %s", lks_code_name(code), error->message);
}

/* ---- Redis ---------------------------------------------------------------------- */

long long scene_redis(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    redisReply *reply = redisvCommand(s.connection, format, arguments);
    va_end(arguments);
    assert_non_null(reply);
    if (reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s: %s", format, reply->str);
    long long value = reply->type == REDIS_REPLY_INTEGER  ? reply->integer
                      : reply->type == REDIS_REPLY_STRING ? strtoll(reply->str, NULL, 10)
                                                          : reply->type == REDIS_REPLY_STATUS;
    freeReplyObject(reply);
    return value;
}

long long scene_wall_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- calls ---------------------------------------------------------------------- */

grant scene_acquire(const char *name, const char *owner, int64_t lease_ms, int64_t wait_ms)
{
    lks_target target = LKS_TARGET_INIT, *targets[] = {&target};
    lks_acquire_request request = LKS_ACQUIRE_REQUEST_INIT;
    lks_acquire_response *response = NULL;
    lks_error error = {0};
    grant ret = {.fence = 0};

    target.name = name;
    request.n_targets = 1;
    request.targets = targets;
    request.owner = owner;
    request.lease_ms = lease_ms;
    request.wait_ms = wait_ms;
    scene_ok(lks_lock_acquire(s.channels[0], &request, NULL, &response, &error), &error);
    if (response->outcome == LKS_ACQUIRE_OUTCOME_ACQUIRED) {
        ret.fence = response->fences[0]->fence;
        snprintf(ret.token, sizeof ret.token, "%s", response->token);
    }
    lks_acquire_response_free(response);
    return ret;
}

bool scene_release(const char *name, const grant *held)
{
    lks_release_request request = LKS_RELEASE_REQUEST_INIT;
    lks_release_response *response = NULL;
    lks_error error = {0};

    request.group = name;
    request.token = held->token;
    scene_ok(lks_lock_release(s.channels[0], &request, NULL, &response, &error), &error);
    bool was_held = response->outcome == LKS_RELEASE_OUTCOME_RELEASED;
    lks_release_response_free(response);
    return was_held;
}

lock_state scene_inspect(const char *name)
{
    lks_inspect_request request = LKS_INSPECT_REQUEST_INIT;
    lks_inspect_response *response = NULL;
    lks_error error = {0};

    request.name = name;
    scene_ok(lks_lock_inspect(s.channels[0], &request, NULL, &response, &error), &error);
    lock_state ret = {response->waiters, response->n_holders > 0 ? response->holders[0]->lease_ms : 0};
    lks_inspect_response_free(response);
    return ret;
}

bool scene_fence_is_good(const char *name, uint64_t fence)
{
    lks_check_fence_request request = LKS_CHECK_FENCE_REQUEST_INIT;
    lks_check_fence_response *response = NULL;
    lks_error error = {0};

    request.resource = name;
    request.fence = fence;
    scene_ok(lks_lock_check_fence(s.channels[0], &request, NULL, &response, &error), &error);
    bool good = response->outcome == LKS_CHECK_FENCE_OUTCOME_OK;
    lks_check_fence_response_free(response);
    return good;
}

void scene_put_item(const char *group, const char *sku, int64_t on_hand, int64_t per_buyer_limit)
{
    lks_put_item_request request = LKS_PUT_ITEM_REQUEST_INIT;
    lks_error error = {0};

    request.group = group;
    request.sku = sku;
    request.on_hand = on_hand;
    request.per_buyer_limit = per_buyer_limit;
    request.order_retain_ms = 3600000;
    scene_ok(lks_stock_put_item(s.channels[0], &request, NULL, NULL, &error), &error);
}
