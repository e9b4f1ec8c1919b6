/* Invariant: a connection passes only after every step of the table, in order, one command at a time. A cause that may
 * change (credentials, LOADING, a replica) drops the connection; a cause in the store's design or data is also
 * fatal. */
#include "store/greeting.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "store/errors.h"
#include "store/value.h"

enum { VERSION_MIN = 7, WORDS_MAX = SAFETY_WORDS, TEXT_BYTES = 192 };

/* A step sends words, if it has any, and checks the reply. */
typedef struct step {
    size_t (*words)(greeting *g, const char **words);
    void (*check)(greeting *g, const redisReply *reply);
} step;

static void next(greeting *g);

static void drop(greeting *g, lks_reason reason, const char *text)
{
    connection_drop(g->connection, (store_fault){reason, text});
}

static void set_fatal(greeting *g, lks_reason reason, const char *text)
{
    if (g->on_fatal)
        g->on_fatal(g->arg, (store_fault){reason, text});
    drop(g, reason, text);
}

static bool is_error(const redisReply *reply, const char *beginning)
{
    return reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, beginning, strlen(beginning)) == 0;
}

/* Sentinels have a separate password setting. */
static const char *setting_of(const greeting *g, const redisReply *reply)
{
    bool of_login = is_error(reply, "NOAUTH ") || is_error(reply, "WRONGPASS ") || is_error(reply, "ERR AUTH ");

    return g->sentinel && of_login ? " (--store-sentinel-password-file)" : "";
}

/* Redis' own text is not logged: the text for AUTH may contain a user's name. */
static void drop_for_reply(greeting *g, const redisReply *reply)
{
    char text[TEXT_BYTES];
    store_fault fault = errors_of_reply(reply, "the store's answer to the greeting is not understood");

    snprintf(text, sizeof text, "%s%s", fault.text, setting_of(g, reply));
    drop(g, fault.reason, text);
}

/* ---- credentials, database ----------------------------------------------------- */

size_t greeting_auth_words(const login *as, const char **words)
{
    size_t n = 0;

    if (!as->password)
        return 0;
    words[n++] = "AUTH";
    if (as->user)
        words[n++] = as->user;
    words[n++] = as->password;
    return n;
}

static size_t auth_words(greeting *g, const char **words)
{
    return greeting_auth_words(g->as, words);
}

static size_t select_words(greeting *g, const char **words)
{
    if (g->db == 0)
        return 0;
    snprintf(g->db_text, sizeof g->db_text, "%u", (unsigned)g->db);
    words[0] = "SELECT";
    words[1] = g->db_text;
    return 2;
}

static void check_ok(greeting *g, const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_STATUS)
        next(g);
    else
        drop_for_reply(g, reply);
}

static void check_select(greeting *g, const redisReply *reply)
{
    char text[TEXT_BYTES];

    if (is_error(reply, "ERR DB index is out of range")) {
        snprintf(text, sizeof text, "the store has no database %u (--store)", (unsigned)g->db);
        drop(g, LKS_REASON_STORE_NO_DATABASE, text);
    } else if (is_error(reply, "ERR SELECT is not allowed in cluster mode")) {
        drop(g, LKS_REASON_STORE_MISFIT, GREETING_OF_CLUSTER);
    } else {
        check_ok(g, reply);
    }
}

/* ---- version, role ------------------------------------------------------------- */

static size_t hello_words(greeting *g, const char **words)
{
    (void)g;
    words[0] = "HELLO";
    return 1;
}

static void check_hello(greeting *g, const redisReply *reply)
{
    char text[TEXT_BYTES];

    if (is_error(reply, "ERR unknown command")) {
        set_fatal(g, LKS_REASON_STORE_MISFIT, "the store is older than Redis 7.0, or not Redis");
    } else if (reply->type != REDIS_REPLY_ARRAY) {
        drop_for_reply(g, reply);
    } else if (strtol(value_field_text(reply, "version"), NULL, 10) < VERSION_MIN) {
        snprintf(text, sizeof text, "the store is Redis %.32s; 7.0 or newer is needed",
                 value_field_text(reply, "version"));
        set_fatal(g, LKS_REASON_STORE_MISFIT, text);
    } else if (g->sentinel != (strcmp(value_field_text(reply, "mode"), "sentinel") == 0)) {
        drop(g, LKS_REASON_STORE_MISFIT,
             g->sentinel ? "the peer is not a Redis Sentinel" : "the peer is a Redis Sentinel");
    } else if (!g->sentinel && !g->any_role && strcmp(value_field_text(reply, "role"), "master") != 0) {
        drop(g, LKS_REASON_STORE_IS_REPLICA, "the store is a read-only replica");
    } else {
        snprintf(g->version, sizeof g->version, "%s", value_field_text(reply, "version"));
        g->cluster = strcmp(value_field_text(reply, "mode"), "cluster") == 0;
        next(g);
    }
}

