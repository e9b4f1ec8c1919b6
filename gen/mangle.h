/* How names of a .proto become names in C: ours, as the table in gen/README.md
 * says, and protoc-c's, which ours stand on. Pure; results live in the pool. */
#ifndef LOCKSTOCK_GEN_MANGLE_H
#define LOCKSTOCK_GEN_MANGLE_H

#include <stdbool.h>

#include "pool.h"

/* "Order.HTTPLine" -> "order_http_line". */
char *mangle_snake(gen_pool *pool, const char *name);
char *mangle_upper(gen_pool *pool, const char *name);

/* "ShopService" -> "Shop"; "Service" stays. */
char *mangle_service(gen_pool *pool, const char *name);

/* "shop.v1" -> "shop_v1". */
char *mangle_package(gen_pool *pool, const char *package);

/* Keywords of C or C++, macros without parameters such as errno and linux, and types such as size_t. */
bool mangle_is_taken(const char *name);

/* A member's name: an underscore is put behind what is taken. */
char *mangle_member(gen_pool *pool, const char *name);

/* The member of a message that a field is; and as protoc-c calls it, which leaves some of
 * what is taken as it is. */
char *mangle_field(gen_pool *pool, const char *name);
char *mangle_pb_field(gen_pool *pool, const char *name);
bool mangle_is_left_by_protobuf_c(const char *name, size_t len);

/* "shop/v1/shop.proto" -> "shop_2fv1_2fshop_2eproto"; no two paths alike. */
char *mangle_guard(gen_pool *pool, const char *path);

/* Letters, digits and underscores, a letter first (an underscore first is the C
 * library's). */
bool mangle_is_prefix(const char *name);

/* protoc-c's spelling of "shop.v1.BuyRequest": Shop__V1__BuyRequest,
 * shop__v1__buy_request, SHOP__V1__BUY_REQUEST; and of one part of a name. */
char *mangle_pb_type(gen_pool *pool, const char *full_name);
char *mangle_pb_lower(gen_pool *pool, const char *full_name);
char *mangle_pb_upper(gen_pool *pool, const char *full_name);

#endif
