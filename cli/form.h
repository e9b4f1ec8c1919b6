/* What the command line takes for a method and its fields, as people write it: "lock acquire [TARGET...] [--FLAG VALUE]...",
 * "TIME", "SKU=QUANTITY". Pure. */
#ifndef LOCKSTOCK_CLI_FORM_H
#define LOCKSTOCK_CLI_FORM_H

#include <stddef.h>

#include <lockstock/rpc/method.h>

/* What its flag takes; of an enum its words, with | between; "" of a bool. Cut to the size. */
void form_of_field(const ProtobufCFieldDescriptor *field, char *form, size_t size);

/* The method, what may stand without a flag, and that there are flags. */
void form_usage(const lks_rpc_method *method, char *form, size_t size);

#endif
