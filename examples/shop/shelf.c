#include "shelf.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lockstock/rpc/method.h>

enum { NAME_MAX_BYTES = 64, PATH_SIZE = 512, LINE_SIZE = 256 };

static lks_code failed(lks_error *error, const char *what)
{
    return lks_error_set(error, LKS_INTERNAL, LKS_APPLIED_MAYBE, "%s: %s", what, strerror(errno));
}

bool shelf_name_is_plain(const char *name)
{
    size_t len = 0;

    while (isalnum((unsigned char)name[len]) || (name[len] != '\0' && strchr("-_.", name[len])))
        len++;
    return name[0] != '.' && len > 0 && len <= NAME_MAX_BYTES && name[len] == '\0';
}

/* ---- shelves --------------------------------------------------------------------------------- */

lks_code shelf_read(const char *dir, const char *sku, lks_rpc_arena *arena, shelf *ret, lks_error *error)
{
    char path[PATH_SIZE], *entries;
    struct stat file;

    *ret = (shelf){.sku = sku, .entries = ""};
    snprintf(path, sizeof path, "%s/%s.shelf", dir, sku);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return lks_error_set(error, LKS_NOT_FOUND, LKS_APPLIED_NO, "sku: no such goods");
    char *text = fd >= 0 && fstat(fd, &file) == 0 ? lks_rpc_arena_alloc(arena, (size_t)file.st_size + 1) : NULL;
    bool good = text && read(fd, text, (size_t)file.st_size) == file.st_size;
    if (fd >= 0)
        close(fd);
    if (!good)
        return failed(error, path);
    ret->left = strtoll(text, &entries, 10);
    ret->fence = strtoull(entries, &entries, 10);
    ret->entries = *entries == '\n' ? entries + 1 : "";
    return LKS_OK;
}

/* Returns whether a higher fence has written. The caller holds the lock of the file. */
static bool is_late(const char *path, uint64_t fence)
{
    FILE *file = fopen(path, "r");
    uint64_t seen = 0;

    if (file) {
        if (fscanf(file, "%*d %" SCNu64, &seen) != 1)
            seen = 0;
        fclose(file);
    }
    return fence != 0 && fence < seen;
}

lks_code shelf_write(const char *dir, const shelf *s, uint64_t fence, lks_error *error)
{
    char path[PATH_SIZE], lock[PATH_SIZE], next[PATH_SIZE];
    lks_code code = LKS_OK;

    snprintf(path, sizeof path, "%s/%s.shelf", dir, s->sku);
    snprintf(lock, sizeof lock, "%s/%s.lock", dir, s->sku);
    snprintf(next, sizeof next, "%s/%s.next", dir, s->sku);
    /* The lock covers the fence check and the write, not the read before them. */
    int fd = open(lock, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || flock(fd, LOCK_EX) != 0) {
        code = failed(error, lock);
    } else if (is_late(path, fence)) {
        code = lks_error_set(error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO, "a later one was at the shelf");
    } else {
        FILE *file = fopen(next, "w");
        bool good = file && fprintf(file, "%" PRId64 " %" PRIu64 "\n%s", s->left, fence > s->fence ? fence : s->fence,
                                    s->entries) > 0;
        good = file && fclose(file) == 0 && good;
        if (!good || rename(next, path) != 0)
            code = failed(error, path);
    }
    if (fd >= 0)
        close(fd);
    return code;
}

const char *shelf_find(const shelf *s, const char *id)
{
    size_t len = strlen(id);
    const char *line = s->entries;

    while (*line != '\0' && (strncmp(line, id, len) != 0 || line[len] != ' '))
        line += strcspn(line, "\n") + 1;
    return line;
}

bool shelf_add(shelf *s, lks_rpc_arena *arena, const char *id, const char *who, int64_t quantity)
{
    const char *entries = lks_rpc_arena_printf(arena, "%s%s %s %" PRId64 "\n", s->entries, id, who, quantity);

    s->entries = entries ? entries : s->entries;
    return entries;
}

/* ---- payments --------------------------------------------------------------------------------- */

const char *payment_make(const char *dir, const char *id, const char *who, lks_rpc_arena *arena, lks_error *error)
{
    char path[PATH_SIZE], line[LINE_SIZE], receipt[LKS_RPC_RANDOM_ID_LEN + 1];

    lks_rpc_random_id(receipt);
    snprintf(path, sizeof path, "%s/payments", dir);
    int len = snprintf(line, sizeof line, "%s %s %.12s\n", id, who, receipt);
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    bool good = fd >= 0 && write(fd, line, (size_t)len) == len;
    if (fd >= 0)
        close(fd);
    if (!good)
        failed(error, path);
    return good ? lks_rpc_arena_copy(arena, receipt, 12) : NULL;
}

const char *payment_find(const char *dir, const char *id, lks_rpc_arena *arena)
{
    char path[PATH_SIZE], line[LINE_SIZE], paid[LINE_SIZE], receipt[LINE_SIZE];
    const char *found = NULL;

    snprintf(path, sizeof path, "%s/payments", dir);
    FILE *file = fopen(path, "r");
    while (file && !found && fgets(line, sizeof line, file))
        if (sscanf(line, "%255s %*s %255s", paid, receipt) == 2 && strcmp(paid, id) == 0)
            found = lks_rpc_arena_copy(arena, receipt, strlen(receipt));
    if (file)
        fclose(file);
    return found;
}
