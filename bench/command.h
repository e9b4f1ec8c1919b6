/* One Redis command: words that point into itself and at what its maker keeps. The only place that builds an
 * FCALL; C++ too (peer.cc). */
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

/* Makes it empty. */
void command_clear(command *c);

/* One more word: kept where it is, or made. */
void command_add(command *c, const char *word);
void command_add_text(command *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* FCALL of a function of the library for one group: a thing that is its own. Sub-calls follow. */
void command_fcall(command *c, const char *function, const char *thing);

/* A sub-call of it: Deduct of one of the thing; ids of 1..128 bytes, kept by the caller. */
void command_deduct(command *c, const char *thing, const char *order_id);

/* The same for one exclusive lock, of a minute, without waiting. */
void command_acquire(command *c, const char *thing, const char *token);
void command_release(command *c, const char *thing, const char *token);
void command_force_release(command *c, const char *thing);

#ifdef __cplusplus
}
#endif

#endif
