/* Wake messages that wait until enough replicas have the data behind them, because a message may contain an answer. */
#ifndef LOCKSTOCK_SERVER_STORE_HEARD_H
#define LOCKSTOCK_SERVER_STORE_HEARD_H

#include <stddef.h>

#include "store/pipeline.h"

typedef struct heard heard;

typedef struct heard_options {
    pipeline *pipeline;
    void (*on_message)(void *arg, const char *data, size_t len);
    /* Messages were not confirmed and are dropped. */
    void (*on_missed)(void *arg);
    void *arg;
} heard_options;

heard *heard_new(const heard_options *options);

/* Passes a copy to on_message later, in the order of the calls. */
void heard_add(heard *heard, const char *data, size_t len);

/* After its pipeline's connection was closed. Takes NULL. */
void heard_free(heard *heard);

#endif
