/* Scene i: the token that is handed out with a form. By hand it is kept in the buyer's session, looked at and deleted;
 * with tickets it is issued and consumed. What is shown is how many orders each makes of what a buyer sends. */
#include "lock_scenes.h"

#include <hiredis/hiredis.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <lockstock/rpc/method.h>
#include <lockstock/v1/idempotency.lks_client.h>

#include "patience.h"

enum { TOKEN_SIZE = 65, TTL_MS = 3600000, SHORT_TTL_MS = 1000, OLD_MS = 1100 };

static const char unix_prefix[] = "unix://";

struct form_way;

/* A form in a tab of a buyer's browser, and what comes of sending it. */
typedef struct form {
    const struct form_way *way;
    lks_channel *channel;
    const char *redis_socket, *run, *buyer;
    char token[TOKEN_SIZE];
    char press[LKS_RPC_RANDOM_ID_LEN + 1]; /* which press of the button this is */
    pthread_barrier_t *meet;               /* both presses are here before either goes on; NULL = there is one */
    int orders;
    bool sent, told; /* told: that its order was taken */
    lks_error error;
} form;

typedef struct form_way {
    void (*hand_out)(form *f, int64_t ttl_ms);
    /* Sends the form; true: its order is taken, and *made says whether by this very call. */
    bool (*take)(form *f, bool *made);
} form_way;

static bool is_good(const form *f)
{
    return f->error.code == LKS_OK;
}

/* ---- by hand: the session has the token; GET, compare, DEL ---------------------------- */

static void note(form *f, const char *why)
{
    if (is_good(f))
        lks_error_set(&f->error, LKS_UNAVAILABLE, LKS_APPLIED_MAYBE, "redis, for %s: %s", f->buyer, why);
}

/* One command; the caller frees what it returns. */
static redisReply *ask(form *f, redisContext *redis, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    redisReply *reply = redis && !redis->err ? redisvCommand(redis, format, arguments) : NULL;
    va_end(arguments);
    if (!reply || reply->type == REDIS_REPLY_ERROR)
        note(f, reply ? reply->str : "no connection");
    return reply;
}

/* A session lives as long as its buyer clicks, and the token in it lives as long: there is no end of its own. */
static void hand_out_by_hand(form *f, int64_t ttl_ms)
{
    redisContext *redis = redisConnectUnix(f->redis_socket);

    (void)ttl_ms;
    lks_rpc_random_id(f->token);
    freeReplyObject(ask(f, redis, "SET session:%s:%s %s", f->run, f->buyer, f->token));
    redisFree(redis);
}

static bool take_by_hand(form *f, bool *made)
{
    redisContext *redis = redisConnectUnix(f->redis_socket);
    redisReply *kept = ask(f, redis, "GET session:%s:%s", f->run, f->buyer);

    *made = kept && kept->type == REDIS_REPLY_STRING && strcmp(kept->str, f->token) == 0;
    freeReplyObject(kept);
    if (f->meet)
        pthread_barrier_wait(f->meet);
    if (*made)
        freeReplyObject(ask(f, redis, "DEL session:%s:%s", f->run, f->buyer));
    redisFree(redis);
    return *made;
}

static const form_way by_hand = {hand_out_by_hand, take_by_hand};

/* ---- tickets ---------------------------------------------------------------------------- */

static void hand_out_ticket(form *f, int64_t ttl_ms)
{
    lks_issue_ticket_request request = LKS_ISSUE_TICKET_REQUEST_INIT;
    lks_issue_ticket_response *response = NULL;

    request.scope = f->run;
    request.subject = f->buyer;
    request.ttl_ms = ttl_ms;
    if (lks_idempotency_issue_ticket(f->channel, &request, NULL, &response, &f->error) == LKS_OK)
        snprintf(f->token, sizeof f->token, "%s", response->ticket);
    lks_issue_ticket_response_free(response);
}

static bool take_ticket(form *f, bool *made)
{
    lks_consume_ticket_request request = LKS_CONSUME_TICKET_REQUEST_INIT;
    lks_consume_ticket_response *response = NULL;
    bool taken = false;

    *made = false;
    if (f->meet)
        pthread_barrier_wait(f->meet);
    request.scope = f->run;
    request.subject = f->buyer;
    request.ticket = f->token;
    request.consumer_id = f->press;
    if (lks_idempotency_consume_ticket(f->channel, &request, NULL, &response, &f->error) == LKS_OK) {
        taken = response->outcome == LKS_CONSUME_TICKET_OUTCOME_CONSUMED;
        *made = taken && !response->replayed;
    }
    lks_consume_ticket_response_free(response);
    return taken;
}

static const form_way by_ticket = {hand_out_ticket, take_ticket};

/* ---- what a buyer does -------------------------------------------------------------------- */

static void *send_form(void *arg)
{
    form *f = arg;
    bool made = false;

    if (f->press[0] == '\0')
        lks_rpc_random_id(f->press);
    f->sent = true;
    f->told = f->way->take(f, &made);
    f->orders += made;
    return NULL;
}

static void once(form *first, form *second)
{
    (void)second;
    first->way->hand_out(first, TTL_MS);
    send_form(first);
}

