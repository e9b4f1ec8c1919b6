/* Builds the model. Types of all files come first, because the messages of a method may be in any file. */
#ifndef LOCKSTOCK_GEN_BUILD_H
#define LOCKSTOCK_GEN_BUILD_H

#include "model.h"

/* Builds the model of a request. Writes errors to model->errors; if there are any, nothing may be emitted. */
void model_build(gen_model *model, const Google__Protobuf__Compiler__CodeGeneratorRequest *request);

/* The parts of model_build. */
void types_build(gen_model *model, gen_file *file);    /* enums and messages */
void members_build(gen_model *model, gen_file *file);  /* members of messages; their types may be in any file */
void services_build(gen_model *model, gen_file *file); /* services; their messages may be in any file */
void guards_build(gen_model *model, gen_method *method, const Lockstock__Rpc__V1__Guard *option);
void descriptors_build(gen_model *model, gen_file *file); /* for reflection */

#endif