/* ---- which node ------------------------------------------------------------------ */

static size_t id_words(greeting *g, const char **words)
{
    if (!g->id)
        return 0;
    words[0] = "CLUSTER";
    words[1] = "MYID";
    return 2;
}

static void check_id(greeting *g, const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_STRING)
        drop_for_reply(g, reply);
    else if (strcmp(reply->str, g->id) != 0)
        drop(g, LKS_REASON_STORE_CLUSTER_DOWN, "another node of the cluster answers at its address");
    else
        next(g);
}

/* ---- safety -------------------------------------------------------------------- */

static size_t config_words(greeting *g, const char **words)
{
    (void)g;
    return safety_words(words);
}

static void check_config(greeting *g, const redisReply *reply)
{
    char text[TEXT_BYTES];

    g->safety = safety_of(reply);
    if (g->safety.danger && !g->allow_unsafe) {
        snprintf(text, sizeof text, "%s; --allow-unsafe-store accepts that", g->safety.danger);
        set_fatal(g, LKS_REASON_STORE_UNSAFE, text);
        return;
    }
    safety_log(&g->safety, NULL, g->allow_unsafe);
    next(g);
}

/* ---- data layout --------------------------------------------------------------- */

/* GET comes first: Redis refuses SET when memory is full, and Release must still work. */
static size_t get_schema_words(greeting *g, const char **words)
{
    (void)g;
    words[0] = "GET";
    words[1] = GREETING_SCHEMA_KEY;
    return 2;
}

static size_t set_schema_words(greeting *g, const char **words)
{
    if (g->has_schema)
        return 0;
    words[0] = "SET";
    words[1] = GREETING_SCHEMA_KEY;
    words[2] = STORE_LAYOUT;
    words[3] = "NX";
    words[4] = "GET"; /* returns the version if another server was first */
    return 5;
}

static bool is_moved(const redisReply *reply)
{
    return is_error(reply, "MOVED ") || is_error(reply, "ASK ");
}

/* No release had a layout before 3. A later layout must come with a migration of the one before it. */
static void check_layout(greeting *g, const char *layout)
{
    char text[TEXT_BYTES];
    long theirs = strtol(layout, NULL, 10), ours = strtol(STORE_LAYOUT, NULL, 10);

    if (theirs == ours) {
        g->has_schema = true;
        next(g);
        return;
    }
    snprintf(text, sizeof text, "the store's data layout is version %.16s, this server's is " STORE_LAYOUT ": %s",
             layout,
             theirs > ours ? "a newer lockstockd wrote it, so run that version or a later one"
                           : "it is older than release 0.1.0 and cannot be migrated, so use an empty store");
    set_fatal(g, LKS_REASON_STORE_MISFIT, text);
}

/* Checks the reply to GET and SET; nil: there was no key. */
static void check_schema(greeting *g, const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_NIL || (g->cluster && is_moved(reply)))
        next(g); /* the greeting of the node with the key checks it */
    else if (is_error(reply, "WRONGTYPE"))
        set_fatal(g, LKS_REASON_FOREIGN_DATA, "the store holds foreign data under " GREETING_SCHEMA_KEY);
    else if (reply->type != REDIS_REPLY_STRING)
        drop_for_reply(g, reply);
    else
        check_layout(g, reply->str);
}

/* ---- the table ----------------------------------------------------------------- */

static const step steps[] = {
    {auth_words, check_ok},           {select_words, check_select},
    {hello_words, check_hello},       {id_words, check_id},
    {config_words, check_config},     {get_schema_words, check_schema},
    {set_schema_words, check_schema},
};

enum { STEPS = sizeof steps / sizeof *steps, STEPS_WITHOUT_LIBRARY = 4 };

static void on_reply(void *arg, const redisReply *reply)
{
    greeting *g = arg;

    if (reply)
        steps[g->step++].check(g, reply);
}

static void on_library(void *arg, library_verdict verdict, store_fault fault)
{
    greeting *g = arg;

    if (verdict == LIBRARY_LOADED)
        g->on_passed(g->arg);
    else if (verdict == LIBRARY_FOREIGN)
        set_fatal(g, fault.reason, fault.text);
    else
        drop(g, fault.reason, fault.text);
}

static void next(greeting *g)
{
    const char *words[WORDS_MAX];
    size_t n_steps = g->library ? STEPS : STEPS_WITHOUT_LIBRARY;

    for (; g->step < n_steps; g->step++) {
        size_t n = steps[g->step].words(g, words);
        if (n > 0) {
            connection_words(g->connection, on_reply, g, n, words);
            return;
        }
    }
    if (g->library)
        library_ensure(g->library, g->connection, on_library, g);
    else
        g->on_passed(g->arg);
}

void greeting_start(void *greeting_of, connection *c)
{
    greeting *g = greeting_of;

    g->connection = c;
    g->step = 0;
    g->has_schema = false;
    next(g);
}
