#include "news.h"

#include <stdarg.h>
#include <stdio.h>

void news_add(news *n, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(n->texts[n->n % NEWS_KEPT], NEWS_TEXT_MAX, format, args);
    va_end(args);
    n->n++;
}

const char *news_at(const news *n, size_t index)
{
    return index < n->n && index + NEWS_KEPT >= n->n ? n->texts[index % NEWS_KEPT] : NULL;
}
