/* Scenes h to k of docs/scenes.md: what happens once, and how often something may be tried. */

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include <lockstock/rpc/method.h>

#include "e2e/scene.h"

enum { HOUR_MS = 3600000 };

/* ---- h: everybody clicks twice ------------------------------------------------------ */

/*   click --limiter--> lks_once_run --first of the order--> reserve, pay, confirm
 *              \--> too many            \--else--> what the first was told */
enum { LAMPS = 20, BUYERS = 100, PENNILESS = 10, ROBOT_CLICKS = 50, CLICKS_ALLOWED = 3 };

static lks_limiter *limiters[SCENE_SERVERS];
static atomic_size_t payments;

typedef struct click {
    int server;
    char buyer[48], order[80];
    bool has_money, slowed, ran;
    char told[16];
    lks_error error;
    pthread_t thread;
} click;

/* What a crowd was told; orders of two clicks count once. */
typedef struct crowd {
    const char *who;
    size_t clicks, slowed, run, again;
    size_t bought, has_one, no_money, sold_out;
} crowd;

static const char *buy(click *c)
{
    const lks_reservation_line line = {.sku = "lamp", .quantity = 1};
    const lks_reservation_order order = {
        .group = "lamps", .order_id = c->order, .buyer_id = c->buyer, .lines = &line, .n_lines = 1};
    LKS_RESERVATION lks_reservation *reservation = NULL;

    switch (lks_reservation_make(s.channels[c->server], &order, &reservation, &c->error)) {
    case LKS_RESERVE_OUTCOME_RESERVED:
        break;
    case LKS_RESERVE_OUTCOME_SOLD_OUT:
        return "sold out";
    case LKS_RESERVE_OUTCOME_BUYER_LIMIT:
        return "has one";
    default:
        return NULL;
    }
    if (!c->has_money)
        return "no money"; /* the lamp goes back when the scope ends */
    atomic_fetch_add(&payments, 1);
    return lks_reservation_confirm(reservation, true, &c->error) == LKS_CONFIRM_OUTCOME_CONFIRMED ? "bought" : NULL;
}

static lks_once_verdict run_order(void *arg, lks_once_attempt *attempt)
{
    const char *told = buy(arg);

    return told && lks_once_return(attempt, 200, told, strlen(told)) == LKS_OK ? LKS_ONCE_STORE : LKS_ONCE_RETRY;
}

/* One request, as a thread of a web server would handle it. */
static void *handle(void *arg)
{
    click *c = arg;
    const lks_once_options options = {.scope = "lamps",
                                      .key = c->order,
                                      .fingerprint = c->buyer,
                                      .fingerprint_len = strlen(c->buyer),
                                      .wait_ms = SCENE_LONG_MS};
    lks_once_result *result = NULL;

    if (!lks_limiter_allow(limiters[c->server], c->buyer, 1, NULL, &c->error)) {
        c->slowed = c->error.code == LKS_OK;
        return NULL;
    }
    lks_once_outcome outcome = lks_once_run(s.channels[c->server], &options, run_order, c, &result, &c->error);
    c->ran = outcome == LKS_ONCE_EXECUTED;
    if (c->ran || outcome == LKS_ONCE_REPLAYED)
        snprintf(c->told, sizeof c->told, "%s", (const char *)result->body);
    lks_once_result_free(result);
    return NULL;
}

