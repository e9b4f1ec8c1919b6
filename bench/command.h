/* A Redis command. Its words point into it, or at texts that the caller keeps. Also for C++ (peer.cc). */
#ifndef LOCKSTOCK_BENCH_COMMAND_H
#define LOCKSTOCK_BENCH_COMMAND_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    COMMAND_SUBS_MAX = 64,
    COMMAND_WORDS_MAX = 16 + 12 * COMMAND_SUBS_MAX,
    COMMAND_TEXT_MAX = 48 * COMMAND_SUBS_MAX + 256
};

typedef struct command {
    int argc;
    const char *argv[COMMAND_WORDS_MAX];
    char text[COMMAND_TEXT_MAX];
    size_t used;
} command;

void command_clear(command *c);

/* Appends words, which the caller keeps. NULL ends them. */
void command_words(command *c, ...) __attribute__((sentinel));

/* Returns a text that is kept in the command, for command_words. */
const char *command_text(command *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Begins an FCALL of a library function for the group of a thing. Sub-calls follow, each with its number of arguments
 * first. */
void command_fcall(command *c, const char *function, const char *thing);

/* Appends a sub-call: Deduct of one unit. */
void command_deduct(command *c, const char *thing, const char *order_id);

#ifdef __cplusplus
}
#endif

#endif
