/* One click on "pay", a process of its own:
 *
 *   click lockstock URL REGISTER ORDER    Begin, pay, Complete
 *   click frozen URL REGISTER ORDER       the same, but between Begin and pay it waits to be told to go on
 *   click naive REDIS-SOCKET REGISTER ORDER early|late
 *                                         SET order NX EX, pay, DEL: a lock without a result
 *
 * Two of them meet at a barrier before their first request. The naive ones meet once more,
 * at the worst moment: `early`, the second asks while the first pays; `late`, when it has
 * just paid. Says "answer: ..." of what its user would see. */
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hiredis/hiredis.h>
#include <lockstock/v1/idempotency.lks_client.h>

#include "e2e/click.h"

static void until(const atomic_int *what, int value)
{
    while (atomic_load(what) < value)
        sched_yield();
}

static void answer(click_register *shared, const char *text, size_t len)
{
    printf("answer: %.*s\n", (int)len, text);
    fflush(stdout);
    atomic_fetch_add(&shared->answered, 1);
}

static int failed(const char *what, const lks_error *error)
{
    fprintf(stderr, "%s: %s, applied %s: %s\n", what, lks_code_name(error->code), lks_applied_name(error->applied),
            error->message);
    return 1;
}

/* ---- with IdempotencyService ---------------------------------------------------------- */

static int pay_and_complete(lks_channel *channel, click_register *shared, char *order, uint64_t fence)
{
    lks_complete_request request = LKS_COMPLETE_REQUEST_INIT;
    lks_complete_response *response = NULL;
    lks_error error;
    char receipt[64];

    int n =
        snprintf(receipt, sizeof receipt, "receipt %d of process %d", atomic_fetch_add(&shared->paid, 1) + 1, getpid());
    request.scope = "pay";
    request.key = order;
    request.fence = fence;
    request.code = 200;
    request.body.data = (uint8_t *)receipt;
    request.body.len = (size_t)n;
    if (lks_idempotency_complete(channel, &request, NULL, &response, &error) != LKS_OK)
        return failed("Complete", &error);
    if (response->outcome == LKS_COMPLETE_OUTCOME_STORED)
        answer(shared, receipt, (size_t)n);
    else
        answer(shared, "superseded", strlen("superseded"));
    lks_complete_response_free(response);
    return 0;
}

static int click(const char *url, click_register *shared, char *order, bool freezes)
{
    lks_begin_request request = LKS_BEGIN_REQUEST_INIT;
    lks_begin_response *response = NULL;
    lks_channel *channel;
    lks_error error;
    int result = 0;

    if (lks_channel_open(url, NULL, &channel, &error) != LKS_OK)
        return failed("open", &error);
    request.scope = "pay";
    request.key = order;
    request.lease_ms = freezes ? 300 : 60000;
    request.wait_ms = 60000;
    if (!freezes) {
        atomic_fetch_add(&shared->arrived, 1);
        until(&shared->arrived, 2);
    }
    if (lks_idempotency_begin(channel, &request, NULL, &response, &error) != LKS_OK)
        return failed("Begin", &error);
    if (response->outcome == LKS_BEGIN_OUTCOME_EXECUTE) {
        if (freezes) {
            printf("executing\n");
            fflush(stdout);
            until(&shared->go, 1);
        }
        result = pay_and_complete(channel, shared, order, response->fence);
    } else if (response->outcome == LKS_BEGIN_OUTCOME_REPLAY) {
        answer(shared, (const char *)response->result->body.data, response->result->body.len);
    } else {
        result = 2;
    }
    lks_begin_response_free(response);
    lks_channel_close(channel);
    return result;
}

/* ---- with a lock that has no result ---------------------------------------------------- */

static bool take(redisContext *redis, const char *order)
{
    redisReply *reply = redisCommand(redis, "SET pay:%s %d NX EX 60", order, getpid());
    bool taken = reply && reply->type == REDIS_REPLY_STATUS;

    freeReplyObject(reply);
    return taken;
}

static int click_naive(const char *socket_path, click_register *shared, const char *order, bool late)
{
    redisContext *redis = redisConnectUnix(socket_path);

    if (!redis || redis->err)
        return 1;
    int me = atomic_fetch_add(&shared->arrived, 1);
    until(&shared->arrived, 2);
    if (late && me == 1)
        until(&shared->answered, 1);
    if (take(redis, order)) {
        char receipt[64];
        if (!late)
            until(&shared->answered, 1);
        int n = snprintf(receipt, sizeof receipt, "receipt %d", atomic_fetch_add(&shared->paid, 1) + 1);
        freeReplyObject(redisCommand(redis, "DEL pay:%s", order));
        answer(shared, receipt, (size_t)n);
    } else {
        answer(shared, "in progress, try later", strlen("in progress, try later"));
    }
    redisFree(redis);
    return 0;
}

int main(int argc, char **argv)
{
    click_register *shared = argc >= 5 ? click_register_map(argv[3]) : NULL;

    if (!shared)
        return 3;
    if (strcmp(argv[1], "naive") == 0)
        return argc > 5 ? click_naive(argv[2], shared, argv[4], strcmp(argv[5], "late") == 0) : 3;
    return click(argv[2], shared, argv[4], strcmp(argv[1], "frozen") == 0);
}
