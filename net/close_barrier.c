#include "net/close_barrier.h"

void close_barrier_add(close_barrier *b)
{
    b->open++;
}

static void release_when_closed(close_barrier *b)
{
    void (*closed)(void *arg) = b->closed;
    void *arg = b->arg;

    if (!b->begun || b->open > 0)
        return;
    b->release(b->owner);
    closed(arg);
}

void close_barrier_done(void *barrier)
{
    close_barrier *b = barrier;

    b->open--;
    release_when_closed(b);
}

static void on_handle_closed(uv_handle_t *handle)
{
    close_barrier_done(handle->data);
}

void close_barrier_handle(close_barrier *b, void *uv_handle)
{
    uv_handle_t *handle = uv_handle;

    close_barrier_add(b);
    handle->data = b;
    uv_close(handle, on_handle_closed);
}

void close_barrier_begin(close_barrier *b, void *owner, void (*release)(void *owner), void (*closed)(void *arg),
                         void *arg)
{
    b->begun = true;
    b->owner = owner;
    b->release = release;
    b->closed = closed;
    b->arg = arg;
    release_when_closed(b);
}