/* Clicks of one buyer, or two clicks of each; all at once, or one after the other. */
static crowd play_crowd(const char *who, size_t n, bool is_robot)
{
    crowd them = {.who = who};
    click *clicks = calloc(n, sizeof *clicks);

    for (size_t i = 0; i < n; i++) {
        click *c = &clicks[i];
        *c = (click){.server = (int)(i % 2), .has_money = strcmp(who, "without money") != 0};
        snprintf(c->buyer, sizeof c->buyer, "%s-%zu", who, is_robot ? 0 : i / 2);
        snprintf(c->order, sizeof c->order, "%s-%zu", c->buyer, is_robot ? i : 0);
        assert_int_equal(pthread_create(&c->thread, NULL, handle, c), 0);
        if (is_robot)
            pthread_join(c->thread, NULL);
    }
    for (size_t i = 0; i < n; i++) {
        click *c = &clicks[i];
        if (!is_robot)
            pthread_join(c->thread, NULL);
        if (!c->slowed && c->told[0] == '\0')
            fail_msg("%s: %s", c->order, c->error.message);
        them.clicks++;
        them.slowed += c->slowed;
        them.run += c->ran;
        them.again += !c->slowed && !c->ran;
        if (!is_robot && i % 2 == 1) {
            assert_string_equal(c->told, clicks[i - 1].told);
            continue;
        }
        them.bought += strcmp(c->told, "bought") == 0;
        them.has_one += strcmp(c->told, "has one") == 0;
        them.no_money += strcmp(c->told, "no money") == 0;
        them.sold_out += strcmp(c->told, "sold out") == 0;
    }
    free(clicks);
    fprintf(s.table, "  %-14s %7zu %9zu %5zu %11zu %7zu %8zu %9zu %9zu\n", who, them.clicks, them.slowed, them.run,
            them.again, them.bought, them.has_one, them.no_money, them.sold_out);
    return them;
}

/* By hand both clicks read the stock before either pays. */
static void click_by_hand(void)
{
    int stock = 1, paid = 0, sold = 0;
    bool first_sees = stock > 0, second_sees = stock > 0;

    for (int i = 0; i < first_sees + second_sees; i++) {
        paid++;
        sold++;
        stock--;
    }
    fprintf(s.table, "  by hand, one lamp, two clicks: %d payments for %d lamps sold, %d left\n", paid, sold, stock);
}

/* promise E9: limiter, once and reservation together: two clicks at two servers are one order, one payment, one lamp */
TEST(test_double_clicks)
{
    lks_limit limit = LKS_LIMIT_INIT;
    const lks_limiter_rule rule = {.limit = &limit};
    const lks_limiter_options options = {.group = "lamps", .rules = &rule, .n_rules = 1, .timeout_ms = SCENE_LONG_MS};
    lks_get_item_request look = LKS_GET_ITEM_REQUEST_INIT;
    lks_get_item_response *lamps = NULL;
    lks_error error = {0};

    limit.algorithm = LKS_ALGORITHM_SLIDING_LOG;
    limit.limit = CLICKS_ALLOWED;
    limit.period_ms = HOUR_MS;
    for (int i = 0; i < SCENE_SERVERS; i++)
        scene_ok(lks_limiter_new(s.channels[i], &options, &limiters[i], &error), &error);
    scene_put_item("lamps", "lamp", LAMPS, 1);
    scene_begin();
    fprintf(s.table, "scene h: everybody clicks twice, for %d lamps\n", LAMPS);
    fprintf(s.table, "  %-14s %7s %9s %5s %11s %7s %8s %9s %9s\n", "who", "clicks", "too many", "run", "told again",
            "bought", "has one", "no money", "sold out");
    play_crowd("a robot", ROBOT_CLICKS, true);
    play_crowd("without money", 2 * PENNILESS, false);
    play_crowd("buyers", 2 * BUYERS, false);
    look.group = "lamps";
    look.sku = "lamp";
    scene_ok(lks_stock_get_item(s.channels[0], &look, NULL, &lamps, &error), &error);
    fprintf(s.table, "  %zu payments for %lld lamps sold, %lld left\n", atomic_load(&payments),
            (long long)lamps->item->sold, (long long)(lamps->item->available + lamps->item->reserved));
    click_by_hand();
    scene_end();
    lks_get_item_response_free(lamps);
    for (int i = 0; i < SCENE_SERVERS; i++)
        lks_limiter_free(limiters[i]);
}

/* ---- i: the token of a form ---------------------------------------------------------- */

