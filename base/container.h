/* The struct of `type` in which `member` is at `pointer`. */
#ifndef LOCKSTOCK_BASE_CONTAINER_H
#define LOCKSTOCK_BASE_CONTAINER_H

#include <stddef.h>

#define container_of(pointer, type, member) ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

#endif
