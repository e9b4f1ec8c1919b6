/* The usage of methods and their flags: "lock acquire [TARGET...] [--FLAG VALUE]...", "TIME", "SKU=QUANTITY". */
#ifndef LOCKSTOCK_CLI_FORM_H
#define LOCKSTOCK_CLI_FORM_H

#include <stddef.h>

#include <lockstock/rpc/method.h>

/* Writes what the flag of a field takes: the words of an enum separated by |, "" for a bool. Cut to the size. */
void form_of_field(const ProtobufCFieldDescriptor *field, char *form, size_t size);

/* Writes the words of the method, its arguments without flags, and "[--FLAG VALUE]...". */
void form_usage(const lks_rpc_method *method, char *form, size_t size);

#endif
