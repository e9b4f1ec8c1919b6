/* Called by server.c. */
#include "reload.h"

static void read_files(uv_work_t *work)
{
    reload *r = work->data;

    r->code = identity_load(r->config->policy, r->config->tokens, &r->loaded, &r->error);
}

static void free_identity(uv_work_t *work)
{
    const reload *r = work->data;

    identity_free(r->loaded);
}

static void on_freed(uv_work_t *work, int status)
{
    reload *r = work->data;
    bool again = r->again;
    (void)status;

    r->runs = r->again = false;
    if (again)
        reload_begin(r);
}

static void on_read(uv_work_t *work, int status)
{
    reload *r = work->data;
    (void)status;

    r->use(r->arg, &r->loaded, r->code, &r->error);
    uv_queue_work(r->loop, work, free_identity, on_freed);
}

void reload_begin(reload *r)
{
    r->again = r->runs;
    if (r->runs)
        return;
    r->runs = true;
    r->loaded = NULL;
    lks_error_clear(&r->error);
    r->work.data = r;
    uv_queue_work(r->loop, &r->work, read_files, on_read);
}
