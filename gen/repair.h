/* Corrects the output of protoc-gen-c, so that it compiles as C and C++ without warnings. */
#ifndef LOCKSTOCK_GEN_REPAIR_H
#define LOCKSTOCK_GEN_REPAIR_H

#include <stdio.h>

/* Writes `text`, a .pb-c.h or .pb-c.c, with
 * - an underscore after members that are keywords or macros of C's headers and that it left unchanged
 *   (mangle_field gives the same names);
 * - the right number of braces in the initialiser of a union that begins with bytes;
 * - the defaults inf, nan and the smallest int64 in valid C;
 * - no trigraphs. */
void repair_write(FILE *out, const char *text);

/* Returns the length of the trigraph at `text`, or 0. */
size_t repair_trigraph(const char *text);

#endif
