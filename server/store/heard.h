/* Wake messages that wait until enough replicas have what they tell of: one may bring an answer. */
#ifndef LOCKSTOCK_SERVER_STORE_HEARD_H
#define LOCKSTOCK_SERVER_STORE_HEARD_H

#include <stddef.h>

#include "store/pipeline.h"

typedef struct heard heard;

typedef struct heard_options {
    pipeline *pipeline;
    void (*on_message)(void *arg, const char *data, size_t len);
    /* Messages were not confirmed, and are forgotten. */
    void (*on_missed)(void *arg);
    void *arg;
} heard_options;

heard *heard_new(const heard_options *options);

/* Told by on_message later, in the order of the calls. The bytes are copied. */
void heard_add(heard *heard, const char *data, size_t len);

/* Its pipeline's connection has ended. Takes NULL. */
void heard_free(heard *heard);

#endif
