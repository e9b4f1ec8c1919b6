/* Flags and settings as rows of a table: what lockstockd's and lockstock-bench's are made of. What is set, what --help says
 * and what the manual pages say come from the same row. */
#ifndef LOCKSTOCK_SERVER_SETTING_H
#define LOCKSTOCK_SERVER_SETTING_H

#include <stdbool.h>
#include <stddef.h>

typedef enum key_type {
    KEY_TEXT,    /* char * */
    KEY_CHOICE,  /* char *, one of the words of help */
    KEY_NUMBER,  /* long */
    KEY_BOOL,    /* bool: true or false */
    KEY_LIST,    /* the program's own */
    KEY_SECONDS, /* double, above 0 */
    KEY_RATE     /* the same, or as many "x" */
} key_type;

typedef struct setting {
    const char *name; /* --name; name = */
    key_type type;
    size_t offset;       /* in what is filled in */
    const char *initial; /* NULL: none */
    long min, max;
    const char *help; /* of a choice: its words first, with ", " or " or " between, to the colon if there is one */
} setting;

/* The row of that name, of len bytes; NULL: there is none. */
const setting *setting_find(const setting *table, size_t n, const char *name, size_t len);

/* "--name=value" or "--name" is taken apart: the name's row, NULL where there is none; *value NULL: it has none. */
const setting *setting_of_flag(const setting *table, size_t n, const char *arg, const char **value);

enum { SETTING_WHY_BYTES = 96 };

/* Whether the row takes the text; else why not: "must be ...". Of TEXT and LIST nothing is checked, of RATE what is before
 * an "x". */
bool setting_takes(const setting *row, const char *text, char why[SETTING_WHY_BYTES]);

/* Fills in the member, which the row takes, of NUMBER, BOOL, SECONDS and RATE. */
void setting_fill(const setting *row, void *into, const char *text);

/* What --help and manual pages call that which it takes: "NUMBER"; "" of a BOOL. */
const char *setting_form(const setting *row);

#endif
