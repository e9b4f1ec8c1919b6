/* Arguments are in the order of server/functions/arguments.txt. */
#include "command.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "functions/library.h"

void command_clear(command *c)
{
    c->argc = 0;
    c->used = 0;
}

void command_add(command *c, const char *word)
{
    c->argv[c->argc] = word;
    c->lengths[c->argc++] = strlen(word);
}

void command_add_text(command *c, const char *format, ...)
{
    char *text = c->text + c->used;
    va_list args;

    va_start(args, format);
    int n = vsnprintf(text, sizeof c->text - c->used, format, args);
    va_end(args);
    command_add(c, text);
    c->used += (size_t)n + 1;
}

void command_fcall(command *c, const char *function, const char *thing)
{
    command_clear(c);
    command_add(c, "FCALL");
    command_add_text(c, "%s_%s", function, functions_digest);
    command_add(c, "1");
    command_add_text(c, "ls:{default/%s}:", thing);
}

void command_sub(command *c, size_t n, const char *const args[])
{
    command_add_text(c, "%zu", n);
    for (size_t i = 0; i < n; i++)
        command_add(c, args[i]);
}

void command_deduct(command *c, const char *thing, const char *order_id)
{
    const char *const args[] = {order_id, "" /* buyer */, thing, "1" /* quantity */};

    command_sub(c, sizeof args / sizeof *args, args);
}
