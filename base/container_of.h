/* From a member of a struct to the struct. */
#ifndef LOCKSTOCK_BASE_CONTAINER_OF_H
#define LOCKSTOCK_BASE_CONTAINER_OF_H

#include <stddef.h>

/* `pointer` points to the member `member` of a `type`. */
#define container_of(pointer, type, member) ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

#endif