/* A form in a tab of a buyer's browser: its token, and the press of the button that sends it. */
typedef struct form {
    char token[65], press[LKS_RPC_RANDOM_ID_LEN + 1];
} form;

/* What came of the forms that were sent: orders, and what each was told. */
typedef struct told {
    int orders;
    char text[16];
} told;

static void tell(told *t, bool taken, bool made)
{
    t->orders += made;
    strncat(t->text,
            t->text[0] ? taken ? ", yes" : ", no"
            : taken    ? "yes"
                       : "no",
            sizeof t->text - strlen(t->text) - 1);
}

/* By hand: a session has one token, which lives as long as the session. */
static form form_by_hand(const char *buyer)
{
    form f = {.press = ""};

    lks_rpc_random_id(f.token);
    scene_redis("SET session:%s %s", buyer, f.token);
    return f;
}

static bool session_has(const char *buyer, const form *f)
{
    redisReply *reply = redisCommand(s.connection, "GET session:%s", buyer);
    bool same = reply && reply->type == REDIS_REPLY_STRING && strcmp(reply->str, f->token) == 0;

    freeReplyObject(reply);
    return same;
}

static void send_by_hand(told *t, const char *buyer, const form *f)
{
    bool taken = session_has(buyer, f);

    if (taken)
        scene_redis("DEL session:%s", buyer);
    tell(t, taken, taken);
}

static form ticket(const char *buyer, int64_t ttl_ms)
{
    lks_issue_ticket_request request = LKS_ISSUE_TICKET_REQUEST_INIT;
    lks_issue_ticket_response *response = NULL;
    lks_error error = {0};
    form f;

    request.scope = "forms";
    request.subject = buyer;
    request.ttl_ms = ttl_ms;
    scene_ok(lks_idempotency_issue_ticket(s.channels[0], &request, NULL, &response, &error), &error);
    snprintf(f.token, sizeof f.token, "%s", response->ticket);
    lks_rpc_random_id(f.press);
    lks_issue_ticket_response_free(response);
    return f;
}

typedef struct sending {
    const char *buyer;
    const form *form;
    int server;
    bool taken, replayed;
    lks_code code;
} sending;

static void *send_ticket(void *arg)
{
    sending *one = arg;
    lks_consume_ticket_request request = LKS_CONSUME_TICKET_REQUEST_INIT;
    lks_consume_ticket_response *response = NULL;

    request.scope = "forms";
    request.subject = one->buyer;
    request.ticket = one->form->token;
    request.consumer_id = one->form->press;
    one->code = lks_idempotency_consume_ticket(s.channels[one->server], &request, NULL, &response, NULL);
    if (one->code == LKS_OK) {
        one->taken = response->outcome == LKS_CONSUME_TICKET_OUTCOME_CONSUMED;
        one->replayed = response->replayed;
    }
    lks_consume_ticket_response_free(response);
    return NULL;
}

static void consume(told *t, const char *buyer, const form *f)
{
    sending one = {.buyer = buyer, .form = f};

    send_ticket(&one);
    assert_int_equal(one.code, LKS_OK);
    tell(t, one.taken, one.taken && !one.replayed);
}

/* At two servers at once. */
static void consume_twice(told *t, const char *buyer, const form *first, const form *second)
{
    sending both[] = {{.buyer = buyer, .form = first}, {.buyer = buyer, .form = second, .server = 1}};
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, send_ticket, &both[1]), 0);
    send_ticket(&both[0]);
    pthread_join(thread, NULL);
    assert_true(both[0].code == LKS_OK && both[1].code == LKS_OK);
    const sending *winner = &both[!both[0].taken]; /* either may have been first */
    tell(t, winner->taken, winner->taken && !winner->replayed);
    winner = winner == both ? &both[1] : &both[0];
    tell(t, winner->taken, winner->taken && !winner->replayed);
}

static void print_form(const char *what, told hand, told ours)
{
    fprintf(s.table, "  %-35s  %d  %-10s  %d  %s\n", what, hand.orders, hand.text, ours.orders, ours.text);
}

