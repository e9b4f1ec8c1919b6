/* Invariant: lock and changed outlive every call. */
#include "shop.h"

#include <time.h>

#include "base/clock.h"
#include "method.pb-c.h"
#include "test.h"

typedef Lockstock__Test__Order order;

enum { WAIT_SECONDS = 30 };

shop the_shop = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static lks_code buy(const lks_rpc_service *service, lks_rpc_context *context, const ProtobufCMessage *request,
                    ProtobufCMessage *response, lks_error *error)
{
    shop *self = service->self;
    const order *in = (const order *)request;
    order *out = (order *)response;
    pthread_mutex_lock(&self->lock);
    out->number = ++self->bought;
    pthread_mutex_unlock(&self->lock);
    out->choice_case = LOCKSTOCK__TEST__ORDER__CHOICE_NUMBER;
    out->id = lks_rpc_arena_printf(context->arena, "%s of %s, %s=%.*s", in->id, context->method->path,
                                   context->n_metadata ? context->metadata[0].key : "",
                                   context->n_metadata ? (int)context->metadata[0].value.len : 0,
                                   context->n_metadata ? context->metadata[0].value.data : "");
    if (context->certificate) {
        out->names = lks_rpc_arena_alloc(context->arena, sizeof *out->names);
        out->names[out->n_names++] = lks_rpc_arena_printf(context->arena, "%s", context->certificate);
    }
    out->fence = strlen(in->id);
    out->colour = in->colour;
    out->wait_ms = (int64_t)((context->deadline_ns - clock_now_ns()) / 1000000);
    return LKS_OK;
}

static lks_code refuse(const lks_rpc_service *service, lks_rpc_context *context, const ProtobufCMessage *request,
                       ProtobufCMessage *response, lks_error *error)
{
    if (((const order *)request)->id[0] == '\0')
        return LKS_ABORTED; /* and says nothing else */
    return lks_error_set(error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO, "id: sold");
}

static lks_code fill(const lks_rpc_service *service, lks_rpc_context *context, const ProtobufCMessage *request,
                     ProtobufCMessage *response, lks_error *error)
{
    order *out = (order *)response;
    out->key.len = (size_t)((const order *)request)->fence;
    out->key.data = lks_rpc_arena_alloc(context->arena, out->key.len);
    return LKS_OK;
}

static lks_code block(const lks_rpc_service *service, lks_rpc_context *context, const ProtobufCMessage *request,
                      ProtobufCMessage *response, lks_error *error)
{
    shop *self = service->self;
    pthread_mutex_lock(&self->lock);
    self->running++;
    pthread_cond_broadcast(&self->changed);
    while (!self->open)
        pthread_cond_wait(&self->changed, &self->lock);
    self->running--;
    pthread_mutex_unlock(&self->lock);
    return LKS_OK;
}

#define METHOD(name, Name, its_effect)                   \
    const lks_rpc_method shop_##name##_method = {        \
        .path = "/lockstock.test.Shop/" #Name,           \
        .request = &lockstock__test__order__descriptor,  \
        .response = &lockstock__test__order__descriptor, \
        .effect = (its_effect),                          \
    };
METHOD(buy, Buy, LKS_RPC_EFFECT_WRITE)
METHOD(refuse, Refuse, LKS_RPC_EFFECT_WRITE)
METHOD(fill, Fill, LKS_RPC_EFFECT_WRITE)
METHOD(look, Look, LKS_RPC_EFFECT_READ)
METHOD(block, Block, LKS_RPC_EFFECT_WRITE)

static const lks_rpc_binding bindings[] = {
    {&shop_buy_method, buy, NULL},   {&shop_refuse_method, refuse, NULL}, {&shop_fill_method, fill, NULL},
    {&shop_look_method, fill, NULL}, {&shop_block_method, block, NULL},
};
const lks_rpc_service shop_service = {
    .name = "lockstock.test.Shop",
    .n_bindings = sizeof bindings / sizeof *bindings,
    .bindings = bindings,
    .self = &the_shop,
};

void shop_await(int n)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_SECONDS;
    pthread_mutex_lock(&the_shop.lock);
    while (the_shop.running < n && pthread_cond_timedwait(&the_shop.changed, &the_shop.lock, &until) == 0)
        ;
    int running = the_shop.running;
    pthread_mutex_unlock(&the_shop.lock);
    assert_int_equal(running, n);
}

void shop_open(void)
{
    pthread_mutex_lock(&the_shop.lock);
    the_shop.open = true;
    pthread_cond_broadcast(&the_shop.changed);
    pthread_mutex_unlock(&the_shop.lock);
}

void shop_close(void)
{
    pthread_mutex_lock(&the_shop.lock);
    the_shop.open = false;
    the_shop.bought = 0;
    pthread_mutex_unlock(&the_shop.lock);
}
