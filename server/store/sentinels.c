/* Invariant: on_primary names an address only by an answer to a question sent after the last sentinels_recheck, with
 * the highest epoch of the last ANSWER_KEPT_MS; with a password, of addresses that most sentinels of the URL name.
 *
 *   each sentinel:  connection --greeted--> asked: MYID, MASTER, GET-MASTER-ADDR-BY-NAME, SENTINELS
 *                   subscription to +switch-master --message--> asked at once
 *
 * MASTER has the epoch and comes before the address: if the configuration changes between both, the address is newer
 * than the epoch, never older, and the next question corrects that. The leader answers with the new address before
 * it publishes +switch-master. */
#include "store/sentinels.h"

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "log.h"
#include "memory.h"
#include "base/clock.h"
#include "base/number.h"
#include "net/close_barrier.h"
#include "store/connection.h"
#include "store/errors.h"
#include "store/greeting.h"
#include "store/subscription.h"
#include "store/value.h"

enum {
    CONFIRMED_MS = 1000,
    UNCONFIRMED_MS = 200,
    ANSWER_KEPT_MS = 5000,
    UNLISTED_MS = 60 * 1000,
    SILENCE_MS = 5000,
    SENTINELS_MAX = 32,
    HOST_BYTES = 256,
    ID_BYTES = 48,
    REASON_BYTES = 256,
};

typedef struct answer {
    uint64_t asked_ns; /* 0 = none */
    long long epoch;
    char host[HOST_BYTES];
    uint16_t port;
} answer;

/* LOST <--connection--> GREETED; from both by remove_sentinel() to LEAVING. */
typedef enum sentinel_state { LOST, GREETED, LEAVING } sentinel_state;

typedef struct sentinel {
    sentinels *of;
    struct sentinel *next;
    char host[HOST_BYTES];
    uint16_t port;
    bool of_url;        /* false: another sentinel named it */
    uint64_t listed_ns; /* the last time that it was named */
    char id[ID_BYTES];  /* "" = not known yet */
    connection *connection;
    subscription *subscription;
    close_barrier barrier;
    greeting greeting;
    sentinel_state state;
    kept_fault logged;  /* why it is lost, as last logged; none: not lost */
    uint64_t asking_ns; /* 0 = no question is under way */
    bool ask_again;
    answer next_answer, answer;
} sentinel;

/*   UNCONFIRMED --a primary was named--> NAMED
 *     ^   \--it serves--> CONFIRMED <--it serves--/ |
 *     \--------- a connection to it was lost -------/
 *
 * set_state() alone changes it. Until it is CONFIRMED sentinels are asked every UNCONFIRMED_MS. */
typedef enum sentinels_state { CONFIRMED, UNCONFIRMED, NAMED } sentinels_state;

struct sentinels {
    sentinels_options options;
    connection_options to; /* all except the address */
    sentinel *first;
    unsigned n;
    uv_timer_t timer;
    sentinels_state state;
    uint64_t unconfirmed_ns; /* when the last UNCONFIRMED began */
    bool disagree;           /* too few sentinels named an address */
    const char *refusal;     /* why a sentinel did not name the primary; NULL: none refused */
    char host[HOST_BYTES];   /* of the last on_primary */
    uint16_t port;
    char generation[HOST_BYTES + 32];
    close_barrier barrier; /* counts the timer and each sentinel */
};

static void set_state(sentinels *s, sentinels_state to);
static void ask_sentinel(sentinel *e);
static void remove_sentinel(sentinel *e);
static void add_sentinel(sentinels *s, const char *host, uint16_t port, bool of_url);

/* ---- the primary --------------------------------------------------------------- */

static bool counts(const answer *a, uint64_t now_ns)
{
    return a->asked_ns > 0 && now_ns - a->asked_ns < (uint64_t)ANSWER_KEPT_MS * CLOCK_NS_PER_MS;
}

static bool same_address(const answer *a, const char *host, uint16_t port)
{
    return a->port == port && strcmp(a->host, host) == 0;
}

/* Returns the number of sentinels that name this address with this epoch. */
static unsigned votes(const sentinels *s, const answer *for_this, uint64_t now_ns)
{
    unsigned n = 0;

    for (const sentinel *e = s->first; e; e = e->next)
        n += counts(&e->answer, now_ns) && e->answer.epoch == for_this->epoch &&
             same_address(&e->answer, for_this->host, for_this->port);
    return n;
}

