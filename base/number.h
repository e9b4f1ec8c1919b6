/* Whole numbers in text. Thread-safe. */
#ifndef LOCKSTOCK_BASE_NUMBER_H
#define LOCKSTOCK_BASE_NUMBER_H

#include <stddef.h>
#include <stdint.h>

/* Returns the number that `len` decimal digits give. -1: there is no digit or another character, or it is above max. */
int64_t number_parse(const char *text, size_t len, int64_t max);

#endif