static void play_form(void)
{
    told hand = {0}, ours = {0};
    form f = form_by_hand("one"), other = ticket("one", HOUR_MS);

    send_by_hand(&hand, "one", &f);
    consume(&ours, "one", &other);
    print_form("sends the form", hand, ours);
}

static void play_two_presses(void)
{
    told hand = {0}, ours = {0};
    form f = form_by_hand("two"), first = ticket("two", HOUR_MS), second = first;
    bool first_finds = session_has("two", &f), second_finds = session_has("two", &f); /* before either deletes */

    scene_redis("DEL session:two");
    tell(&hand, first_finds, first_finds);
    tell(&hand, second_finds, second_finds);
    lks_rpc_random_id(second.press);
    consume_twice(&ours, "two", &first, &second);
    print_form("presses the button twice, at once", hand, ours);
}

static void play_two_tabs(void)
{
    told hand = {0}, ours = {0};
    form f = form_by_hand("tabs"), g = form_by_hand("tabs");
    form first = ticket("tabs", HOUR_MS), second = ticket("tabs", HOUR_MS);

    send_by_hand(&hand, "tabs", &f);
    send_by_hand(&hand, "tabs", &g);
    consume(&ours, "tabs", &first);
    consume(&ours, "tabs", &second);
    print_form("fills in two tabs, and sends both", hand, ours);
}

static void play_lost_answer(void)
{
    told hand = {0}, ours = {0};
    form f = form_by_hand("lost"), same = ticket("lost", HOUR_MS);

    for (int i = 0; i < 2; i++) {
        send_by_hand(&hand, "lost", &f);
        consume(&ours, "lost", &same);
    }
    print_form("sends it again: the answer was lost", hand, ours);
}

/* A token made up, another buyer's, and one that is too old. */
static void play_bad_tokens(void)
{
    told hand[3] = {0}, ours[3] = {0};
    form made_up = form_by_hand("bad"), mine = ticket("bad", HOUR_MS), another = ticket("neighbour", HOUR_MS);
    form old = form_by_hand("old"), old_ticket = ticket("old", 1000);
    long long end_ms = scene_wall_ms() + 1100;

    lks_rpc_random_id(made_up.token);
    lks_rpc_random_id(mine.token);
    send_by_hand(&hand[0], "bad", &made_up);
    consume(&ours[0], "bad", &mine);
    form theirs = form_by_hand("neighbour");
    send_by_hand(&hand[1], "bad", &theirs);
    consume(&ours[1], "bad", &another);
    while (scene_wall_ms() < end_ms)
        process_pause();
    send_by_hand(&hand[2], "old", &old);
    consume(&ours[2], "old", &old_ticket);
    print_form("makes a token up", hand[0], ours[0]);
    print_form("takes the token of another buyer", hand[1], ours[1]);
    print_form("sends it when it is too old", hand[2], ours[2]);
}

/* promise E10: a form's ticket: one order for a form however often it is sent, each tab its own; made up, another's,
 * too old: none */
TEST(test_token_of_a_form)
{
    scene_begin();
    fprintf(s.table, "scene i: the token that comes with a form: orders that are made, and what the buyer is told\n");
    fprintf(s.table, "  %-35s  %-13s  %s\n", "the buyer", "GET, then DEL", "tickets");
    play_form();
    play_two_presses();
    play_two_tabs();
    play_lost_answer();
    play_bad_tokens();
    scene_end();
}

/* ---- j: a penalty ---------------------------------------------------------------------- */

enum { ALLOWED = 5, FREE_TRIES = 7, PERIOD_MS = 1000, BAN_MS = 2000, TRIES = 10 };

