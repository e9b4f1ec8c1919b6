/* Names from a peer are cut, and written without control characters. */
#include "path.h"

#include <stdio.h>
#include <string.h>

enum { PATH_BYTES = 192, KEY_BYTES = 64 };

static void append(char path[PATH_BYTES], const char *before, const char *text, const char *after)
{
    size_t used = strlen(path);
    int n = snprintf(path + used, PATH_BYTES - used, "%s%.*s%s", before, KEY_BYTES, text, after);
    size_t end = n > 0 && (size_t)n < PATH_BYTES - used ? used + (size_t)n : PATH_BYTES - 1;

    for (size_t i = used; i < end; i++)
        if ((unsigned char)path[i] < ' ' || path[i] == 0x7f)
            path[i] = '?';
}

static void write_path(const json_path *at, char path[PATH_BYTES])
{
    char index[24];

    if (!at)
        return;
    write_path(at->outer, path);
    snprintf(index, sizeof index, "%zu", at->index);
    if (at->name)
        append(path, path[0] ? "." : "", at->name, "");
    else if (at->key)
        append(path, "[\"", at->key, "\"]");
    else
        append(path, "[", index, "]");
}

bool json_path_fail(const json_path *at, const char *whole, const char *problem, lks_error *error)
{
    char path[PATH_BYTES] = "";

    write_path(at, path);
    lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "%s: %s", path[0] ? path : whole, problem);
    if (error && !path[0])
        error->field[0] = '\0';
    return false;
}
