/* The comments of the .proto files. */
#ifndef LOCKSTOCK_CLI_COMMENTS_H
#define LOCKSTOCK_CLI_COMMENTS_H

#include <stddef.h>

/* A serialised google.protobuf.FileDescriptorSet of the contract with its comments, made by the build. */
extern const unsigned char contract_comments[];
extern const size_t contract_comments_len;

typedef struct comments comments;

/* Returns NULL when out of memory. */
comments *comments_new(void);
void comments_free(comments *all);

/* Each returns the comment of an element as it is in the file, with a space before each line; "" if there is none.
 * Names are full: "lockstock.v1.LockService" and "Acquire", "lockstock.v1.Target" and "mode". A member NULL: the
 * comment of the type itself. Valid until comments_free. */
const char *comments_of_service(const comments *all, const char *service, size_t len, const char *method);
const char *comments_of_message(const comments *all, const char *message, const char *field);
const char *comments_of_enum(const comments *all, const char *type, const char *value);

/* Writes the first sentence of a comment on one line, cut to the size. */
void comments_sentence(const char *comment, char *to, size_t size);

#endif
