/* Invariant: LOADED only after the code in Redis was compared with ours, whoever loaded it.
 *
 * ensure:  FUNCTION LIST --ours--> LOADED      --other text--> FOREIGN
 *             | none
 *          FUNCTION LOAD --ok--> LOADED        --already exists--> LIST again, once
 *
 * keep:    TIME --> HSET our digest, FUNCTION LIST --> HGET each other's --> FUNCTION DELETE, HDEL */
#include "store/library.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "memory.h"
#include "store/errors.h"
#include "store/value.h"

#define NAME_PREFIX "lockstock_"

/* ---- ensure -------------------------------------------------------------------- */

static void list(library *l);

static void end(library *l, library_verdict verdict, store_fault fault)
{
    library_done *done = l->done;

    l->done = NULL;
    done(l->arg, verdict, fault);
}

static void fail(library *l, const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_ERROR)
        log_error("library-not-loaded", "library=%s error=\"%s\"", l->name, reply->str);
    end(l, LIBRARY_FAILED, errors_of_reply(reply, "the store's answer is not a library"));
}

static void on_loaded(void *arg, const redisReply *reply)
{
    library *l = arg;

    if (!reply)
        return;
    if (reply->type != REDIS_REPLY_ERROR) {
        log_info("library-loaded", "library=%s", l->name);
        end(l, LIBRARY_LOADED, (store_fault){0});
    } else if (!l->listed_again && strstr(reply->str, "already exists")) {
        l->listed_again = true; /* another server was faster: compare the library that it loaded */
        list(l);
    } else {
        fail(l, reply);
    }
}

static void on_listed(void *arg, const redisReply *reply)
{
    library *l = arg;
    const char *load[] = {"FUNCTION", "LOAD", l->text};

    if (!reply)
        return;
    if (reply->type != REDIS_REPLY_ARRAY) {
        fail(l, reply);
        return;
    }
    if (reply->elements == 0) {
        connection_words(l->connection, on_loaded, l, 3, load);
        return;
    }
    if (strcmp(value_field_text(reply->element[0], "library_code"), l->text) == 0)
        end(l, LIBRARY_LOADED, (store_fault){0});
    else
        end(l, LIBRARY_FOREIGN,
            STORE_FAULT(
                STORE_MISFIT,
                "the store has a function library with this server's name but another text: its file is damaged "
                "(restore a backup), or somebody changed the library (FUNCTION DELETE it)"));
}

static void list(library *l)
{
    const char *words[] = {"FUNCTION", "LIST", "LIBRARYNAME", l->name, "WITHCODE"};

    connection_words(l->connection, on_listed, l, 5, words);
}

void library_ensure(library *l, connection *c, library_done *done, void *arg)
{
    l->connection = c;
    snprintf(l->name, sizeof l->name, NAME_PREFIX "%s", l->digest);
    l->done = done;
    l->arg = arg;
    l->listed_again = false;
    list(l);
}

/* ---- keep ---------------------------------------------------------------------- */

/* Another library, while its last use is read. */
typedef struct suspect {
    library *library;
    char name[LIBRARY_NAME_BYTES];
} suspect;

static void on_written(void *arg, const redisReply *reply)
{
    (void)arg;
    if (reply && reply->type == REDIS_REPLY_ERROR)
        log_warn("library-upkeep-failed", "error=\"%s\"", reply->str);
}

/* Compares two times as text; a text that is not a time is not long ago. */
static bool is_long_ago(const char *then_text, const char *now_text)
{
    unsigned long long then = strtoull(then_text, NULL, 10), now = strtoull(now_text, NULL, 10);

    return now > then && now - then > LIBRARY_UNUSED_DAYS * 86400ULL;
}

/* A library without a note may belong to a server that is starting: it gets a note, and is deleted 7 days later if it
 * stays unused. */
static void on_last_use(void *arg, const redisReply *reply)
{
    suspect *s = arg;
    library *l = s->library;
    const char *digest = s->name + strlen(NAME_PREFIX);
    const char *note[] = {"HSETNX", l->uses, digest, l->now};
    const char *delete[] = {"FUNCTION", "DELETE", s->name};
    const char *forget[] = {"HDEL", l->uses, digest};

    if (reply && reply->type == REDIS_REPLY_NIL) {
        connection_words(l->connection, on_written, l, 4, note);
    } else if (reply && reply->type == REDIS_REPLY_STRING && is_long_ago(reply->str, l->now)) {
        log_info("library-deleted", "library=%s unused_days=%d", s->name, LIBRARY_UNUSED_DAYS);
        connection_words(l->connection, on_written, l, 3, delete);
        connection_words(l->connection, on_written, l, 3, forget);
    }
    free(s);
}

static void read_last_use(library *l, const char *name)
{
    suspect *s = memory_alloc(sizeof *s);
    const char *words[] = {"HGET", l->uses, s->name + strlen(NAME_PREFIX)};

    s->library = l;
    snprintf(s->name, sizeof s->name, "%s", name);
    connection_words(l->connection, on_last_use, s, 3, words);
}

static void on_libraries(void *arg, const redisReply *reply)
{
    library *l = arg;

    l->keeping = false;
    for (size_t i = 0; reply && reply->type == REDIS_REPLY_ARRAY && i < reply->elements; i++) {
        const char *name = value_field_text(reply->element[i], "library_name");
        if (strncmp(name, NAME_PREFIX, strlen(NAME_PREFIX)) == 0 && strcmp(name, l->name) != 0 &&
            strlen(name) < LIBRARY_NAME_BYTES)
            read_last_use(l, name);
    }
}

static void on_time(void *arg, const redisReply *reply)
{
    library *l = arg;
    const char *note[] = {"HSET", l->uses, l->digest, l->now};
    const char *list_all[] = {"FUNCTION", "LIST", "LIBRARYNAME", NAME_PREFIX "*"};

    if (!reply || reply->type != REDIS_REPLY_ARRAY || reply->elements == 0 ||
        reply->element[0]->type != REDIS_REPLY_STRING) {
        l->keeping = false;
        on_written(l, reply);
        return;
    }
    snprintf(l->now, sizeof l->now, "%s", reply->element[0]->str);
    connection_words(l->connection, on_written, l, 4, note);
    connection_words(l->connection, on_libraries, l, 4, list_all);
}

void library_keep(library *l, connection *c, const char *base)
{
    const char *time = "TIME";

    if (l->keeping)
        return;
    l->keeping = true;
    l->connection = c;
    snprintf(l->uses, sizeof l->uses, "%s" LIBRARY_USES, base);
    connection_words(c, on_time, l, 1, &time);
}