static lks_check_outcome try_once(const char *who, int64_t *reset_after_ms)
{
    lks_rule rule = LKS_RULE_INIT, *rules[] = {&rule};
    lks_check_request request = LKS_CHECK_REQUEST_INIT;
    lks_check_response *response = NULL;
    lks_error error = {0};

    lks_rule_set_policy(&rule, "strict");
    rule.key = who;
    request.rules = rules;
    request.n_rules = 1;
    scene_ok(lks_rate_limit_check(s.channels[0], &request, NULL, &response, &error), &error);
    lks_check_outcome outcome = response->outcome;
    *reset_after_ms = response->rules[0]->reset_after_ms;
    lks_check_response_free(response);
    return outcome;
}

static const char *word(lks_check_outcome outcome)
{
    return outcome == LKS_CHECK_OUTCOME_ALLOWED  ? "allowed"
           : outcome == LKS_CHECK_OUTCOME_DENIED ? "denied"
           : outcome == LKS_CHECK_OUTCOME_BANNED ? "locked"
                                                 : "?";
}

static void put_policy(void)
{
    lks_put_policy_request request = LKS_PUT_POLICY_REQUEST_INIT;
    lks_limit limit = LKS_LIMIT_INIT;
    lks_penalty penalty = LKS_PENALTY_INIT;
    lks_error error = {0};

    limit.algorithm = LKS_ALGORITHM_FIXED_WINDOW;
    limit.limit = ALLOWED;
    limit.period_ms = PERIOD_MS;
    limit.penalty = &penalty;
    penalty.after = FREE_TRIES;
    penalty.ban_ms = BAN_MS;
    request.name = "strict";
    request.limit = &limit;
    scene_ok(lks_rate_limit_put_policy(s.channels[0], &request, NULL, NULL, &error), &error);
}

/* Whether the try that is too many came in the second of the first one. */
static bool play_tries(const char *robot, lks_check_outcome tries[TRIES], lks_check_outcome others[TRIES])
{
    int64_t first_ms = 0, rest_ms = 0;
    long long start_ms = process_now_ms();
    bool in_one_second = true;
    char other[48];

    for (int i = 0; i < TRIES; i++) {
        snprintf(other, sizeof other, "%s-other-%d", robot, i);
        tries[i] = try_once(robot, i == 0 ? &first_ms : &rest_ms);
        if (i == FREE_TRIES)
            in_one_second = process_now_ms() < start_ms + first_ms;
        others[i] = try_once(other, &rest_ms);
    }
    return in_one_second;
}

/* promise E11: five a second, over seven tries locked out for two seconds: which try gets what; others are not hit;
 * it ends */
TEST(test_penalty)
{
    const lks_limiter_rule rule = {.policy = "strict"};
    const lks_limiter_options options = {.rules = &rule, .n_rules = 1};
    lks_check_outcome tries[TRIES], others[TRIES];
    lks_limiter *limiter = NULL;
    lks_error error = {0};
    char robot[24];
    int round = 0;

    put_policy();
    do {
        assert_true(round < 100);
        snprintf(robot, sizeof robot, "robot-%d", round++);
    } while (!play_tries(robot, tries, others));
    scene_ok(lks_limiter_new(s.channels[0], &options, &limiter, &error), &error);
    bool freed = lks_limiter_wait(limiter, robot, 1, SCENE_LONG_MS, NULL, &error);
    lks_limiter_free(limiter);
    scene_begin();
    fprintf(s.table, "scene j: %d allowed a second, over %d tries locked out for %d s\n", ALLOWED, FREE_TRIES,
            BAN_MS / 1000);
    fprintf(s.table, "  %-14s  %-9s  %s\n", "try", "the robot", "another buyer");
    for (int i = 0; i < TRIES; i++)
        fprintf(s.table, "  %-14d  %-9s  %s\n", i + 1, word(tries[i]), word(others[i]));
    fprintf(s.table, "  %-14s  %s\n", "after the lock", freed ? "allowed" : "REFUSED");
    scene_end();
}

/* ---- k: settled behind the sale ----------------------------------------------------------- */

/* A worker is a process: settle URL REDIS-SOCKET GROUP WAY POINT. It follows the ledger of GROUP and enters each order in
 * the book, the Redis list book:GROUP. It kills itself when it comes to POINT in the third order. */
