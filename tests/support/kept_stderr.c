/* Standard error is replaced by an unlinked file. */
#include "support/kept_stderr.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "test.h"

enum { KEPT_BYTES = 65536 };

static struct {
    FILE *file;
    int before; /* standard error itself */
    char text[KEPT_BYTES];
} here;

void kept_stderr_begin(void)
{
    here.file = tmpfile();
    here.before = dup(STDERR_FILENO);
    assert_true(here.file && here.before >= 0);
    fflush(stderr);
    assert_true(dup2(fileno(here.file), STDERR_FILENO) >= 0);
}

const char *kept_stderr(void)
{
    fflush(stderr);
    ssize_t n = pread(fileno(here.file), here.text, sizeof here.text - 1, 0);

    assert_in_range(n, 0, sizeof here.text - 2);
    here.text[n] = '\0';
    return here.text;
}

size_t kept_stderr_count(const char *text)
{
    size_t n = 0;

    for (const char *at = strstr(kept_stderr(), text); at; at = strstr(at + 1, text))
        n++;
    return n;
}

void kept_stderr_end(void)
{
    if (!here.file)
        return;
    fflush(stderr);
    dup2(here.before, STDERR_FILENO);
    fputs(kept_stderr(), stderr);
    close(here.before);
    fclose(here.file);
    here.file = NULL;
}
