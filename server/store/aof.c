/* Invariant: after aof_repair the file ends with a whole command outside of any transaction. No answered call is
 * removed: an answer is sent only after its whole transaction was written, so a torn command is the last one. If
 * commands follow it, the file is damaged and is not changed.
 *
 * redis-server can do this (aof-load-truncated, which is switched off), but version 7.0 only if the file ends
 * between two commands. If it was killed in the middle of a command inside MULTI, it keeps the MULTI and the
 * commands before the torn one, and at the next load runs the half transaction together with the first whole one
 * after it (valkey-io/valkey#4342). An order would be sold in half, or twice. It also takes damage in the middle for
 * a torn end if a length there is too long.
 *
 * After a power loss the file may end with zeros in place of bytes that never reached the disk. No command ends with
 * zero, so the file counts as ending before them.
 *
 *   file     command*
 *   command  '*' count CRLF ('$' length CRLF bytes CRLF)*count   |   '#' text CRLF */
#include "store/aof.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINE_BYTES = 512, WORD_BYTES = 16, CHUNK_BYTES = 65536, HEAD_BYTES_MAX = 64, COPIES_MAX = 10000 };

typedef enum reading { WHOLE, TORN, MALFORMED, STOPPED } reading;

typedef struct aof {
    FILE *file;
    off_t size;     /* without the zeros at its end */
    off_t at;       /* position of the reader */
    off_t begin;    /* of the last command that was read, or could not be read */
    off_t reported; /* `at` of the last call of progress */
    aof_progress *progress;
    void *arg;
    char word[WORD_BYTES]; /* the first word of the last command, if it is short */
} aof;

static reading read_line(aof *a, char *line)
{
    if (!fgets(line, LINE_BYTES, a->file))
        return TORN;
    size_t n = strlen(line);
    a->at += (off_t)n;
    if (n >= 2 && line[n - 1] == '\n' && line[n - 2] == '\r')
        return WHOLE;
    return a->at >= a->size ? TORN : MALFORMED;
}

/* Reads a line of `mark` and a number. */
static reading read_number(aof *a, char mark, long *number)
{
    char line[LINE_BYTES], *end;
    reading r = read_line(a, line);

    if (r != WHOLE)
        return r;
    errno = 0;
    *number = strtol(line + 1, &end, 10);
    return line[0] == mark && end > line + 1 && *end == '\r' && errno == 0 && *number >= 0 ? WHOLE : MALFORMED;
}

/* Reports progress every AOF_PROGRESS_BYTES. Returns false to stop. */
static bool may_continue(aof *a)
{
    if (!a->progress || a->at - a->reported < AOF_PROGRESS_BYTES)
        return true;
    a->reported = a->at;
    return a->progress(a->arg, a->at, a->size);
}

static reading read_bytes(aof *a, long n, char *word)
{
    char chunk[CHUNK_BYTES];

    word[0] = '\0';
    if (n > a->size - a->at - 2)
        return TORN;
    for (long left = n + 2; left > 0;) {
        size_t wanted = left < (long)sizeof chunk ? (size_t)left : sizeof chunk;
        if (fread(chunk, 1, wanted, a->file) != wanted)
            return TORN;
        if (left == n + 2 && n < WORD_BYTES) {
            memcpy(word, chunk, (size_t)n);
            word[n] = '\0';
        }
        left -= (long)wanted;
        a->at += (off_t)wanted;
        if (!may_continue(a))
            return STOPPED;
        if (left == 0 && chunk[wanted - 1] != '\n')
            return MALFORMED;
    }
    return WHOLE;
}

/* Reads the next command; its first word goes to a->word. */
static reading read_command(aof *a)
{
    char line[LINE_BYTES], word[WORD_BYTES];
    long n_args = 0, len;
    int first = getc(a->file);

    a->word[0] = '\0';
    ungetc(first, a->file);
    if (first == '#')
        return read_line(a, line);
    reading r = read_number(a, '*', &n_args);
    for (long i = 0; r == WHOLE && i < n_args; i++) {
        r = read_number(a, '$', &len);
        if (r == WHOLE)
            r = read_bytes(a, len, i == 0 ? a->word : word);
    }
    return r;
}

static size_t count_digits(const char *text)
{
    return strspn(text, "0123456789");
}

/* Whether text begins with a command's count and first word: "*1 CRLF $4 CRLF EXEC CRLF". */
static bool is_head(const char *text)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    size_t digits = count_digits(text + 1);
    const char *length = text + 1 + digits;

    if (*text != '*' || digits == 0 || strncmp(length, "\r\n$", 3) != 0)
        return false;
    digits = count_digits(length + 3);
    const char *word = length + 3 + digits;
    if (digits == 0 || digits > 2 || strncmp(word, "\r\n", 2) != 0)
        return false;
    size_t n = strtoul(length + 3, NULL, 10);
    return n > 0 && strspn(word + 2, letters) == n && strncmp(word + 2 + n, "\r\n", 2) == 0;
}