/* Prefers the higher epoch; then the address that more sentinels name; then the current one. */
static bool is_better(const sentinels *s, const answer *a, const answer *best, uint64_t now_ns)
{
    if (!best || a->epoch != best->epoch)
        return !best || a->epoch > best->epoch;
    unsigned for_a = votes(s, a, now_ns), for_best = votes(s, best, now_ns);
    return for_a > for_best || (for_a == for_best && same_address(a, s->host, s->port));
}

/* Two entries of the URL may be the same sentinel. */
static bool is_another(const sentinel *e)
{
    for (const sentinel *other = e->of->first; other != e; other = other->next)
        if (other->of_url && e->id[0] != '\0' && strcmp(other->id, e->id) == 0)
            return false;
    return true;
}

/* Whether the address may get the password: most sentinels of the URL name it, or it already has the password. */
static bool is_agreed(const sentinels *s, const answer *a, uint64_t now_ns)
{
    size_t n = 0;

    if (!s->options.to_primary->password || same_address(a, s->host, s->port))
        return true;
    for (const sentinel *e = s->first; e; e = e->next)
        n += e->of_url && counts(&e->answer, now_ns) && same_address(&e->answer, a->host, a->port) && is_another(e);
    return 2 * n > s->options.url->n_hosts;
}

static void choose_primary(sentinels *s)
{
    uint64_t now_ns = clock_now_ns();
    const answer *best = NULL;
    bool fresh = false;

    s->disagree = false;
    for (const sentinel *e = s->first; e; e = e->next) {
        if (!counts(&e->answer, now_ns))
            continue;
        if (!is_agreed(s, &e->answer, now_ns))
            s->disagree = true;
        else if (is_better(s, &e->answer, best, now_ns))
            best = &e->answer;
    }
    for (const sentinel *e = s->first; best && e; e = e->next)
        fresh = fresh || (e->answer.epoch == best->epoch && same_address(&e->answer, best->host, best->port) &&
                          e->answer.asked_ns >= s->unconfirmed_ns);
    if (!fresh)
        return;
    if (!same_address(best, s->host, s->port))
        log_info("store-primary", "address=%s:%u epoch=%lld", best->host, best->port, best->epoch);
    snprintf(s->host, sizeof s->host, "%s", best->host);
    s->port = best->port;
    snprintf(s->generation, sizeof s->generation, "%s:%u/%lld", s->host, s->port, best->epoch);
    if (s->state == UNCONFIRMED)
        set_state(s, NAMED);
    s->options.on_primary(s->options.arg, s->host, s->port);
}

/* ---- answers ------------------------------------------------------------------- */

static bool read_port(const char *text, uint16_t *ret)
{
    int64_t port = number_parse(text, strlen(text), UINT16_MAX);

    *ret = (uint16_t)port;
    return port > 0;
}

/* One sentinel may have two entries: by its name in the URL and by its address, or because it has moved. */
static void on_id(void *arg, const redisReply *reply)
{
    sentinel *e = arg;

    if (!reply)
        return;
    snprintf(e->id, sizeof e->id, "%s", value_text(reply));
    for (sentinel *other = e->of->first; other && e->id[0] != '\0'; other = other->next)
        if (other != e && other->state == GREETED && strcmp(other->id, e->id) == 0 && !(other->of_url && e->of_url)) {
            remove_sentinel(e->of_url ? other : e);
            return;
        }
}

static void note_refusal(const sentinel *e, const redisReply *reply)
{
    sentinels *s = e->of;

    if (reply->type != REDIS_REPLY_ERROR || s->refusal)
        return;
    s->refusal = errors_find(reply->str, reply->len)->action == ERRORS_FORBIDDEN
                     ? "the sentinel denies its user a permission"
                     : "the sentinel knows no primary of that name";
    log_warn("store-primary-unknown", "sentinel=%s:%u reason=\"%s\"", e->host, e->port, s->refusal);
}

static void on_master(void *arg, const redisReply *reply)
{
    sentinel *e = arg;

    if (!reply)
        return;
    const char *epoch = value_field_text(reply, "config-epoch");
    note_refusal(e, reply);
    e->next_answer = (answer){.asked_ns = epoch[0] != '\0' ? e->asking_ns : 0, .epoch = strtoll(epoch, NULL, 10)};
}

static void on_address(void *arg, const redisReply *reply)
{
    sentinel *e = arg;
    answer *a = &e->next_answer;

    if (!reply)
        return;
    note_refusal(e, reply);
    bool pair = reply->type == REDIS_REPLY_ARRAY && reply->elements == 2;
    const char *host = pair ? value_text(reply->element[0]) : "";
    if (host[0] == '\0' || strlen(host) >= sizeof a->host || !read_port(value_text(reply->element[1]), &a->port))
        a->asked_ns = 0;
    else
        snprintf(a->host, sizeof a->host, "%s", host);
}

