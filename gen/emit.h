/* Writes the generated files. The model must have no errors. */
#ifndef LOCKSTOCK_GEN_EMIT_H
#define LOCKSTOCK_GEN_EMIT_H

#include <stdio.h>

#include "model.h"

typedef void emit_file(FILE *out, const gen_file *file);

/* A part of the generated code. `suffix` follows the stem of the .proto. */
typedef struct emit_part {
    const char *name;   /* its name in --lockstock_opt */
    const char *suffix; /* ".lks_client" */
    emit_file *header;
    emit_file *source;
} emit_part;

extern const emit_part emit_types, emit_client, emit_server;

/* Writes a block comment and a newline; nothing for NULL. */
void emit_comment(FILE *out, const char *indent, const char *text);

/* Write the lines around a header, and the first lines of a source. */
void emit_header_begin(FILE *out, const gen_file *file, const emit_part *part);
void emit_extern_c_begin(FILE *out);
void emit_header_end(FILE *out);
void emit_source_begin(FILE *out, const gen_file *file, const emit_part *part);

/* Writes a string literal for any bytes, without trigraphs or ambiguous escapes. */
void emit_string(FILE *out, const char *text);

/* Writes the guard that a binding points to. */
void emit_guard(FILE *out, const gen_guard *guard);

#endif
