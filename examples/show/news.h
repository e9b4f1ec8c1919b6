/* What happened, as lines to be read: the last few are kept. */
#ifndef SHOW_NEWS_H
#define SHOW_NEWS_H

#include <stddef.h>

enum { NEWS_KEPT = 5, NEWS_TEXT_MAX = 160 };

typedef struct news {
    size_t n; /* ever */
    char texts[NEWS_KEPT][NEWS_TEXT_MAX];
} news;

void news_add(news *n, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The item that was the index-th ever; NULL when it is not kept any more, or not there yet. */
const char *news_at(const news *n, size_t index);

#endif