enum { ORDERS = 12, PAGE = 4, SETTLE_LEASE_MS = 400 };

typedef struct settler {
    const char *group, *way, *point, *order;
    const char *how; /* what became of the order */
} settler;

static void die_at(const settler *w, const char *point)
{
    if (strcmp(w->point, point) == 0 && strcmp(w->order, "order-3") == 0)
        raise(SIGKILL);
}

static void enter(const settler *w)
{
    scene_redis("RPUSH book:%s %s", w->group, w->order);
}

static int times_booked(const char *group, const char *order)
{
    redisReply *reply = redisCommand(s.connection, "LPOS book:%s %s COUNT 0", group, order);

    assert_non_null(reply);
    int n = (int)reply->elements;
    freeReplyObject(reply);
    return n;
}

/* The attempt before may have died after it entered the order: then it is not entered again. */
static lks_once_verdict settle_order(void *arg, lks_once_attempt *attempt)
{
    settler *w = arg;
    bool is_first = lks_once_number(attempt) == 1, is_there = !is_first && times_booked(w->group, w->order) > 0;

    die_at(w, "begun");
    if (!is_there)
        enter(w);
    w->how = is_there ? "attempt 2: finds it booked" : is_first ? "books it" : "attempt 2: books it";
    die_at(w, "booked");
    return LKS_ONCE_STORE;
}

static bool settle_once(settler *w)
{
    const lks_once_options options = {
        .scope = w->group, .key = w->order, .lease_ms = SETTLE_LEASE_MS, .wait_ms = SCENE_LONG_MS};

    w->how = "is told that it is done";
    lks_once_outcome outcome = lks_once_run(s.channels[0], &options, settle_order, w, NULL, NULL);
    die_at(w, "stored");
    return outcome == LKS_ONCE_EXECUTED || outcome == LKS_ONCE_REPLAYED;
}

/* By hand: the place in the ledger is noted before or after the order is entered. */
static bool settle_by_hand(settler *w, const char *place)
{
    bool books_first = strcmp(w->way, "books-first") == 0;

    if (!books_first)
        scene_redis("SET place:%s %s", w->group, place);
    die_at(w, "begun");
    enter(w);
    die_at(w, "booked");
    if (books_first)
        scene_redis("SET place:%s %s", w->group, place);
    w->how = "books it again";
    return true;
}

static bool settle_page(settler *w, const lks_read_ledger_response *page, char place[64])
{
    lks_trim_ledger_request trim = LKS_TRIM_LEDGER_REQUEST_INIT;
    bool by_once = strcmp(w->way, "once") == 0;

    for (size_t i = 0; i < page->n_entries; i++) {
        const lks_ledger_entry *entry = page->entries[i];
        snprintf(place, 64, "%s", entry->id);
        if (entry->kind != LKS_LEDGER_KIND_DEDUCTED)
            continue;
        w->order = entry->order_id;
        if (!(by_once ? settle_once(w) : settle_by_hand(w, place)))
            return false;
        printf("%s %s\n", w->order, w->how);
        fflush(stdout);
    }
    trim.group = w->group;
    trim.up_to = place;
    return !by_once || page->n_entries == 0 || lks_stock_trim_ledger(s.channels[0], &trim, NULL, NULL, NULL) == LKS_OK;
}

/* Ends when it has read all. With lks_once it reads from the oldest entry, and trims what is done. */
static int settle(const char *url, const char *socket, settler *w)
{
    char place[64] = "";
    size_t n = 1;
    bool good = lks_channel_open(url, NULL, &s.channels[0], NULL) == LKS_OK;

    s.connection = redisConnectUnix(socket);
    redisReply *noted = redisCommand(s.connection, "GET place:%s", w->group);
    if (noted && noted->type == REDIS_REPLY_STRING)
        snprintf(place, sizeof place, "%s", noted->str);
    freeReplyObject(noted);
    while (good && n > 0) {
        lks_read_ledger_request request = LKS_READ_LEDGER_REQUEST_INIT;
        lks_read_ledger_response *page = NULL;
        request.group = w->group;
        request.after = place;
        request.limit = PAGE;
        good =
            lks_stock_read_ledger(s.channels[0], &request, NULL, &page, NULL) == LKS_OK && settle_page(w, page, place);
        n = good ? page->n_entries : 0;
        lks_read_ledger_response_free(page);
    }
    redisFree(s.connection);
    lks_channel_close(s.channels[0]);
    return good ? 0 : 1;
}

