#include "rpc.h"

#include <stdlib.h>
#include <string.h>

#include <lockstock/call.h>
#include <lockstock/v1/lock.lks.h>

#include "answer.h"
#include "request.h"
#include "rpc/json/field.h"

/* ---- pages ------------------------------------------------------------------- */

/* Returns the member of a text field, or NULL if there is none. */
static const char **text_field(const ProtobufCMessage *message, const char *name)
{
    const field_descriptor *field = protobuf_c_message_descriptor_get_field_by_name(message->descriptor, name);

    return field && field->type == PROTOBUF_C_TYPE_STRING ? field_member(message, field) : NULL;
}

/* Moves a message into the arena. Returns NULL when out of memory. */
static ProtobufCMessage *keep(ProtobufCMessage *message, lks_rpc_arena *arena)
{
    size_t len = protobuf_c_message_get_packed_size(message);
    uint8_t *packed = lks_rpc_arena_alloc(arena, len);
    ProtobufCMessage *kept = NULL;

    if (packed) {
        protobuf_c_message_pack(message, packed);
        kept = protobuf_c_message_unpack(message->descriptor, lks_rpc_arena_allocator(arena), len, packed);
    }
    lks_message_free(message);
    return kept;
}

/* The capacity of a list of n elements after an append: it doubles. */
static size_t room_of(size_t n)
{
    size_t room = 16;

    while (room < n)
        room *= 2;
    return room;
}

/* Appends the lists of `page`, which has number n_page, to those of `all`. */
static bool append_page(ProtobufCMessage *all, const ProtobufCMessage *page, size_t n_page, lks_rpc_arena *arena)
{
    for (unsigned i = 0; i < page->descriptor->n_fields; i++) {
        const field_descriptor *field = &page->descriptor->fields[i];
        if (field->label != PROTOBUF_C_LABEL_REPEATED)
            continue;
        size_t *n = field_quantifier(all, field), more = *(size_t *)field_quantifier(page, field);
        size_t size = lks_rpc_field_size(field->type);
        char **list = field_member(all, field);
        if (n_page == 1 || *n + more > room_of(*n)) { /* the list of the first page has no spare room */
            char *longer = lks_rpc_arena_alloc(arena, room_of(*n + more) * size);
            if (!longer)
                return false;
            if (*n > 0)
                memcpy(longer, *list, *n * size);
            *list = longer;
        }
        if (more > 0)
            memcpy(*list + *n * size, *(char **)field_member(page, field), more * size);
        *n += more;
    }
    return true;
}

/* Returns the length of the first list. */
static size_t rows_of(const ProtobufCMessage *message)
{
    for (unsigned i = 0; i < message->descriptor->n_fields; i++)
        if (message->descriptor->fields[i].label == PROTOBUF_C_LABEL_REPEATED)
            return *(size_t *)field_quantifier(message, &message->descriptor->fields[i]);
    return 0;
}

lks_code rpc_call(lks_channel *channel, const lks_rpc_method *method, ProtobufCMessage *asking, const rpc_pages *pages,
                  lks_rpc_arena *arena, ProtobufCMessage **ret, lks_error *error)
{
    const char **asked = pages ? text_field(asking, "page_token") : NULL, **next = NULL;
    ProtobufCMessage *all = NULL;

    for (size_t n_page = 0;; n_page++) {
        ProtobufCMessage *page;
        lks_code code = lks_call_run(channel, method, asking, NULL, &page, error);
        if (code != LKS_OK)
            return code;
        page = keep(page, arena);
        if (!page || (all && !append_page(all, page, n_page, arena)))
            return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
        if (!all)
            all = page;
        next = asked ? text_field(page, "next_page_token") : NULL;
        if (!next || !**next || n_page + 1 == pages->n || rows_of(all) >= pages->rows ||
            (pages->stops && pages->stops()))
            break;
        if (strcmp(*asked, *next) == 0)
            return error_repeated_page(error);
        *asked = *next;
    }
    if (next)
        *text_field(all, "next_page_token") = *next;
    *ret = all;
    return LKS_OK;
}

/* ---- the command ----------------------------------------------------------------- */

static bool has_page_token(const request *r)
{
    return field_find(r->type, "page_token") && request_has(r, "page_token");
}

static bool removed_nothing(const ProtobufCMessage *answer)
{
    return ((const lks_force_release_response *)(const void *)answer)->n_removed == 0;
}

/* A server refused the call, but an earlier try without an answer may still take effect. Calls the method that
 * undoes it. */
static exit_code refused(lks_channel *channel, const lks_rpc_method *method, const ProtobufCMessage *message,
                         const lks_error *error)
{
    const lks_call_options options = {.insist = true};
    lks_error doubt;

    if (error->applied != LKS_APPLIED_MAYBE)
        return EXIT_REFUSED;
    ProtobufCMessage *undoing = lks_rpc_undo_request(method, message);
    bool undone = undoing && lks_call_run(channel, method->undo->method, undoing, &options, NULL, &doubt) == LKS_OK;
    free(undoing);
    if (undone)
        return EXIT_REFUSED;
    return exits_doubtful();
}

exit_code rpc_run(cli *c, const lks_rpc_method *method, const request *r)
{
    bool is_read = method->effect == LKS_RPC_EFFECT_READ;
    char id[LKS_RPC_RANDOM_ID_LEN + 1];
    ProtobufCMessage *message, *answer = NULL;
    lks_channel *channel = NULL;
    lks_error error;

    if (request_build(r, c->arena, &message, &error) != LKS_OK) {
        request_name_flag(r, &error);
        return exits_failed(&error, true);
    }
    exit_code code = cli_settle(c);
    if (code == EXIT_DONE)
        code = cli_open(c, &channel);
    if (code != EXIT_DONE)
        return code;
    char **fill = lks_rpc_field_to_fill(method, message); /* before the call, so that the undo can use the same id */
    if (fill) {
        lks_rpc_random_id(id);
        *fill = id;
    }
    const rpc_pages *pages = has_page_token(r) ? NULL : &(const rpc_pages){.rows = SIZE_MAX};
    if (rpc_call(channel, method, message, pages, c->arena, &answer, &error) != LKS_OK) {
        request_name_flag(r, &error);
        code = exits_failed(&error, is_read);
    } else if (c->json)
        answer_print_json(answer, true, c->arena);
    else
        answer_print(answer, c->arena);
    if (code == EXIT_DONE && answer_refuses(answer))
        code = refused(channel, method, message, &error);
    lks_channel_close(channel);
    if (code == EXIT_DONE && method == &lks_lock_force_release_method && removed_nothing(answer))
        return exits_refused("", "the lock is not held");
    return code;
}
