/* A caller's option struct may be shorter or longer than this library's. */
#include <string.h>

#include <lockstock/rpc/options.h>

lks_code lks_rpc_options_read(void *known, size_t known_bytes, const void *given, size_t given_bytes, const char *type,
                              lks_error *error)
{
    const unsigned char *bytes = given;

    for (size_t i = known_bytes; bytes && i < given_bytes; i++)
        if (bytes[i] != 0)
            return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO,
                                 "%s: byte %zu is set, and this library (%zu bytes) has no option there", type, i,
                                 known_bytes);
    memset(known, 0, known_bytes);
    if (bytes)
        memcpy(known, bytes, given_bytes < known_bytes ? given_bytes : known_bytes);
    return LKS_OK;
}
