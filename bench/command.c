/* Arguments are in the order of server/functions/arguments.txt. */
#include "command.h"

#include <stdarg.h>
#include <stdio.h>

#include "functions/library.h"

void command_clear(command *c)
{
    c->argc = 0;
    c->used = 0;
}

void command_words(command *c, ...)
{
    const char *word;
    va_list words;

    va_start(words, c);
    while ((word = va_arg(words, const char *)))
        c->argv[c->argc++] = word;
    va_end(words);
}

const char *command_text(command *c, const char *format, ...)
{
    char *text = c->text + c->used;
    va_list args;

    va_start(args, format);
    c->used += (size_t)vsnprintf(text, sizeof c->text - c->used, format, args) + 1;
    va_end(args);
    return text;
}

void command_fcall(command *c, const char *function, const char *thing)
{
    command_clear(c);
    command_words(c, "FCALL", command_text(c, "%s_%s", function, functions_digest), "1",
                  command_text(c, "ls:{default/%s}:", thing), NULL);
}

void command_deduct(command *c, const char *thing, const char *order_id)
{
    command_words(c, "4", order_id, "" /* buyer */, thing, "1" /* quantity */, NULL);
}
