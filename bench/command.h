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
    size_t lengths[COMMAND_WORDS_MAX];
    char text[COMMAND_TEXT_MAX];
    size_t used;
} command;

void command_clear(command *c);

/* Appends a word: a text that the caller keeps, or a formatted one. */
void command_add(command *c, const char *word);
void command_add_text(command *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Begins an FCALL of a library function for the group of a thing. Sub-calls follow. */
void command_fcall(command *c, const char *function, const char *thing);

/* Appends a sub-call: its number of arguments and the arguments, which the caller keeps. */
void command_sub(command *c, size_t n, const char *const args[]);

/* Appends a Deduct of one unit. */
void command_deduct(command *c, const char *thing, const char *order_id);

#ifdef __cplusplus
}
#endif

#endif
