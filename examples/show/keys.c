#include "keys.h"

#include <stdlib.h>

const char keys_help[] = "keys  kill -9: s a server, r Redis, c a client   f freeze the holders   q quit";

static const struct {
    char key;
    void (*press)(stage *s);
} keys[] = {{'s', stage_kill_server}, {'r', stage_kill_redis}, {'c', stage_kill_client}, {'f', stage_freeze}};

enum { N_KEYS = sizeof keys / sizeof *keys };

void keys_press(stage *s, char key)
{
    for (size_t i = 0; i < N_KEYS; i++)
        if (keys[i].key == key)
            keys[i].press(s);
}

static bool is_key(char key)
{
    bool known = key == KEY_QUIT;

    for (size_t i = 0; i < N_KEYS; i++)
        known |= keys[i].key == key;
    return known;
}

bool script_parse(const char *text, script *ret)
{
    unsigned long before = 0;

    *ret = (script){0};
    for (;;) {
        char *end;
        unsigned long percent = strtoul(text, &end, 10);
        if (end == text || *end != ':' || percent > 100 || percent < before || !is_key(end[1]) ||
            (end[2] != ',' && end[2] != '\0') || ret->n == SCRIPT_MAX)
            return false;
        ret->presses[ret->n].percent = (unsigned)percent;
        ret->presses[ret->n++].key = end[1];
        if (end[2] == '\0')
            return true;
        before = percent;
        text = end + 3;
    }
}

char script_next(script *s, unsigned percent)
{
    return s->played < s->n && percent >= s->presses[s->played].percent ? s->presses[s->played++].key : '\0';
}
