/* scdoc accepts a backslash before any character. */
#include "scd.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static bool has_pairs(const char *text)
{
    unsigned n = 0;

    for (; *text; text++)
        n += *text == '`';
    return n % 2 == 0;
}

static void put(char c, bool pairs)
{
    if (c == '`' && pairs)
        putchar('*');
    else if (strchr("\\*_#~+`<>[]|", c))
        printf("\\%c", c);
    else
        putchar(c);
}

void scd_words(const char *text)
{
    bool pairs = has_pairs(text);

    for (; *text; text++)
        put(*text == '\n' ? ' ' : *text, pairs);
}

static void indent(int tabs)
{
    while (tabs-- > 0)
        putchar('\t');
}

void scd_text(const char *text, int tabs)
{
    bool pairs = has_pairs(text), begins = true, spaced = false;

    text += strspn(text, " \n");
    for (; *text; text++) {
        if (*text == '\n' && text[1 + strspn(text + 1, " ")] == '\n') {
            printf("\n\n");
            text += strspn(text, " \n") - 1;
            begins = true;
            continue;
        }
        if (*text == ' ' || *text == '\n') {
            spaced = true;
            continue;
        }
        if (begins) {
            indent(tabs);
            if (strchr("-.|];:'", *text))
                putchar('\\');
        } else if (spaced) {
            putchar(' ');
        }
        begins = spaced = false;
        put(*text, pairs);
    }
    putchar('\n');
}

void scd_item(const char *name, const char *form, const char *help)
{
    printf("*");
    scd_words(name);
    printf("*");
    if (*form) {
        printf(" _");
        scd_words(form);
        printf("_");
    }
    printf("\n");
    if (*help)
        scd_text(help, 1);
    printf("\n");
}
