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

static void sub_call(command *c, const char *const args[], size_t n)
{
    command_add_text(c, "%zu", n);
    for (size_t i = 0; i < n; i++)
        command_add(c, args[i]);
}

void command_deduct(command *c, const char *thing, const char *order_id)
{
    const char *const args[] = {order_id, "" /* buyer */, thing, "1" /* quantity */};

    sub_call(c, args, sizeof args / sizeof *args);
}

void command_acquire(command *c, const char *thing, const char *token)
{
    const char *const args[] = {token,          "" /* owner */, "60000" /* lease_ms */, "0" /* wait_ms */,
                                "." /* copy */, thing};

    sub_call(c, args, sizeof args / sizeof *args);
}

void command_release(command *c, const char *thing, const char *token)
{
    const char *const args[] = {token, "", thing};

    sub_call(c, args, sizeof args / sizeof *args);
}

void command_force_release(command *c, const char *thing)
{
    sub_call(c, &thing, 1);
}
