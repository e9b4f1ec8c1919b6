/* Called by server.c. */
#include "console/console.h"

#include "standard/reflection.h"

/* The page runs only its own files and sends nothing to other sites, and no other site can show it in a frame. */
static const http_page_field fields[] = {
    {"content-security-policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; "
     "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"},
    {"referrer-policy", "no-referrer"},
    {"location", "/console/"}, /* used only by `moved` */
};
enum { FIELDS = sizeof fields / sizeof *fields };

/* The page makes the form for any method from the descriptors. */
static const console_file contract = {"/console/contract.binpb", "application/octet-stream", contract_files,
                                      &contract_files_len};

static http_page_answer moved(void *arg, const char *accept, lks_rpc_arena *arena)
{
    (void)arg;
    (void)accept;
    (void)arena;
    return (http_page_answer){
        .status = 308, .type = "text/plain; charset=utf-8", .body = lks_rpc_slice_of("/console/\n")};
}

static http_page_answer write_file(void *arg, const char *accept, lks_rpc_arena *arena)
{
    const console_file *file = arg;
    (void)accept;
    (void)arena;

    return (http_page_answer){
        .status = 200, .type = file->type, .body = {.data = (const char *)file->bytes, .len = *file->len}};
}

static http_page page_of(const console_file *file)
{
    return (http_page){
        .path = file->path, .write = write_file, .arg = (void *)file, .fields = fields, .n_fields = FIELDS - 1};
}

size_t console_pages(http_page to[CONSOLE_PAGES_MAX])
{
    size_t n = 0;

    to[n++] = (http_page){.path = "/console", .write = moved, .fields = fields, .n_fields = FIELDS};
    to[n++] = page_of(&contract);
    for (size_t i = 0; i < console_files_len; i++)
        to[n++] = page_of(&console_files[i]);
    return n;
}
