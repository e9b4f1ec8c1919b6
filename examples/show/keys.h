/* What a pressed key does. */
#ifndef SHOW_KEYS_H
#define SHOW_KEYS_H

#include <stdbool.h>
#include <stddef.h>

#include "stage.h"

#define KEY_QUIT 'q'

extern const char keys_help[];

/* Does what the key stands for; any other does nothing, nor does KEY_QUIT, which is the caller's. */
void keys_press(stage *s, char key);

/* Keys that are pressed by themselves, each when so many of a hundred buyers have their answer from lockstock. */
enum { SCRIPT_MAX = 32 };

typedef struct script {
    size_t n, played;
    struct {
        unsigned percent;
        char key;
    } presses[SCRIPT_MAX];
} script;

/* From "30:s,50:r": in rising order, of the keys there are. False: it is none. */
bool script_parse(const char *text, script *ret);

/* The next key that is due; 0 = none. */
char script_next(script *s, unsigned percent);

#endif
