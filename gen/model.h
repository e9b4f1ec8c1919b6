/* The elements to generate, with their C names. Built once from protoc's request, then only read. It is in the pool,
 * and points into the request. */
#ifndef LOCKSTOCK_GEN_MODEL_H
#define LOCKSTOCK_GEN_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <google/protobuf/compiler/plugin.pb-c.h>
#include <lockstock/rpc/v1/options.pb-c.h>

#include "names.h"
#include "pool.h"

/* A name for a name of protoc-c: an enum value, or a case of a oneof. */
typedef struct gen_constant {
    const char *name;      /* SHOP_V1_ORDER_STATE_OPEN */
    const char *pb_name;   /* SHOP__V1__ORDER_STATE__ORDER_STATE_OPEN */
    const char *comment;   /* NULL: none, here and below */
    const char *at, *word; /* for an enum value: its place; OPEN */
} gen_constant;

/* Sets a member of a oneof, and its case. */
typedef struct gen_setter {
    const char *name;    /* shop_v1_rule_set_limit */
    const char *type;    /* "shop_v1_limit *", with the space or star before a name */
    const char *member;  /* limit */
    const char *chosen;  /* spec_case */
    const char *pb_case; /* SHOP__V1__RULE__SPEC_LIMIT */
    bool deprecated;
} gen_setter;

typedef struct gen_enum {
    const char *at;
    const char *full_name; /* shop.v1.OrderState */
    const struct gen_file *file;
    const char *outer; /* ORDER_LINE, the message that contains it; "": none */
    const Google__Protobuf__EnumDescriptorProto *proto;
    const char *name;      /* shop_v1_order_state */
    const char *name_name; /* shop_v1_order_state_name, the function */
    const char *pb_name;   /* Shop__V1__OrderState */
    const char *comment;
    size_t n_values;
    gen_constant *values; /* in the order of the .proto */
} gen_enum;

typedef struct gen_message {
    const char *at;        /* "shop.proto:12: message shop.v1.BuyRequest" */
    const char *full_name; /* shop.v1.BuyRequest */
    const struct gen_file *file;
    const Google__Protobuf__DescriptorProto *proto;
    const char *name;          /* shop_v1_buy_request */
    const char *init;          /* SHOP_V1_BUY_REQUEST_INIT */
    const char *pb_name;       /* Shop__V1__BuyRequest */
    const char *pb_init;       /* SHOP__V1__BUY_REQUEST__INIT */
    const char *pb_descriptor; /* shop__v1__buy_request__descriptor */
    const char *comment;       /* with the comments of its fields */
    const char *free;          /* shop_v1_buy_request_free; NULL: not a response */
    const char *first_try;     /* its field with this option; NULL: none */
    size_t n_cases;
    gen_constant *cases; /* of all oneofs */
    size_t n_setters;
    gen_setter *setters;
    const int32_t *path; /* its path in the file's descriptor */
    size_t depth;
} gen_message;

typedef struct gen_guard {
    const char *name; /* shop_v1_shop_buy_now_guard */
    const Lockstock__Rpc__V1__Guard *option;
    /* The outcomes of refusals, in protoc-c's spelling; "0": the refusal is a code. */
    const char *denied, *in_progress, *mismatch, *busy;
} gen_guard;

typedef struct gen_method {
    const char *at;
    const char *proto_name; /* BuyNow */
    const char *name;       /* buy_now */
    const char *member;     /* the same, with an underscore if it is a keyword */
    const char *stub;       /* shop_v1_shop_buy_now */
    const char *constant;   /* shop_v1_shop_buy_now_method */
    const char *path;       /* /shop.v1.ShopService/BuyNow */
    const char *comment;
    gen_message *request;
    gen_message *response;
    const char *effect;     /* LKS_RPC_EFFECT_WRITE */
    const char *natural_id; /* NULL = none */
    const char *fill;       /* LKS_RPC_FILL_NONE */
    bool settles, coalesce;
    const char *undo; /* the constant of the method that undoes it; NULL: none */
    const Lockstock__Rpc__V1__Undo *undo_option;
    const gen_guard *guard; /* NULL = none */
} gen_method;

typedef struct gen_service {
    const char *at;
    const char *full_name; /* shop.v1.ShopService */
    const char *name;      /* shop_v1_shop */
    const char *upper;     /* SHOP_V1_SHOP */
    const char *comment;
    size_t n_methods;
    gen_method *methods;
} gen_service;

typedef struct gen_file {
    const Google__Protobuf__FileDescriptorProto *proto;
    bool wanted;        /* protoc requests its output; else it is only imported */
    const char *stem;   /* shop/v1/shop */
    const char *guard;  /* shop_2fv1_2fshop_2eproto */
    const char *prefix; /* shop_v1 */
    const char *upper;  /* SHOP_V1 */
    size_t n_enums;
    gen_enum *enums;
    size_t n_messages;
    gen_message *messages;
    size_t n_services;
    gen_service *services;
    size_t n_imports;
    const struct gen_file **imports; /* files whose messages the methods use */
    size_t n_responses;
    const gen_message **responses; /* of the methods, each once */
    size_t n_descriptors;
    const uint8_t *descriptors; /* for reflection: a serialised FileDescriptorSet; NULL: no services */
} gen_file;

typedef struct gen_model {
    gen_pool *pool;
    gen_names names;
    FILE *errors; /* one a line, each beginning with its place */
    size_t n_files;
    gen_file *files; /* in the order of protoc: imports first */
} gen_model;

/* Return the message or enum with the name `type_name` (".shop.v1.Order"), or NULL. */
gen_message *model_find_message(const gen_model *model, const char *type_name);
const gen_enum *model_find_enum(const gen_model *model, const char *type_name);

/* Returns the place of an element: "shop.proto:12: message shop.v1.Order". */
const char *model_at(const gen_model *model, const gen_file *file, const int32_t *path, size_t depth, const char *kind,
                     const char *full_name);

/* Returns the comment of an element without its layout, or NULL. */
const char *model_comment(const gen_model *model, const gen_file *file, const int32_t *path, size_t depth);

/* Adds a name that the generated files of `file` define, by the element at `at`. Returns the name. */
const char *model_define(gen_model *model, const gen_file *file, const char *at, const char *name);

/* Writes the error "AT: text". */
void model_error(gen_model *model, const char *at, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
