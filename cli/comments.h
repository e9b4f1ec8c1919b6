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

/* Returns the comment of an element as it is in the file, with a space before each line; "" if there is none. The name,
 * of len bytes, is full: "lockstock.v1.LockService", "lockstock.v1.Target". member: "Acquire", "mode"; NULL: the comment
 * of the service, message or enum itself. Valid until comments_free. */
const char *comments_of(const comments *all, const char *name, size_t len, const char *member);

/* Writes the first sentence of a comment on one line, cut to the size. */
void comments_sentence(const char *comment, char *to, size_t size);

#endif
