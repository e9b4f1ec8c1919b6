#include "base/keys.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Removes the blanks around the text. */
static char *trim(char *text)
{
    while (is_blank(*text))
        text++;
    for (char *end = text + strlen(text); end > text && is_blank(end[-1]); end--)
        end[-1] = '\0';
    return text;
}

/* A comment line begins with # or ;. */
static bool take_line(char *line, unsigned number, keys_take *take, void *arg)
{
    char *key = trim(line), *value = strpbrk(key, "=:");

    if (*key == '\0' || *key == '#' || *key == ';')
        return true;
    if (*key == '[' || !value) {
        take(arg, number, NULL, *key == '[' ? "sections are not supported in this file" : "must be `key = value`");
        return false;
    }
    *value++ = '\0';
    return take(arg, number, trim(key), trim(value));
}

/* Rejects a NUL, which would silently cut the value. */
static bool take_bytes(char *line, size_t len, unsigned number, keys_take *take, void *arg)
{
    if (!memchr(line, '\0', len))
        return take_line(line, number, take, arg);
    take(arg, number, NULL, "contains a NUL");
    return false;
}

void keys_read(const char *path, keys_take *take, void *arg)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t len;
    bool good = true;
    FILE *file = fopen(path, "re");

    for (unsigned number = 1; file && good && (len = getline(&line, &room, file)) >= 0; number++)
        good = take_bytes(line, (size_t)len, number, take, arg);
    if (good && (!file || ferror(file)))
        take(arg, 0, NULL, strerror(errno));
    free(line);
    if (file)
        fclose(file);
}
