/* Makes C names from names of a .proto: the names of the table in gen/README.md, and those of protoc-c. Results are in
 * the pool. */
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

/* Returns whether a name is a keyword of C or C++, a macro such as errno or linux, or a type such as size_t. */
bool mangle_is_taken(const char *name);

/* Appends an underscore to a name that is taken. */
char *mangle_member(gen_pool *pool, const char *name);

/* Return the name of a field's member; and its name by protoc-c, which leaves some taken names as they are. */
char *mangle_field(gen_pool *pool, const char *name);
char *mangle_pb_field(gen_pool *pool, const char *name);
bool mangle_is_left_by_protobuf_c(const char *name, size_t len);

/* "shop/v1/shop.proto" -> "shop_2fv1_2fshop_2eproto"; unique for each path. */
char *mangle_guard(gen_pool *pool, const char *path);

/* Returns whether a name has only letters, digits and underscores, and begins with a letter (names that begin with
 * an underscore are reserved). */
bool mangle_is_prefix(const char *name);

/* protoc-c's spellings of "shop.v1.BuyRequest": Shop__V1__BuyRequest, shop__v1__buy_request, SHOP__V1__BUY_REQUEST.
 * Also for a part of a name. */
char *mangle_pb_type(gen_pool *pool, const char *full_name);
char *mangle_pb_lower(gen_pool *pool, const char *full_name);
char *mangle_pb_upper(gen_pool *pool, const char *full_name);

#endif