static void sell_orders(const char *group)
{
    lks_line line = LKS_LINE_INIT, *lines[] = {&line};
    lks_deduct_request request = LKS_DEDUCT_REQUEST_INIT;
    lks_error error = {0};
    char order[24];

    scene_put_item(group, "lamp", ORDERS, 0);
    line.sku = "lamp";
    line.quantity = 1;
    request.group = group;
    request.order_id = order;
    request.lines = lines;
    request.n_lines = 1;
    for (int i = 1; i <= ORDERS; i++) {
        snprintf(order, sizeof order, "order-%d", i);
        scene_ok(lks_stock_deduct(s.channels[0], &request, NULL, NULL, &error), &error);
    }
}

/* Runs one worker to its end; what it said of the third order is copied to `how`. */
static void work(const char *group, const char *way, const char *point, char how[32])
{
    const char *argv[] = {"/proc/self/exe",
                          "settle",
                          server_fixture_url(s.servers[0]),
                          redis_fixture_socket(s.redis),
                          group,
                          way,
                          point,
                          NULL};
    process *worker = process_spawn(argv, NULL);
    int status = 0;

    assert_non_null(worker);
    assert_true(process_wait(worker, SCENE_LIMIT_MS, &status));
    assert_true(point[0] != '\0' ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL : status == 0);
    const char *third = strstr(process_output(worker), "order-3 ");
    if (third)
        sscanf(third, "order-3 %31[^\n]", how);
    process_free(worker);
}

static void play_settler(const char *way, const char *point, const char *who, const char *when)
{
    int once = 0, twice = 0, never = 0;
    char group[48], order[24], how[32] = "goes on behind it", ignored[32];

    snprintf(group, sizeof group, "settled-%s-%s", way, point);
    sell_orders(group);
    work(group, way, point, ignored);
    work(group, way, "", how);
    for (int i = 1; i <= ORDERS; i++) {
        snprintf(order, sizeof order, "order-%d", i);
        int n = times_booked(group, order);
        once += n == 1;
        twice += n > 1;
        never += n == 0;
    }
    fprintf(s.table, "  %-27s  %-19s  %-26s  %4d  %5d  %5d\n", who, when, how, once, twice, never);
}

/* promise E12: a worker that follows the ledger and settles by `lks_once` settles each order once, wherever it is
 * killed */
TEST(test_orders_settled_behind_the_sale)
{
    scene_begin();
    fprintf(s.table, "scene k: %d orders, settled behind the sale by a worker that is killed in the third\n", ORDERS);
    fprintf(s.table, "  %-27s  %-19s  %-26s  %4s  %5s  %5s\n", "the worker", "the third is", "the next worker", "once",
            "twice", "never");
    play_settler("books-first", "booked", "books, then notes its place", "booked, not noted");
    play_settler("notes-first", "begun", "notes its place, then books", "noted, not booked");
    play_settler("once", "begun", "lks_once for each order", "begun, not booked");
    play_settler("once", "booked", "", "booked, not stored");
    play_settler("once", "stored", "", "stored, not trimmed");
    scene_end();
}

int main(int argc, char **argv)
{
    if (argc == 7 && strcmp(argv[1], "settle") == 0) {
        settler w = {.group = argv[4], .way = argv[5], .point = argv[6]};
        return settle(argv[2], argv[3], &w);
    }
    return TEST_RUN(.setup_all = scene_start, .teardown_all = scene_stop);
}