/* Whether a command begins after the one that could not be read. A value that looks like a command counts too: it is
 * better to refuse a file than to cut off commands. */
static bool has_commands_behind(const aof *a)
{
    char chunk[CHUNK_BYTES + 1];
    off_t at = a->begin + 1;

    while (at < a->size) {
        ssize_t n = pread(fileno(a->file), chunk, CHUNK_BYTES, at);
        if (n <= 0)
            return false;
        chunk[n] = '\0';
        bool last = at + n >= a->size;
        ssize_t looked = last ? n : n - HEAD_BYTES_MAX;
        for (const char *star = chunk; (star = memchr(star, '*', (size_t)(chunk + looked - star))); star++)
            if (is_head(star))
                return true;
        at += looked;
    }
    return false;
}

/* Reads the file. *whole: the end of its last command outside of a transaction. MALFORMED: the file is damaged at
 * a->begin. */
static reading read_file(aof *a, off_t *whole)
{
    bool inside = false;

    *whole = 0;
    while (a->at < a->size) {
        a->begin = a->at;
        reading r = may_continue(a) ? read_command(a) : STOPPED;
        if (r != WHOLE)
            return r == TORN && has_commands_behind(a) ? MALFORMED : r;
        bool begins = strcasecmp(a->word, "MULTI") == 0, ends = strcasecmp(a->word, "EXEC") == 0;
        if (begins ? inside : ends && !inside)
            return MALFORMED; /* redis-server writes them alternately */
        inside = begins || (inside && !ends);
        if (!inside)
            *whole = a->at;
    }
    return WHOLE;
}

/* Returns the file's size without the zeros at its end; -1 with errno. */
static off_t size_without_zeros(FILE *file)
{
    char chunk[CHUNK_BYTES];
    off_t size = fseeko(file, 0, SEEK_END) == 0 ? ftello(file) : -1;

    while (size > 0) {
        size_t n = size < (off_t)sizeof chunk ? (size_t)size : sizeof chunk;
        ssize_t got = pread(fileno(file), chunk, n, size - (off_t)n);
        if (got != (ssize_t)n) {
            errno = got < 0 ? errno : EIO;
            return -1;
        }
        while (n > 0 && chunk[n - 1] == '\0') {
            n--;
            size--;
        }
        if (n > 0)
            break;
    }
    return size;
}

/* Whether there are files that a manifest should name. Two files without data do not count: redis-server makes them
 * before its first manifest, and may have been killed then. */
static bool has_data(const char *dir)
{
    static const char prefix[] = "appendonly.aof.";
    char path[PATH_MAX];
    const struct dirent *entry;
    struct stat found;
    bool data = false;

    if (snprintf(path, sizeof path, "%s/appendonlydir", dir) >= (int)sizeof path)
        return false;
    DIR *files = opendir(path);
    while (files && !data && (entry = readdir(files))) {
        if (strcmp(entry->d_name, "appendonly.aof.1.incr.aof") == 0)
            data = fstatat(dirfd(files), entry->d_name, &found, AT_SYMLINK_NOFOLLOW) == 0 && found.st_size > 0;
        else
            data = strncmp(entry->d_name, prefix, sizeof prefix - 1) == 0 &&
                   strcmp(entry->d_name, "appendonly.aof.1.base.rdb") != 0;
    }
    if (files)
        closedir(files);
    return data;
}

/* Without a manifest redis-server starts with an empty store, which is correct only the first time. */
static lks_code start_empty(const char *dir, bool has_served, lks_error *error)
{
    if (!has_served && !has_data(dir))
        return LKS_OK;
    return lks_error_set(error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO,
                         "appendonlydir/appendonly.aof.manifest is missing, but %s. Restore a backup, or start with an "
                         "empty directory",
                         has_served ? "a store was served from here before" : "there are other files of a store");
}

/* Finds the last incremental file that the manifest names; "" = none. */
static int last_increment(const char *dir, char *last)
{
    char path[PATH_MAX], line[LINE_BYTES], name[LINE_BYTES], type;

    last[0] = '\0';
    if (snprintf(path, PATH_MAX, "%s/appendonlydir/appendonly.aof.manifest", dir) >= PATH_MAX)
        return ENAMETOOLONG;
    FILE *manifest = fopen(path, "re");
    if (!manifest)
        return errno;
    while (fgets(line, sizeof line, manifest))
        if (sscanf(line, "file %511s seq %*d type %c", name, &type) == 2 && type == 'i')
            memcpy(last, name, sizeof name);
    fclose(manifest);
    return 0;
}

static lks_code fail(const char *what, const char *name, int failure, lks_error *error)
{
    return lks_error_set(error, LKS_UNAVAILABLE, LKS_APPLIED_NO, "%s appendonlydir/%s: %s", what, name,
                         strerror(failure));
}

