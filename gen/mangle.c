/* Implements the table in gen/README.md. The rules of protoc-c are those of its c_helpers.cc: a capital begins a
 * word only after a character that is not a capital, such as a digit. */
#include "mangle.h"

#include <string.h>

static bool is_upper(char c)
{
    return c >= 'A' && c <= 'Z';
}

static bool is_lower(char c)
{
    return c >= 'a' && c <= 'z';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static char to_upper(char c)
{
    return is_lower(c) ? (char)(c - 'a' + 'A') : c;
}

static char to_lower(char c)
{
    return is_upper(c) ? (char)(c - 'A' + 'a') : c;
}

char *mangle_snake(gen_pool *pool, const char *name)
{
    char *snake = pool_alloc(pool, 2 * strlen(name) + 1, 1);
    char *out = snake;
    for (const char *in = name; *in != '\0'; in++) {
        char before = in == name ? '\0' : in[-1];
        if (is_upper(*in) && (is_lower(before) || is_digit(before) || (is_upper(before) && is_lower(in[1]))))
            *out++ = '_';
        *out++ = *in == '.' ? '_' : to_lower(*in);
    }
    return snake;
}

char *mangle_upper(gen_pool *pool, const char *name)
{
    char *upper = pool_format(pool, "%s", name);
    for (char *c = upper; *c != '\0'; c++)
        *c = to_upper(*c);
    return upper;
}

char *mangle_service(gen_pool *pool, const char *name)
{
    static const char ending[] = "Service";
    size_t len = strlen(name), cut = sizeof ending - 1;
    if (len > cut && strcmp(name + len - cut, ending) == 0)
        len -= cut;
    return pool_format(pool, "%.*s", (int)len, name);
}

char *mangle_package(gen_pool *pool, const char *package)
{
    char *prefix = pool_format(pool, "%s", package);
    for (char *c = prefix; *c != '\0'; c++)
        *c = *c == '.' ? '_' : *c;
    return prefix;
}

/* clang-format off */
/* Keywords of C and C++ to which protoc-c appends an underscore. */
static const char *const keywords[] = {
    "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break", "case", "catch", "char", "class",
    "compl", "const", "const_cast", "continue", "default", "delete", "do", "double", "dynamic_cast", "else",
    "enum", "explicit", "extern", "false", "float", "for", "friend", "goto", "if", "inline", "int", "long",
    "mutable", "namespace", "new", "not", "not_eq", "operator", "or", "or_eq", "private", "protected", "public",
    "register", "reinterpret_cast", "return", "short", "signed", "sizeof", "static", "static_cast", "struct",
    "switch", "template", "this", "throw", "true", "try", "typedef", "typeid", "typename", "union", "unsigned",
    "using", "virtual", "void", "volatile", "wchar_t", "while", "xor", "xor_eq",
};
/* Keywords to which protoc-c does not append an underscore, macros without parameters of C's headers and compilers, and
 * types of members, whose meaning a member of the same name would change in C++. */
static const char *const left[] = {
    "alignas", "alignof", "char16_t", "char32_t", "char8_t", "co_await", "co_return", "co_yield", "concept",
    "consteval", "constexpr", "constinit", "decltype", "export", "noexcept", "nullptr", "requires", "restrict",
    "static_assert", "thread_local", "typeof", "typeof_unqual", "complex", "errno", "h_addr", "h_errno", "i386",
    "imaginary", "linux", "math_errhandling", "noreturn", "s6_addr", "sa_handler", "sa_sigaction", "st_atime",
    "st_ctime", "st_mtime", "stderr", "stdin", "stdout", "unix", "int8_t", "int16_t", "int32_t", "int64_t",
    "uint8_t", "uint16_t", "uint32_t", "uint64_t", "size_t", "protobuf_c_boolean", "lks_code", "lks_error",
    "lks_rpc_context",
};
/* clang-format on */

static bool is_in(const char *const list[], size_t n, const char *name, size_t len)
{
    for (size_t i = 0; i < n; i++)
        if (strlen(list[i]) == len && memcmp(list[i], name, len) == 0)
            return true;
    return false;
}

static bool is_keyword(const char *name)
{
    return is_in(keywords, sizeof keywords / sizeof *keywords, name, strlen(name));
}

bool mangle_is_left_by_protobuf_c(const char *name, size_t len)
{
    return is_in(left, sizeof left / sizeof *left, name, len);
}

bool mangle_is_taken(const char *name)
{
    return is_keyword(name) || mangle_is_left_by_protobuf_c(name, strlen(name));
}

char *mangle_member(gen_pool *pool, const char *name)
{
    return pool_format(pool, "%s%s", name, mangle_is_taken(name) ? "_" : "");
}

static char *to_lower_all(gen_pool *pool, const char *name)
{
    char *lower = pool_format(pool, "%s", name);
    for (char *c = lower; *c != '\0'; c++)
        *c = to_lower(*c);
    return lower;
}

char *mangle_field(gen_pool *pool, const char *name)
{
    return mangle_member(pool, to_lower_all(pool, name));
}

char *mangle_pb_field(gen_pool *pool, const char *name)
{
    char *lower = to_lower_all(pool, name);
    return pool_format(pool, "%s%s", lower, is_keyword(lower) ? "_" : "");
}

char *mangle_guard(gen_pool *pool, const char *path)
{
    char *guard = pool_alloc(pool, 3 * strlen(path) + 1, 1);
    char *out = guard;
    for (const char *in = path; *in != '\0'; in++) {
        if (is_upper(*in) || is_lower(*in) || is_digit(*in)) {
            *out++ = *in;
        } else {
            static const char hex[] = "0123456789abcdef";
            *out++ = '_';
            *out++ = hex[(unsigned char)*in >> 4];
            *out++ = hex[(unsigned char)*in & 15];
        }
    }
    return guard;
}

bool mangle_is_prefix(const char *name)
{
    size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    return len > 0 && name[len] == '\0' && (is_lower(*name) || is_upper(*name));
}

char *mangle_pb_type(gen_pool *pool, const char *full_name)
{
    char *type = pool_alloc(pool, 2 * strlen(full_name) + 1, 1);
    char *out = type;
    bool word = true;
    for (const char *in = full_name; *in != '\0'; in++) {
        if (*in == '.') {
            *out++ = '_';
            *out++ = '_';
            word = true;
        } else if (*in == '_') {
            word = true;
        } else {
            *out++ = word ? to_upper(*in) : *in;
            word = false;
        }
    }
    return type;
}

char *mangle_pb_lower(gen_pool *pool, const char *full_name)
{
    char *lower = pool_alloc(pool, 2 * strlen(full_name) + 1, 1);
    char *out = lower;
    bool was_upper = true;
    for (const char *in = full_name; *in != '\0'; in++) {
        if (*in == '.') {
            *out++ = '_';
            *out++ = '_';
            was_upper = true;
            continue;
        }
        if (is_upper(*in) && !was_upper)
            *out++ = '_';
        *out++ = to_lower(*in);
        was_upper = is_upper(*in);
    }
    return lower;
}

char *mangle_pb_upper(gen_pool *pool, const char *full_name)
{
    return mangle_upper(pool, mangle_pb_lower(pool, full_name));
}
