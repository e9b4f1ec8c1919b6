/* The comments of the .proto files. */
#ifndef LOCKSTOCK_CLI_COMMENTS_H
#define LOCKSTOCK_CLI_COMMENTS_H

#include <stddef.h>

/* A serialised google.protobuf.FileDescriptorSet of the contract, comments included; made by the build. */
extern const unsigned char contract_comments[];
extern const size_t contract_comments_len;

typedef struct comments comments;

/* NULL: no memory. To be freed. */
comments *comments_new(void);
void comments_free(comments *all);

/* As they stand in the file, with a space before each line; "" where there is none. Names are whole:
 * "lockstock.v1.LockService" and "Acquire"; "lockstock.v1.Target" and "mode". Valid until comments_free. */
const char *comments_of_service(const comments *all, const char *service, size_t len);
const char *comments_of_method(const comments *all, const char *service, size_t len, const char *method);
const char *comments_of_field(const comments *all, const char *message, const char *field);
const char *comments_of_message(const comments *all, const char *message);
const char *comments_of_enum(const comments *all, const char *type);
const char *comments_of_value(const comments *all, const char *type, const char *value);

/* A comment up to the end of its first sentence, in one line, cut to the size. */
void comments_sentence(const char *comment, char *to, size_t size);

#endif
