/* Called by config.c and bench/options.c. */
#include "setting.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const setting *setting_find(const setting *table, size_t n, const char *name, size_t len)
{
    for (size_t i = 0; i < n; i++)
        if (strlen(table[i].name) == len && memcmp(table[i].name, name, len) == 0)
            return &table[i];
    return NULL;
}

const setting *setting_of_flag(const setting *table, size_t n, const char *arg, const char **value)
{
    const char *equals = strchr(arg, '=');
    size_t len = equals ? (size_t)(equals - arg) : strlen(arg);

    *value = equals ? equals + 1 : NULL;
    return strncmp(arg, "--", 2) == 0 ? setting_find(table, n, arg + 2, len - 2) : NULL;
}

static bool is_choice(const setting *row, const char *text)
{
    size_t len = strlen(text), ends = strcspn(row->help, ":");

    for (const char *word = row->help; word < row->help + ends; word += strcspn(word, " ,") + 1)
        if (strcspn(word, " ,:") == len && memcmp(word, text, len) == 0 && strcmp(text, "or") != 0)
            return true;
    return false;
}

static bool is_number(const setting *row, const char *text)
{
    char *end;

    errno = 0;
    long number = strtol(text, &end, 10);
    return errno == 0 && *text && !*end && number >= row->min && number <= row->max;
}

static bool is_real(const setting *row, const char *text)
{
    char *end;

    errno = 0;
    double number = strtod(text, &end);
    if (row->type == KEY_RATE && strcmp(end, "x") == 0)
        end++;
    return errno == 0 && end != text && !*end && number > 0 && number <= (double)row->max;
}

bool setting_takes(const setting *row, const char *text, char why[SETTING_WHY_BYTES])
{
    switch (row->type) {
    case KEY_CHOICE:
        snprintf(why, SETTING_WHY_BYTES, "must be %.*s", (int)strcspn(row->help, ":"), row->help);
        return is_choice(row, text);
    case KEY_NUMBER:
        snprintf(why, SETTING_WHY_BYTES, "must be a number from %ld to %ld", row->min, row->max);
        return is_number(row, text);
    case KEY_BOOL:
        snprintf(why, SETTING_WHY_BYTES, "must be true or false");
        return strcmp(text, "true") == 0 || strcmp(text, "false") == 0;
    case KEY_SECONDS:
    case KEY_RATE:
        snprintf(why, SETTING_WHY_BYTES, "must be a positive number");
        return is_real(row, text);
    default:
        return true;
    }
}

void setting_fill(const setting *row, void *into, const char *text)
{
    void *at = (char *)into + row->offset;

    if (row->type == KEY_NUMBER)
        *(long *)at = strtol(text, NULL, 10);
    else if (row->type == KEY_BOOL)
        *(bool *)at = text[0] == 't';
    else
        *(double *)at = strtod(text, NULL);
}

const char *setting_form(const setting *row)
{
    static const char *const forms[] = {
        [KEY_TEXT] = "TEXT", [KEY_CHOICE] = "WORD",     [KEY_NUMBER] = "NUMBER", [KEY_BOOL] = "",
        [KEY_LIST] = "TEXT", [KEY_SECONDS] = "SECONDS", [KEY_RATE] = "NUMBER",
    };

    return forms[row->type];
}
