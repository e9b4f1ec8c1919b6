/* An extension may be given in several entries, such as (guard).lock.a and (guard).lock.b. Their payloads are joined
 * before they are decoded, which Protobuf defines as merging them. */
#include "options.h"

#include <string.h>

#include "rpc/wire.h"

enum {
    C_PREFIX = 50700,
    EFFECT = 50701,
    NATURAL_ID = 50702,
    GUARD = 50703,
    SETTLES = 50704,
    FIRST_TRY = 50705,
    UNDO = 50706,
    COALESCE = 50707,
    PB_C_FILE = 1019
};

typedef struct bytes {
    bool present;
    uint8_t *data;
    size_t len;
} bytes;

/* Joins the payloads of all entries of a length-delimited extension. protobuf-c keeps each with its length before
 * it. */
static bool read_bytes(const ProtobufCMessage *options, uint32_t number, gen_pool *pool, bytes *ret)
{
    size_t room = 0;
    for (unsigned i = 0; i < options->n_unknown_fields; i++)
        room += options->unknown_fields[i].tag == number ? options->unknown_fields[i].len : 0;
    *ret = (bytes){.data = pool_alloc(pool, room + 1, 1)};
    for (unsigned i = 0; i < options->n_unknown_fields; i++) {
        const ProtobufCMessageUnknownField *field = &options->unknown_fields[i];
        wire entry = {field->data, field->data + field->len}, payload;
        if (field->tag != number)
            continue;
        if (field->wire_type != PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED || !wire_prefixed(&entry, &payload) ||
            entry.at != entry.end)
            return false;
        memcpy(ret->data + ret->len, payload.at, (size_t)(payload.end - payload.at));
        ret->len += (size_t)(payload.end - payload.at);
        ret->present = true;
    }
    return true;
}

/* Reads the last value of a varint extension; *ret does not change if there is none. */
static bool read_number(const ProtobufCMessage *options, uint32_t number, uint64_t *ret)
{
    for (unsigned i = 0; i < options->n_unknown_fields; i++) {
        const ProtobufCMessageUnknownField *field = &options->unknown_fields[i];
        wire entry = {field->data, field->data + field->len};
        if (field->tag == number && (field->wire_type != PROTOBUF_C_WIRE_TYPE_VARINT || !wire_varint(&entry, ret)))
            return false;
    }
    return true;
}

bool options_of_file(const Google__Protobuf__FileOptions *options, gen_pool *pool, file_options *ret)
{
    *ret = (file_options){0};
    if (!options)
        return true;
    bytes prefix, pb_c_file;
    if (!read_bytes(&options->base, C_PREFIX, pool, &prefix) ||
        !read_bytes(&options->base, PB_C_FILE, pool, &pb_c_file))
        return false;
    ret->c_prefix = prefix.present ? (const char *)prefix.data : NULL;
    ret->pb_c_file = pb_c_file.present;
    return strlen((const char *)prefix.data) == prefix.len;
}

static void *alloc_in_pool(void *pool, size_t size)
{
    return pool_alloc(pool, size, 1);
}

static void leave_in_pool(void *pool, void *data)
{
    (void)pool, (void)data;
}

/* Returns NULL if the payload is not such a message. */
static void *unpack(const ProtobufCMessageDescriptor *type, const bytes *payload, gen_pool *pool)
{
    ProtobufCAllocator in_pool = {.alloc = alloc_in_pool, .free = leave_in_pool, .allocator_data = pool};
    return protobuf_c_message_unpack(type, &in_pool, payload->len, payload->data);
}

/* A type without fields: unpacking keeps everything in the unknown fields. */
static const ProtobufCMessageDescriptor no_fields = {
    .magic = PROTOBUF_C__MESSAGE_DESCRIPTOR_MAGIC,
    .sizeof_message = sizeof(ProtobufCMessage),
    .field_ranges = &(const ProtobufCIntRange){0},
};

/* Returns a part of a guard, or NULL if the guard has none. Sets *known to false if the part is invalid or has
 * unknown fields, which the generated code would silently ignore. */
static void *read_part(const ProtobufCMessage *guard, uint32_t number, const ProtobufCMessageDescriptor *type,
                       gen_pool *pool, bool *known)
{
    bytes payload;
    *known &= read_bytes(guard, number, pool, &payload);
    ProtobufCMessage *part = payload.present ? unpack(type, &payload, pool) : NULL;
    *known &= part ? part->n_unknown_fields == 0 : !payload.present;
    return part;
}

/* Returns NULL if the payload is not a guard, or has unknown fields. The entries of its parts are joined as well,
 * because protobuf-c loses numbers when it merges two entries of a message. */
static const Lockstock__Rpc__V1__Guard *read_guard(const bytes *payload, gen_pool *pool)
{
    enum { RATE_LIMIT = 1, IDEMPOTENCY = 2, LOCK = 3 };
    Lockstock__Rpc__V1__Guard *guard = unpack(&lockstock__rpc__v1__guard__descriptor, payload, pool);
    const ProtobufCMessage *parts = unpack(&no_fields, payload, pool);
    if (!guard || !parts)
        return NULL;
    bool known = guard->base.n_unknown_fields == 0;
    guard->rate_limit = read_part(parts, RATE_LIMIT, &lockstock__rpc__v1__rate_limit_guard__descriptor, pool, &known);
    guard->idempotency =
        read_part(parts, IDEMPOTENCY, &lockstock__rpc__v1__idempotency_guard__descriptor, pool, &known);
    guard->lock = read_part(parts, LOCK, &lockstock__rpc__v1__lock_guard__descriptor, pool, &known);
    return known ? guard : NULL;
}

bool options_of_method(const Google__Protobuf__MethodOptions *options, gen_pool *pool, method_options *ret)
{
    *ret = (method_options){0};
    if (!options)
        return true;
    bytes natural_id, guard, undo;
    uint64_t effect = 0, settles = 0, coalesce = 0;
    if (!read_number(&options->base, EFFECT, &effect) || effect > LOCKSTOCK__RPC__V1__EFFECT__EFFECT_ADMIN ||
        !read_bytes(&options->base, NATURAL_ID, pool, &natural_id) ||
        !read_bytes(&options->base, GUARD, pool, &guard) || !read_number(&options->base, SETTLES, &settles) ||
        !read_number(&options->base, COALESCE, &coalesce) || !read_bytes(&options->base, UNDO, pool, &undo))
        return false;
    ret->effect = (Lockstock__Rpc__V1__Effect)effect;
    ret->settles = settles != 0;
    ret->coalesce = coalesce != 0;
    if (undo.present && !(ret->undo = unpack(&lockstock__rpc__v1__undo__descriptor, &undo, pool)))
        return false;
    if (guard.present && !(ret->guard = read_guard(&guard, pool)))
        return false;
    if (natural_id.present) {
        const Lockstock__Rpc__V1__NaturalId *id =
            unpack(&lockstock__rpc__v1__natural_id__descriptor, &natural_id, pool);
        if (!id)
            return false;
        ret->natural_id = id->field;
        ret->fill = id->fill;
    }
    return ret->fill == LOCKSTOCK__RPC__V1__FILL__FILL_UNSPECIFIED ||
           ret->fill == LOCKSTOCK__RPC__V1__FILL__FILL_RANDOM;
}

bool options_of_field(const Google__Protobuf__FieldOptions *options, bool *first_try)
{
    uint64_t set = 0;
    bool valid = !options || read_number(&options->base, FIRST_TRY, &set);
    *first_try = set != 0;
    return valid;
}
