/* Invariant: after aof_mend the file ends with a command outside of any
 * transaction, as written: nothing that was answered is removed, for an answer
 * goes out only after the whole of its transaction was written.
 *
 * redis-server does this itself (aof-load-truncated), but 7.0 only when the file
 * ends between two commands. When it was killed in the middle of one inside MULTI,
 * it keeps the MULTI and what came before the torn command, appends to that, and
 * at the next load runs the half transaction together with the first whole one
 * after it (valkey-io/valkey#4342 is the same fault). One order would then be sold
 * in half, or twice.
 *
 * After a power loss the file may also end with zeros, in place of bytes that never
 * reached the disk: no command ends with one, so the file counts as ending before them.
 *
 *   file     command*
 *   command  '*' count CRLF ('$' length CRLF bytes CRLF)*count   |   '#' text CRLF */
#include "store/aof.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { LINE_BYTES = 512, WORD_BYTES = 16, CHUNK_BYTES = 65536 };

typedef enum reading { WHOLE, TORN, MALFORMED, STOPPED } reading;

typedef struct aof {
    FILE *file;
    off_t size; /* without zeros at its end */
    off_t at;   /* read so far */
    off_t told; /* of that, when it was told last */
    aof_progress *progress;
    void *arg;
    char word[WORD_BYTES]; /* the last command's first, if it is short */
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

/* A line of `mark` and a number. */
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

/* Tells how far it is, now and then. */
static bool goes_on(aof *a)
{
    if (!a->progress || a->at - a->told < AOF_PROGRESS_BYTES)
        return true;
    a->told = a->at;
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
        if (!goes_on(a))
            return STOPPED;
        if (left == 0 && chunk[wanted - 1] != '\n')
            return MALFORMED;
    }
    return WHOLE;
}

/* The next command; its first word goes to a->word. */
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

/* Where the file is to end; -1 = as it is, -2 = it was stopped. */
static off_t find_end(aof *a)
{
    off_t whole = 0; /* up to here commands outside of transactions */
    bool inside = false;

    while (a->at < a->size) {
        reading r = goes_on(a) ? read_command(a) : STOPPED;
        if (r == STOPPED)
            return -2;
        if (r == MALFORMED)
            return -1;
        if (r == TORN)
            return whole;
        if (strcasecmp(a->word, "MULTI") == 0)
            inside = true;
        else if (strcasecmp(a->word, "EXEC") == 0)
            inside = false;
        if (!inside)
            whole = a->at;
    }
    return whole;
}

/* The file's size without the zeros that it ends with; -1 with errno. */
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

/* The last incremental file that the manifest names; "" = none. */
static int last_increment(const char *dir, char *path)
{
    char line[LINE_BYTES], name[LINE_BYTES], type;

    path[0] = '\0';
    if (snprintf(path, PATH_MAX, "%s/appendonlydir/appendonly.aof.manifest", dir) >= PATH_MAX)
        return ENAMETOOLONG;
    FILE *manifest = fopen(path, "re");
    path[0] = '\0';
    if (!manifest)
        return errno == ENOENT || errno == ENOTDIR ? 0 : errno; /* nothing that could be torn */
    while (fgets(line, sizeof line, manifest))
        if (sscanf(line, "file %511s seq %*d type %c", name, &type) == 2 && type == 'i' &&
            snprintf(path, PATH_MAX, "%s/appendonlydir/%s", dir, name) >= PATH_MAX)
            path[0] = '\0';
    fclose(manifest);
    return 0;
}

static int cut_at(FILE *file, off_t end, off_t *cut)
{
    int failure = 0;

    if (fseeko(file, 0, SEEK_END) != 0)
        return errno;
    off_t size = ftello(file);
    if (size == end)
        return 0;
    if (ftruncate(fileno(file), end) != 0 || fsync(fileno(file)) != 0)
        failure = errno;
    else
        *cut = size - end;
    return failure;
}

static int mend(FILE *file, aof_progress *progress, void *arg, off_t *cut)
{
    aof a = {.file = file, .size = size_without_zeros(file), .progress = progress, .arg = arg};

    if (a.size < 0 || fseeko(file, 0, SEEK_SET) != 0)
        return errno;
    off_t end = find_end(&a);
    if (ferror(file))
        return EIO;
    if (end == -2)
        return ECANCELED;
    return end >= 0 ? cut_at(file, end, cut) : 0;
}

int aof_mend(const char *dir, aof_progress *progress, void *arg, off_t *cut)
{
    char path[PATH_MAX];
    int failure = last_increment(dir, path);

    *cut = 0;
    if (failure != 0 || path[0] == '\0')
        return failure;
    FILE *file = fopen(path, "r+e");
    if (!file)
        return errno == ENOENT ? 0 : errno; /* named before it was made */
    failure = mend(file, progress, arg, cut);
    fclose(file);
    return failure;
}
