/* Invariant: the result of the callback belongs to its thread while the state is WANTED, and to the loop thread
 * otherwise. */
#include "client/call/tokens.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"

enum {
    AGAIN_MS = 1000, /* after a callback that failed while the token is still valid */
    LIFE_PARTS = 5,  /* the next token is fetched in the last part of a token's life */
};

static const char SCHEME[] = "Bearer ";

typedef enum tokens_state { TOKENS_IDLE, TOKENS_WANTED, TOKENS_FETCHED, TOKENS_CLOSED } tokens_state;

struct tokens {
    lks_channel_get_token *get;
    void *arg;
    struct loop *loop;
    loop_task *fetched;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    tokens_state state; /* under the lock */

    /* The result of the callback. */
    char given[LKS_TOKEN_BYTES_MAX + 1];
    uint32_t lasts_ms;
    lks_error error;

    /* The loop thread's. */
    char authorization[sizeof SCHEME + LKS_TOKEN_BYTES_MAX];
    uint64_t until_ns, again_ns; /* when the token ends; when the next one is fetched */
};

bool tokens_is_valid(const char *token)
{
    static const char characters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/=";
    size_t len = strspn(token, characters);

    return token[len] == '\0' && len >= 1 && len <= LKS_TOKEN_BYTES_MAX;
}

/* ---- the callback's thread ------------------------------------------------------------------- */

static void fetch(tokens *t)
{
    lks_error why = {0};

    memset(t->given, 0, sizeof t->given);
    t->lasts_ms = 0;
    lks_code code = t->get(t->arg, t->given, &t->lasts_ms, &why);
    t->given[LKS_TOKEN_BYTES_MAX] = '\0';
    if (code != LKS_OK)
        lks_error_set(&t->error, LKS_UNAUTHENTICATED, LKS_APPLIED_NO, "options.get_token: %s",
                      why.message[0] ? why.message : lks_code_name(code));
    else if (!tokens_is_valid(t->given))
        lks_error_set(&t->error, LKS_UNAUTHENTICATED, LKS_APPLIED_NO,
                      "options.get_token: the token must be 1 to %d of A-Z, a-z, 0-9 and -._~+/=", LKS_TOKEN_BYTES_MAX);
    else
        t->error = (lks_error){.code = LKS_OK};
}

static void *run(void *arg)
{
    tokens *t = arg;

    pthread_mutex_lock(&t->lock);
    while (t->state != TOKENS_CLOSED) {
        if (t->state != TOKENS_WANTED) {
            pthread_cond_wait(&t->changed, &t->lock);
            continue;
        }
        pthread_mutex_unlock(&t->lock);
        fetch(t);
        pthread_mutex_lock(&t->lock);
        if (t->state == TOKENS_CLOSED)
            break;
        t->state = TOKENS_FETCHED;
        loop_post(t->loop, t->fetched);
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

/* ---- the loop thread --------------------------------------------------------------------------- */

static void request_token(tokens *t)
{
    pthread_mutex_lock(&t->lock);
    if (t->state == TOKENS_IDLE) {
        t->state = TOKENS_WANTED;
        pthread_cond_signal(&t->changed);
    }
    pthread_mutex_unlock(&t->lock);
}

const char *tokens_get(tokens *t)
{
    uint64_t now_ns = clock_now_ns();

    if (now_ns >= t->again_ns)
        request_token(t);
    return now_ns < t->until_ns ? t->authorization : NULL;
}

const char *tokens_take(tokens *t, lks_error *error)
{
    uint64_t now_ns = clock_now_ns(), lasts_ns = t->lasts_ms * CLOCK_NS_PER_MS;
    bool good = t->error.code == LKS_OK;

    if (good) {
        snprintf(t->authorization, sizeof t->authorization, "%s%s", SCHEME, t->given);
        t->until_ns = now_ns + lasts_ns;
        t->again_ns = t->until_ns - lasts_ns / LIFE_PARTS;
    } else {
        *error = t->error;
        uint64_t again_ns = now_ns + AGAIN_MS * CLOCK_NS_PER_MS;
        t->again_ns = again_ns < t->until_ns ? again_ns : t->until_ns;
    }
    pthread_mutex_lock(&t->lock);
    t->state = TOKENS_IDLE;
    pthread_mutex_unlock(&t->lock);
    return good ? t->authorization : NULL;
}

/* ---- opening and closing ----------------------------------------------------------------------------------- */

bool tokens_is_thread(const tokens *t)
{
    return t && pthread_equal(pthread_self(), t->thread);
}

tokens *tokens_new(const lks_channel_options *options, struct loop *loop, loop_task *fetched)
{
    tokens *t = malloc(sizeof *t);

    if (!t)
        return NULL;
    *t = (tokens){.get = options->get_token, .arg = options->get_token_arg, .loop = loop, .fetched = fetched};
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->changed, NULL);
    if (pthread_create(&t->thread, NULL, run, t) == 0)
        return t;
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->lock);
    free(t);
    return NULL;
}

void tokens_free(tokens *t)
{
    if (!t)
        return;
    pthread_mutex_lock(&t->lock);
    t->state = TOKENS_CLOSED;
    pthread_cond_signal(&t->changed);
    pthread_mutex_unlock(&t->lock);
    pthread_join(t->thread, NULL);
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->lock);
    explicit_bzero(t, sizeof *t);
    free(t);
}
