/* What happened, as lines to be read. */
#ifndef SHOW_NEWS_H
#define SHOW_NEWS_H

#include <stddef.h>

enum { NEWS_KEPT = 64, NEWS_TEXT_MAX = 160 };

/* Many lines may come at once, also more than a screen has room for: each is kept until NEWS_KEPT others have come. */
typedef struct news {
    size_t n;    /* ever */
    size_t told; /* of these: were shown to the reader */
    char texts[NEWS_KEPT][NEWS_TEXT_MAX];
} news;

void news_add(news *n, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The item that was the index-th ever; NULL when it is not kept any more, or not there yet. */
const char *news_at(const news *n, size_t index);

#endif
