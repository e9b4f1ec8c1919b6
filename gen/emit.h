/* Writes the files of a part. A model without errors only. */
#ifndef LOCKSTOCK_GEN_EMIT_H
#define LOCKSTOCK_GEN_EMIT_H

#include <stdio.h>

#include "model.h"

typedef void emit_file(FILE *out, const gen_file *file);

/* One part of what is generated; `suffix` follows the stem of the .proto. */
typedef struct emit_part {
    const char *name;   /* as --lockstock_opt says it */
    const char *suffix; /* ".lks_client" */
    emit_file *header;
    emit_file *source;
} emit_part;

extern const emit_part emit_types, emit_client, emit_server;

/* A block comment at `indent` and a newline; nothing for NULL. */
void emit_comment(FILE *out, const char *indent, const char *text);

/* What stands around every header, and the first lines of every source. `part`
 * is the emit_part's. */
void emit_header_begin(FILE *out, const gen_file *file, const emit_part *part);
void emit_extern_c_begin(FILE *out);
void emit_header_end(FILE *out);
void emit_source_begin(FILE *out, const gen_file *file, const emit_part *part);

/* The object that a binding points to. */
void emit_guard(FILE *out, const gen_guard *guard);

#endif