static int copy_bytes(int from, off_t at, off_t end, int to)
{
    char chunk[CHUNK_BYTES];

    while (at < end) {
        size_t wanted = end - at < (off_t)sizeof chunk ? (size_t)(end - at) : sizeof chunk;
        ssize_t n = pread(from, chunk, wanted, at);
        if (n <= 0)
            return n < 0 ? errno : EIO;
        ssize_t written = write(to, chunk, (size_t)n);
        if (written != n)
            return written < 0 ? errno : ENOSPC;
        at += n;
    }
    return fsync(to) == 0 ? 0 : errno;
}

/* Creates a file in DIR for the bytes cut off `name` at `end`. Negative: errno. */
static int open_copy(int dir_fd, const char *name, off_t end, char *copy)
{
    int fd = -1;

    errno = EEXIST;
    for (int i = 0; fd < 0 && errno == EEXIST && i < COPIES_MAX; i++)
        if (snprintf(copy, AOF_NAME_BYTES, "cut-%d-from-%lld-of-%s", i, (long long)end, name) >= AOF_NAME_BYTES)
            errno = ENAMETOOLONG;
        else
            fd = openat(dir_fd, copy, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd;
}

/* Copies the bytes from `end` on to a separate file and syncs it. */
static int keep_cut_bytes(const char *dir, const char *name, const aof *a, off_t end, char *copy)
{
    int failure = 0, fd = -1, dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (dir_fd < 0 || (fd = open_copy(dir_fd, name, end, copy)) < 0)
        failure = errno;
    else if ((failure = copy_bytes(fileno(a->file), end, a->size, fd)) != 0)
        unlinkat(dir_fd, copy, 0);
    else if (fsync(dir_fd) != 0)
        failure = errno;
    if (fd >= 0)
        close(fd);
    if (dir_fd >= 0)
        close(dir_fd);
    return failure;
}

/* Cuts the file at `end`. Keeps the cut bytes, but not zeros at the file's end. */
static int cut_at(const char *dir, const char *name, const aof *a, off_t end, aof_repaired *ret)
{
    char copy[AOF_NAME_BYTES] = "";
    int failure = 0;

    if (fseeko(a->file, 0, SEEK_END) != 0)
        return errno;
    off_t size = ftello(a->file);
    if (size == end)
        return 0;
    if (end < a->size && (failure = keep_cut_bytes(dir, name, a, end, copy)) != 0)
        return failure;
    if (ftruncate(fileno(a->file), end) != 0 || fsync(fileno(a->file)) != 0)
        return errno;
    ret->cut = size - end;
    memcpy(ret->kept, copy, sizeof copy);
    return 0;
}

static lks_code repair(const char *dir, const char *name, aof *a, aof_repaired *ret, lks_error *error)
{
    off_t whole;
    int failure;

    errno = 0;
    if ((a->size = size_without_zeros(a->file)) < 0 || fseeko(a->file, 0, SEEK_SET) != 0)
        return fail("cannot read", name, errno, error);
    reading r = read_file(a, &whole);
    if (ferror(a->file))
        return fail("cannot read", name, EIO, error);
    if (r == STOPPED)
        return lks_error_set(error, LKS_CANCELLED, LKS_APPLIED_NO, "stopped");
    if (r == MALFORMED)
        return lks_error_set(
            error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO,
            "appendonlydir/%s is damaged at byte %lld, not torn at its end; nothing was changed. Restore a "
            "backup, or see redis-check-aof",
            name, (long long)a->begin);
    failure = cut_at(dir, name, a, whole, ret);
    return failure == 0 ? LKS_OK : fail("cannot repair", name, failure, error);
}

lks_code aof_repair(const char *dir, bool has_served, aof_progress *progress, void *arg, aof_repaired *ret,
                    lks_error *error)
{
    char name[LINE_BYTES], path[PATH_MAX];
    int failure = last_increment(dir, name);

    *ret = (aof_repaired){.cut = 0};
    if (failure == ENOENT || failure == ENOTDIR)
        return start_empty(dir, has_served, error);
    if (failure == 0 && name[0] == '\0')
        return LKS_OK;
    if (failure == 0 && snprintf(path, sizeof path, "%s/appendonlydir/%s", dir, name) >= (int)sizeof path)
        failure = ENAMETOOLONG;
    if (failure != 0)
        return fail("cannot read", "appendonly.aof.manifest", failure, error);
    aof a = {.file = fopen(path, "r+e"), .progress = progress, .arg = arg};
    if (!a.file)
        return errno == ENOENT ? LKS_OK : fail("cannot open", name, errno, error); /* ENOENT: redis-server reports it */
    lks_code code = repair(dir, name, &a, ret, error);
    fclose(a.file);
    return code;
}
