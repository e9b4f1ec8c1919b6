/* The JSON codec for a test in another language (json_mapping.py): a line in, a line out.
 *
 *   types                  TYPE...                   every message type that is known
 *   print TYPE FLAGS HEX   ok JSON | error MESSAGE   FLAGS: d = defaults, o = original names, or -
 *   parse TYPE HEX         ok HEX | error MESSAGE    HEX: of the text; of the message, in the wire format
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockstock/v1/admin.lks.h>
#include <lockstock/v1/guard.lks.h>
#include <lockstock/v1/id.lks.h>
#include <lockstock/v1/idempotency.lks.h>
#include <lockstock/v1/lock.lks.h>
#include <lockstock/v1/ratelimit.lks.h>
#include <lockstock/v1/stock.lks.h>

#include "json.pb-c.h"
#include "rpc/json/json.h"
#include "scan.pb-c.h"
#include "well_known.pb-c.h"

typedef ProtobufCMessageDescriptor message_type;

#define METHOD(name, Name, request, response, constant) &(constant),
static const lks_rpc_method *const methods[] = {
    LKS_LOCK_METHODS(METHOD) LKS_STOCK_METHODS(METHOD) LKS_IDEMPOTENCY_METHODS(METHOD) LKS_RATE_LIMIT_METHODS(METHOD)
        LKS_ID_METHODS(METHOD) LKS_GUARD_METHODS(METHOD) LKS_ADMIN_METHODS(METHOD)};
enum { N_METHODS = sizeof methods / sizeof methods[0], TYPES_MAX = 512 };

static const message_type *types[TYPES_MAX];
static size_t n_types;

/* The type and all that it contains. */
static void add_type(const message_type *type)
{
    for (size_t i = 0; i < n_types; i++)
        if (types[i] == type)
            return;
    if (n_types == TYPES_MAX)
        abort();
    types[n_types++] = type;
    for (unsigned i = 0; i < type->n_fields; i++)
        if (type->fields[i].type == PROTOBUF_C_TYPE_MESSAGE)
            add_type(type->fields[i].descriptor);
}

static const message_type *find_type(const char *name)
{
    for (size_t i = 0; i < n_types; i++)
        if (strcmp(types[i]->name, name) == 0)
            return types[i];
    fprintf(stderr, "%s: unknown type\n", name);
    exit(2);
}

/* In place. */
static size_t bytes_of_hex(char *hex)
{
    size_t len = strlen(hex) / 2;

    for (size_t i = 0; i < len; i++) {
        const char pair[] = {hex[2 * i], hex[2 * i + 1], '\0'};
        hex[i] = (char)strtoul(pair, NULL, 16);
    }
    return len;
}

static void print_message(const message_type *type, const char *flags, char *hex, lks_rpc_arena *arena)
{
    const lks_rpc_json_options options = {.defaults = strchr(flags, 'd'), .original_names = strchr(flags, 'o')};
    size_t len = bytes_of_hex(hex);
    lks_error error;
    lks_rpc_slice text;

    if (lks_rpc_scan(type, hex, len, &lks_rpc_scan_response, &error) != LKS_OK) {
        printf("error %s\n", error.message);
        return;
    }
    const ProtobufCMessage *message =
        protobuf_c_message_unpack(type, lks_rpc_arena_allocator(arena), len, (const uint8_t *)hex);
    if (!message || lks_rpc_json_print(message, &options, arena, &text, &error) != LKS_OK)
        printf("error %s\n", message ? error.message : "cannot be unpacked");
    else
        printf("ok %s\n", text.data);
}

static void parse_text(const message_type *type, char *hex, lks_rpc_arena *arena)
{
    size_t len = bytes_of_hex(hex);
    ProtobufCMessage *message;
    lks_error error;

    if (lks_rpc_json_parse(type, hex, len, &lks_rpc_scan_response, arena, &message, &error) != LKS_OK) {
        printf("error %s\n", error.message);
        return;
    }
    size_t n = protobuf_c_message_get_packed_size(message);
    uint8_t *packed = lks_rpc_arena_alloc(arena, n);
    protobuf_c_message_pack(message, packed);
    printf("ok ");
    for (size_t i = 0; i < n; i++)
        printf("%02x", packed[i]);
    printf("\n");
}

int main(void)
{
    lks_rpc_arena *arena = lks_rpc_arena_new();
    char *line = NULL;
    size_t room = 0;

    for (size_t i = 0; i < N_METHODS; i++) {
        add_type(methods[i]->request);
        add_type(methods[i]->response);
    }
    add_type(&lockstock__test__json__everything__descriptor);
    add_type(&lockstock__test__json__named__descriptor);
    add_type(&lockstock__test__kinds__descriptor);
    add_type(&lockstock__test__json__well_known__descriptor);
    while (arena && getline(&line, &room, stdin) > 0) {
        line[strcspn(line, "\n")] = '\0';
        char *words[4] = {line}, *at = line;
        for (size_t i = 1; i < 4 && (at = strchr(at, ' ')); i++) {
            *at++ = '\0';
            words[i] = at;
        }
        if (strcmp(words[0], "types") == 0)
            for (size_t i = 0; i < n_types; i++)
                printf("%s%c", types[i]->name, i + 1 < n_types ? ' ' : '\n');
        else if (strcmp(words[0], "print") == 0 && words[3])
            print_message(find_type(words[1]), words[2], words[3], arena);
        else if (words[2])
            parse_text(find_type(words[1]), words[2], arena);
        fflush(stdout);
        lks_rpc_arena_reset(arena);
    }
    free(line);
    lks_rpc_arena_free(arena);
    return 0;
}