static void note_listed(sentinels *s, const char *host, uint16_t port, const char *id)
{
    for (sentinel *e = s->first; e; e = e->next)
        if ((e->state == GREETED && id[0] != '\0' && strcmp(e->id, id) == 0) ||
            (e->port == port && strcmp(e->host, host) == 0)) {
            e->listed_ns = clock_now_ns();
            return;
        }
    add_sentinel(s, host, port, false);
}

static void on_listed(void *arg, const redisReply *reply)
{
    sentinel *e = arg;

    if (!reply)
        return;
    e->asking_ns = 0;
    e->answer = e->next_answer;
    for (size_t i = 0; reply->type == REDIS_REPLY_ARRAY && i < reply->elements; i++) {
        const redisReply *one = reply->element[i];
        uint16_t port;
        if (read_port(value_field_text(one, "port"), &port))
            note_listed(e->of, value_field_text(one, "ip"), port, value_field_text(one, "runid"));
    }
    if (e->answer.asked_ns > 0)
        e->of->refusal = NULL;
    if (e->ask_again)
        ask_sentinel(e);
    choose_primary(e->of);
}

static void ask_sentinel(sentinel *e)
{
    const char *name = e->of->options.url->master;
    const char *const questions[][3] = {{"SENTINEL", "MYID", NULL},
                                        {"SENTINEL", "MASTER", name},
                                        {"SENTINEL", "GET-MASTER-ADDR-BY-NAME", name},
                                        {"SENTINEL", "SENTINELS", name}};
    static connection_reply *const answers[] = {on_id, on_master, on_address, on_listed};

    if (e->state != GREETED)
        return;
    e->ask_again = e->asking_ns > 0;
    if (e->ask_again)
        return;
    e->asking_ns = clock_now_ns();
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++)
        connection_words(e->connection, answers[i], e, questions[i][2] ? 3 : 2, (const char **)questions[i]);
}

static void ask_all(sentinels *s)
{
    for (sentinel *e = s->first; e; e = e->next)
        ask_sentinel(e);
}

/* ---- one sentinel's life ------------------------------------------------------- */

static void on_greeted(void *arg)
{
    sentinel *e = arg;

    connection_ready(e->connection);
    e->state = GREETED;
    if (e->logged.text[0] != '\0')
        log_info("sentinel-back", "sentinel=%s:%u", e->host, e->port);
    fault_keep(&e->logged, (store_fault){0});
    ask_sentinel(e);
}

/* Replaces "the store", connection.c's word for every peer, with "the sentinel". */
static void name_sentinel(const char *reason, char ret[REASON_BYTES])
{
    static const char other[] = "the store";
    size_t used = 0;

    for (const char *at; used < REASON_BYTES && (at = strstr(reason, other)); reason = at + strlen(other))
        used += (size_t)snprintf(ret + used, REASON_BYTES - used, "%.*sthe sentinel", (int)(at - reason), reason);
    if (used < REASON_BYTES)
        snprintf(ret + used, REASON_BYTES - used, "%s", reason);
}

static void on_down(void *arg, store_fault fault)
{
    sentinel *e = arg;
    char text[REASON_BYTES];

    name_sentinel(fault.text, text);
    if (fault_keep(&e->logged, (store_fault){fault.reason, text}))
        log_warn("sentinel-lost", "sentinel=%s:%u reason=\"%s\"", e->host, e->port, text);
    e->state = LOST;
    e->ask_again = false;
    e->asking_ns = 0;
    connection_drop(subscription_connection(e->subscription), fault);
}

static void on_listening(void *arg)
{
    ask_sentinel(arg);
}

/* Reads "name old-host old-port new-host new-port". */
static void on_switch(void *arg, const char *data, size_t len)
{
    sentinel *e = arg;
    sentinels *s = e->of;
    char name[HOST_BYTES], host[HOST_BYTES], port_text[8], text[2 * HOST_BYTES];
    uint16_t port;

    snprintf(text, sizeof text, "%.*s", (int)len, data);
    if (sscanf(text, "%255s %255s %7s", name, host, port_text) != 3 || strcmp(name, s->options.url->master) != 0)
        return;
    ask_sentinel(e);
    if (read_port(port_text, &port))
        s->options.on_demoted(s->options.arg, host, port);
}