static void twice_at_once(form *first, form *second)
{
    pthread_barrier_t meet;
    pthread_t thread;

    first->way->hand_out(first, TTL_MS);
    if (pthread_barrier_init(&meet, NULL, 2) != 0) {
        lks_error_set(&first->error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "no barrier");
        return;
    }
    memcpy(second->token, first->token, sizeof second->token);
    first->meet = second->meet = &meet;
    if (pthread_create(&thread, NULL, send_form, second) == 0) {
        send_form(first);
        pthread_join(thread, NULL);
    } else {
        lks_error_set(&first->error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "no thread");
    }
    pthread_barrier_destroy(&meet);
}

static void two_tabs(form *first, form *second)
{
    first->way->hand_out(first, TTL_MS);
    second->way->hand_out(second, TTL_MS);
    send_form(first);
    send_form(second);
}

/* The browser sends the same press again. */
static void answer_lost(form *first, form *second)
{
    first->way->hand_out(first, TTL_MS);
    send_form(first);
    memcpy(second->token, first->token, sizeof second->token);
    memcpy(second->press, first->press, sizeof second->press);
    send_form(second);
}

static void made_up(form *first, form *second)
{
    first->way->hand_out(first, TTL_MS);
    lks_rpc_random_id(second->token);
    send_form(second);
}

static void of_another(form *first, form *second)
{
    char other[64];

    snprintf(other, sizeof other, "the neighbour of %s", first->buyer);
    first->buyer = other;
    first->way->hand_out(first, TTL_MS);
    memcpy(second->token, first->token, sizeof second->token);
    send_form(second);
    first->buyer = second->buyer;
}

static void too_old(form *first, form *second)
{
    (void)second;
    first->way->hand_out(first, SHORT_TTL_MS);
    clock_rest(OLD_MS);
    send_form(first);
}

/* How many orders were made, and what was told of each form that was sent; of two at once, yes first. */
typedef struct form_result {
    int orders;
    const char *told;
} form_result;

typedef struct form_row {
    const char *what;
    void (*act)(form *first, form *second);
    form_result hand, ticket;
} form_row;

static const form_row rows[] = {
    {"sends the form", once, {1, "yes"}, {1, "yes"}},
    {"presses the button twice, at once", twice_at_once, {2, "yes, yes"}, {1, "yes, no"}},
    {"fills in two tabs, and sends both", two_tabs, {1, "no, yes"}, {2, "yes, yes"}},
    {"sends it again: the answer was lost", answer_lost, {1, "yes, no"}, {1, "yes, yes"}},
    {"makes a token up", made_up, {0, "no"}, {0, "no"}},
    {"takes the token of another buyer", of_another, {0, "no"}, {0, "no"}},
    {"sends it when it is too old", too_old, {1, "yes"}, {0, "no"}},
};

static form_result result_of(const form *first, const form *second)
{
    static const char *const told[2][2] = {{"no, no", "no, yes"}, {"yes, no", "yes, yes"}};
    form_result result = {first->orders + second->orders, second->told ? "yes" : "no"};

    if (!second->sent)
        result.told = first->told ? "yes" : "no";
    else if (first->sent && first->meet)
        result.told = told[first->told || second->told][first->told && second->told];
    else if (first->sent)
        result.told = told[first->told][second->told];
    return result;
}

static lks_code play(const form_row *row, const form *like, form_result *ret, lks_error *error)
{
    form first = *like, second = *like;

    row->act(&first, &second);
    *ret = result_of(&first, &second);
    if (is_good(&first) && is_good(&second))
        return LKS_OK;
    *error = is_good(&first) ? second.error : first.error;
    return error->code;
}

static bool is_equal(const form_result *is, const form_result *wanted)
{
    return is->orders == wanted->orders && strcmp(is->told, wanted->told) == 0;
}

lks_code scene_form(const lock_setup *setup, lock_claims *claims, lks_error *error)
{
    lks_channel *channel = NULL;
    char run[17], buyer[32];

    if (!setup->redis || strncmp(setup->redis, unix_prefix, sizeof unix_prefix - 1) != 0) {
        return lks_error_set(error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO,
                             "tokens in a session need --redis unix:///path, best the store of lockstockd");
    }
    lks_code code = lock_run_id(run, error);
    if (code != LKS_OK || (code = lks_channel_open(setup->urls, NULL, &channel, error)) != LKS_OK)
        return code;
    fprintf(claims->table,
            "scene i: the token that comes with a form: orders that are made, and what the buyer is told\n");
    fprintf(claims->table, "  %-35s  %-13s  %s\n", "the buyer", "GET, then DEL", "tickets");
    for (size_t i = 0; code == LKS_OK && i < sizeof rows / sizeof *rows; i++) {
        form like = {.channel = channel, .redis_socket = setup->redis + sizeof unix_prefix - 1, .run = run};
        form_result hand, ticket;
        snprintf(buyer, sizeof buyer, "buyer-%zu", i);
        like.buyer = buyer;
        like.way = &by_hand;
        code = play(&rows[i], &like, &hand, error);
        like.way = &by_ticket;
        if (code == LKS_OK && (code = play(&rows[i], &like, &ticket, error)) == LKS_OK) {
            fprintf(claims->table, "  %-35s  %d  %-10s  %d  %s\n", rows[i].what, hand.orders, hand.told, ticket.orders,
                    ticket.told);
            lock_claim(claims, is_equal(&ticket, &rows[i].ticket), "with a ticket: %s", rows[i].what);
            lock_claim(claims, is_equal(&hand, &rows[i].hand), "by hand: %s", rows[i].what);
        }
    }
    lks_channel_close(channel);
    return code;
}
