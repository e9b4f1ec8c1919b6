/* Invariant: at most one question is out, for the first `asked` messages. Used by shard.c. */
#include "store/heard.h"

#include <stdlib.h>
#include <string.h>

#include "memory.h"

typedef struct message {
    struct message *next;
    size_t len;
    char data[];
} message;

struct heard {
    heard_options options;
    message *first, **last;
    size_t n, asked;
};

static void ask(heard *h);

static message *take(heard *h)
{
    message *m = h->first;

    h->first = m->next;
    if (!h->first)
        h->last = &h->first;
    h->n--;
    return m;
}

static void on_confirmed(void *arg, bool enough)
{
    heard *h = arg;

    /* After on_missed the server looks at everything, so later messages are dropped too. Nothing is asked on a connection that
     * is being lost. */
    for (size_t n = enough ? h->asked : h->n; n > 0; n--) {
        message *m = take(h);
        if (enough)
            h->options.on_message(h->options.arg, m->data, m->len);
        free(m);
    }
    h->asked = 0;
    if (!enough)
        h->options.on_missed(h->options.arg);
    ask(h);
}

static void ask(heard *h)
{
    if (h->asked > 0 || h->n == 0)
        return;
    h->asked = h->n;
    if (!pipeline_confirm(h->options.pipeline, on_confirmed, h))
        on_confirmed(h, false);
}

void heard_add(heard *h, const char *data, size_t len)
{
    message *m = memory_alloc(sizeof *m + len);

    *m = (message){.len = len};
    memcpy(m->data, data, len);
    *h->last = m;
    h->last = &m->next;
    h->n++;
    ask(h);
}

heard *heard_new(const heard_options *options)
{
    heard *h = memory_alloc(sizeof *h);

    *h = (heard){.options = *options};
    h->last = &h->first;
    return h;
}

void heard_free(heard *h)
{
    while (h && h->first)
        free(take(h));
    free(h);
}
