# Messages as JSON.

# what is wrong is named by its path
c_mutation(J1 rpc/json/parse.c test_json:the_path_* [[        if (!field)
            return wrong(p, &path, "unknown field");]] [[        if (!field)
            continue;]])
c_mutation(J1 rpc/json/parse.c test_json:the_path_* [[{.outer = at, .index = i}]] [[{.outer = at, .index = 0}]])
c_mutation(J1 rpc/json/parse.c test_json:the_path_* [[{.outer = at, .key = key}]] [[{.outer = at, .index = n}]])
c_mutation(J1 rpc/json/path.c test_json:the_path_* [[            path[i] = '?';]] [[            path[i] = ' ';]])

# a field stands once
c_mutation(J2 rpc/json/parse.c test_json:a_field_stands_once [[JSON_REJECT_DUPLICATES | ]] "")
c_mutation(J2 rpc/json/parse.c test_json:a_field_stands_once [[        if (met[field - type->fields])]] [[        if (false)]])
c_mutation(J2 rpc/json/parse.c test_json:a_field_stands_once
  [[    if (field_in_oneof(field) && *(uint32_t *)field_quantifier(message, field) != 0)]] [[    if (false)]])

# numbers are within their type
c_mutation(J3 rpc/json/parse.c test_json:numbers_* [[    if (number.negative ? (int64_t)number.bits < min : number.bits > max)]] [[    if (false)]])
c_mutation(J3 rpc/json/parse.c test_json:numbers_* [[(int64_t)number.bits < min :]] [[false :]])
c_mutation(J3 rpc/json/parse.c test_json:numbers_* [[ || floor(real) != real]] "")
c_mutation(J3 rpc/json/parse.c test_json:numbers_* [[ && real < 18446744073709551616.0)]] [[)]])
c_mutation(J3 rpc/json/parse.c test_json:numbers_* [[ || value > (UINT64_MAX - digit) / 10)]] [[)]])
c_mutation(J3 rpc/json/parse.c test_json:numbers_* [[isfinite(real) && fabs(real)]] [[false && fabs(real)]])
c_mutation(J3 rpc/json/parse.c test_json:numbers_* [[begins && ends ? ]] [[len > 0 ? ]])
c_mutation(J3 rpc/json/parse.c test_json:an_enum_* [[    if (!p->limits->open_enums && !protobuf_c]] [[    if (false && !protobuf_c]])

# what is taken passes the wire scanner
c_mutation(J4 rpc/json/parse.c test_json:text_is_* [[    if (memchr(json_string_value(json), '\0', len))]] [[    if (false)]])
c_mutation(J4 rpc/json/parse.c test_json:text_is_* [[    if (len > p->limits->string_bytes)]] [[    if (false)]])
c_mutation(J4 rpc/json/parse.c test_json:text_is_* [[return ret->len <= p->limits->bytes_bytes || ]] [[return true || ]])
c_mutation(J4 rpc/json/parse.c test_json:text_is_* [[    if (n > p->limits->elements - p->elements)]] [[    if (n > p->limits->elements)]])
c_mutation(J4 rpc/json/parse.c test_json:text_is_* [[    if (depth > p->limits->depth)]] [[    if (false)]])
c_mutation(J4 rpc/json/parse.c test_json:text_is_* [[    if (depth >= p->limits->depth)]] [[    if (false)]])
c_mutation(J4 base/base64.c test_json:text_is_* [[    if (len % 4 == 1)]] [[    if (false)]])
c_mutation(J4 base/base64.c test_json:text_is_* [[        if (value < 0)]] [[        if (false)]])