static void add_sentinel(sentinels *s, const char *host, uint16_t port, bool of_url)
{
    if (s->n == SENTINELS_MAX || strlen(host) >= HOST_BYTES || host[0] == '\0' || s->barrier.begun)
        return;
    sentinel *e = memory_alloc(sizeof *e), **last = &s->first;
    connection_options to = s->to;
    const subscription_options options = {.channel = "+switch-master",
                                          .as = s->options.as,
                                          .sentinel = true,
                                          .on_listening = on_listening,
                                          .on_message = on_switch,
                                          .arg = e};

    *e = (sentinel){.of = s, .port = port, .of_url = of_url, .listed_ns = clock_now_ns()};
    snprintf(e->host, sizeof e->host, "%s", host);
    e->greeting = (greeting){.as = s->options.as, .sentinel = true, .on_passed = on_greeted, .arg = e};
    to.host = e->host;
    to.port = port;
    to.on_up = greeting_start;
    to.greeting = &e->greeting;
    to.on_down = on_down;
    to.arg = e;
    e->connection = connection_open(&to);
    e->subscription = subscription_open(&options, &to);
    while (*last)
        last = &(*last)->next;
    *last = e;
    s->n++;
}

static void release(void *owner)
{
    sentinel *e = owner, **at = &e->of->first;

    while (*at != e)
        at = &(*at)->next;
    *at = e->next;
    e->of->n--;
    free(e);
}

/* Closes the connections of a sentinel, then removes it from the list. */
static void remove_sentinel(sentinel *e)
{
    if (e->state == LEAVING)
        return;
    e->state = LEAVING;
    e->answer.asked_ns = 0;
    connection_close(e->connection, &e->barrier);
    subscription_close(e->subscription, &e->barrier);
    close_barrier_add(&e->of->barrier);
    close_barrier_begin(&e->barrier, e, release, close_barrier_done, &e->of->barrier);
}

/* ---- all of them --------------------------------------------------------------- */

/* Removes lost sentinels that no other sentinel has named for UNLISTED_MS. */
static void forget_unlisted(sentinels *s)
{
    uint64_t now_ns = clock_now_ns();

    for (sentinel *e = s->first; e; e = e->next)
        if (!e->of_url && e->state == LOST && now_ns - e->listed_ns > (uint64_t)UNLISTED_MS * CLOCK_NS_PER_MS)
            remove_sentinel(e);
}

void sentinels_count(const sentinels *s, unsigned *known, unsigned *answering)
{
    *known = *answering = 0;
    for (const sentinel *e = s->first; e; e = e->next) {
        *known += e->state != LEAVING;
        *answering += e->state == GREETED;
    }
}

static void on_timer(uv_timer_t *timer)
{
    sentinels *s = timer->data;
    unsigned known, answering;

    sentinels_count(s, &known, &answering);
    if (s->state == UNCONFIRMED)
        s->options.on_unknown(s->options.arg,
                              STORE_FAULT(STORE_FAILING_OVER, answering == 0 ? "no sentinel answers"
                                                              : s->refusal   ? s->refusal
                                                              : s->disagree
                                                                  ? "too few sentinels of --store name the same primary"
                                                                  : "the sentinels have not named a primary"));
    forget_unlisted(s);
    ask_all(s);
}

static void set_state(sentinels *s, sentinels_state to)
{
    if ((to == CONFIRMED) != (s->state == CONFIRMED)) {
        unsigned ms = to == CONFIRMED ? CONFIRMED_MS : UNCONFIRMED_MS;
        uv_timer_start(&s->timer, on_timer, ms, ms);
    }
    s->state = to;
}

const char *sentinels_generation(const sentinels *s)
{
    return s->generation;
}

void sentinels_recheck(sentinels *s)
{
    s->unconfirmed_ns = clock_now_ns();
    set_state(s, UNCONFIRMED);
    ask_all(s);
}

void sentinels_confirm(sentinels *s)
{
    set_state(s, CONFIRMED);
}

sentinels *sentinels_open(const sentinels_options *options)
{
    sentinels *s = memory_alloc(sizeof *s);

    *s = (sentinels){.options = *options};
    s->to = (connection_options){.tls = options->tls,
                                 .loop = options->loop,
                                 .connect_timeout_ms = options->connect_timeout_ms,
                                 .silence_timeout_ms = SILENCE_MS};
    uv_timer_init(options->loop, &s->timer);
    s->timer.data = s;
    for (size_t i = 0; i < options->url->n_hosts; i++)
        add_sentinel(s, options->url->hosts[i].host, options->url->hosts[i].port, true);
    sentinels_recheck(s);
    return s;
}

void sentinels_close(sentinels *s, close_barrier *within)
{
    close_barrier_add(within);
    for (sentinel *e = s->first; e; e = e->next)
        remove_sentinel(e);
    close_barrier_handle(&s->barrier, &s->timer);
    close_barrier_begin(&s->barrier, s, free, close_barrier_done, within);
}
