/* The value of a message is JSON ("{...}"), or A=B for a message of two fields (--line phone=2), or
 * field=value,field=value; the name of the first field may be left out if its value has no equals sign (--target
 * door,mode=shared). */
#include "request.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "exits.h"
#include "base/base64.h"
#include "base/duration.h"
#include "rpc/json/field.h"
#include "rpc/json/json.h"
#include "rpc/json/not_json.h"
#include "words.h"

bool request_init(request *r, const ProtobufCMessageDescriptor *type)
{
    *r = (request){.type = type, .json = json_object()};
    return r->json;
}

void request_clear(request *r)
{
    json_decref(r->json);
    r->json = NULL;
}

/* JSON may use either name of a field. null means that the field is not given. */
bool request_has(const request *r, const char *field)
{
    const field_descriptor *of = protobuf_c_message_descriptor_get_field_by_name(r->type, field);
    char room[FIELD_NAME_BYTES];
    const json_t *value = json_object_get(r->json, field);

    if (!value)
        value = json_object_get(r->json, field_json_name(of, room));
    return value && !json_is_null(value);
}

/* Prints an error of a flag, and names the inner field if there is one. */
static json_t *wrong(const field_descriptor *flag, const field_descriptor *field, const char *why)
{
    char what[2 * WORDS_BYTES + 8] = "--";

    words_of_flag(flag, what + 2);
    if (field != flag) {
        strcat(what, ": ");
        words_of_field(field, what + strlen(what));
    }
    exits_wrong(what, why);
    return NULL;
}

/* ---- files ------------------------------------------------------------------- */

enum { FILE_BYTES_MAX = 4 << 20 };

/* Returns the file, to be freed by the caller; "-" is standard input. Returns NULL with the reason in *why. */
static char *read_file(const char *path, size_t *len, const char **why)
{
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
    char *bytes = malloc(FILE_BYTES_MAX + 1);

    *len = file && bytes ? fread(bytes, 1, FILE_BYTES_MAX + 1, file) : 0;
    if (!file || ferror(file) || !bytes || *len > FILE_BYTES_MAX) {
        *why = file && *len > FILE_BYTES_MAX ? "the file is too long" : strerror(errno);
        free(bytes);
        bytes = NULL;
    }
    if (file && file != stdin)
        fclose(file);
    return bytes;
}

static json_t *bytes_of(const field_descriptor *flag, const field_descriptor *field, const char *text)
{
    size_t len = strlen(text);
    const char *why;
    char *read = text[0] == '@' ? read_file(text + 1, &len, &why) : NULL;

    if (text[0] == '@' && !read)
        return wrong(flag, field, why);
    char *encoded = malloc(BASE64_ENCODED_BYTES(len) + 1);
    json_t *json = NULL;
    if (encoded) {
        base64_encode((const uint8_t *)(read ? read : text), len, encoded);
        json = json_stringn(encoded, BASE64_ENCODED_BYTES(len));
    }
    free(encoded);
    free(read);
    return json;
}

/* ---- values ------------------------------------------------------------------ */

/* Return the value of a flag, or of a field inside its message. Return NULL after printing an error. */
static json_t *value_of(const field_descriptor *flag, const field_descriptor *field, const char *text);
static json_t *value_named(const field_descriptor *flag, const field_descriptor *field, size_t len, const char *text);

static json_t *duration_of(const field_descriptor *flag, const field_descriptor *field, const char *text)
{
    int64_t ms;

    if (!duration_read(text, &ms))
        return wrong(flag, field, "must be a time with its unit: 200ms, 5s, 1h");
    return json_integer(ms);
}

static json_t *enum_of(const field_descriptor *flag, const field_descriptor *field, const char *text)
{
    const ProtobufCEnumDescriptor *type = field->descriptor;
    char all[512] = "must be one of:", word[WORDS_BYTES];
    int value;

    if (words_find_enum(type, text, &value))
        return json_integer(value);
    for (unsigned i = 0; i < type->n_values; i++)
        if (type->values[i].value != 0) {
            words_of_enum(type, type->values[i].value, word);
            snprintf(all + strlen(all), sizeof all - strlen(all), " %s", word);
        }
    return wrong(flag, field, all);
}

static const field_descriptor *find_field(const ProtobufCMessageDescriptor *type, const char *word, size_t len)
{
    for (unsigned i = 0; i < type->n_fields; i++)
        if (words_mean_field(word, len, &type->fields[i]))
            return &type->fields[i];
    return NULL;
}

/* Takes ownership of `value`, which may be NULL. */
static bool put(json_t *json, const field_descriptor *field, json_t *value)
{
    if (field->label != PROTOBUF_C_LABEL_REPEATED || !value)
        return value && json_object_set_new(json, field->name, value) == 0;
    json_t *array = json_object_get(json, field->name);
    if (!json_is_array(array)) {
        array = json_array();
        if (json_object_set_new(json, field->name, array) != 0) {
            json_decref(value);
            return false;
        }
    }
    return json_array_append_new(array, value) == 0;
}

/* "phone=2": cut at the last equals sign, but at the first if the second field is a text. */
static json_t *pair_of(const field_descriptor *flag, const field_descriptor *field, const char *text)
{
    const ProtobufCMessageDescriptor *type = field->descriptor;
    bool last = type->fields[1].type != PROTOBUF_C_TYPE_STRING;
    const char *equals = last ? strrchr(text, '=') : strchr(text, '=');
    char form[2 * WORDS_BYTES + 16] = "must be ";

    if (!equals) {
        words_of_field(&type->fields[0], form + strlen(form));
        strcat(form, "=");
        words_of_field(&type->fields[1], form + strlen(form));
        return wrong(flag, field, form);
    }
    char *first = strndup(text, (size_t)(equals - text));
    json_t *json = json_object();
    bool good = first && json && put(json, &type->fields[0], value_of(flag, &type->fields[0], first)) &&
                put(json, &type->fields[1], value_of(flag, &type->fields[1], equals + 1));
    free(first);
    if (good)
        return json;
    json_decref(json);
    return NULL;
}

/* Puts one part of "door,mode=shared". A first part with an equals sign must name a field, so that a misspelt field
 * does not become the value of the first. */
static bool put_part(json_t *json, const field_descriptor *flag, const field_descriptor *field, const char *part,
                     bool first)
{
    const ProtobufCMessageDescriptor *type = field->descriptor;
    const char *equals = strchr(part, '=');
    const field_descriptor *inner = equals ? find_field(type, part, (size_t)(equals - part)) : NULL;

    if (!equals && first)
        return put(json, &type->fields[0], value_of(flag, &type->fields[0], part));
    if (!inner) {
        wrong(flag, field, "must be field=value,field=value, with fields of the request");
        return false;
    }
    if (inner->label != PROTOBUF_C_LABEL_REPEATED && json_object_get(json, inner->name)) {
        wrong(flag, inner, "given more than once");
        return false;
    }
    return put(json, inner, value_named(flag, inner, (size_t)(equals - part), equals + 1));
}

static json_t *parts_of(const field_descriptor *flag, const field_descriptor *field, const char *text)
{
    json_t *json = json_object();
    char *copy = strdup(text), *rest = copy, *part;
    bool good = json && copy, first = true;

    while (good && (part = strsep(&rest, ","))) {
        good = put_part(json, flag, field, part, first);
        first = false;
    }
    free(copy);
    if (good)
        return json;
    json_decref(json);
    return NULL;
}

/* Returns whether the text is "phone=2" rather than "sku=phone,quantity=2". A second value that is a text may
 * contain a comma. */
static bool is_pair(const ProtobufCMessageDescriptor *type, const char *text)
{
    if (type->n_fields != 2 || type->fields[0].type != PROTOBUF_C_TYPE_STRING ||
        type->fields[1].type == PROTOBUF_C_TYPE_MESSAGE)
        return false;
    return !strchr(text, ',') ||
           (type->fields[1].type == PROTOBUF_C_TYPE_STRING && !find_field(type, text, strcspn(text, "=")));
}

static json_t *message_of(const field_descriptor *flag, const field_descriptor *field, const char *text)
{
    if (text[0] == '{') {
        json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
        return json ? json : wrong(flag, field, "not JSON");
    }
    return is_pair(field->descriptor, text) ? pair_of(flag, field, text) : parts_of(flag, field, text);
}

static json_t *value_of(const field_descriptor *flag, const field_descriptor *field, const char *text)
{
    json_t *json;

    switch (field->type) {
    case PROTOBUF_C_TYPE_ENUM:
        return enum_of(flag, field, text);
    case PROTOBUF_C_TYPE_BYTES:
        return bytes_of(flag, field, text);
    case PROTOBUF_C_TYPE_MESSAGE:
        return message_of(flag, field, text);
    case PROTOBUF_C_TYPE_BOOL:
        if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
            return wrong(flag, field, "must be true or false");
        return json_boolean(text[0] == 't');
    default:
        break;
    }
    if (words_is_duration(field))
        return duration_of(flag, field, text);
    json = json_string(text); /* the codec reads numbers from text */
    return json ? json : wrong(flag, field, "not valid UTF-8");
}

/* Returns the value of a field that was named with len bytes: "lease-ms" takes a number without a unit. */
static json_t *value_named(const field_descriptor *flag, const field_descriptor *field, size_t len, const char *text)
{
    bool is_bare = words_is_duration(field) && len == strlen(field->name) && text[strspn(text, "-0123456789")] == '\0';

    return is_bare ? json_string(text) : value_of(flag, field, text);
}

/* ---- from the command line ------------------------------------------------------- */

/* Adds what the request does not have yet. Lists are appended. */
static bool put_beside(request *r, json_t *json)
{
    const char *name;
    json_t *value;

    json_object_foreach(json, name, value)
    {
        const field_descriptor *field = field_find(r->type, name);
        /* Flags use the .proto's name. If JSON uses both names, the codec reports it. */
        const char *key = field && !json_object_get(json, field->name) ? field->name : name;
        json_t *given = json_object_get(r->json, key);
        int failed = 0;
        if (!given)
            failed = json_object_set(r->json, key, value);
        else if (json_is_array(given) && json_is_array(value))
            failed = json_array_extend(given, value);
        if (failed)
            return false;
    }
    return true;
}

bool request_take_json(request *r, const char *text)
{
    size_t len = strlen(text);
    const char *unread = NULL;
    char *read = text[0] == '@' ? read_file(text + 1, &len, &unread) : NULL, why[128];
    json_error_t error;

    if (unread) {
        exits_wrong("--json", unread);
        return false;
    }
    json_t *json = json_loadb(read ? read : text, len, JSON_REJECT_DUPLICATES, &error);
    free(read);
    if (json_is_object(json)) {
        r->has_json = true;
        bool good = put_beside(r, json);
        json_decref(json);
        if (!good)
            exits_wrong("--json", "out of memory");
        return good;
    }
    snprintf(why, sizeof why, "line %d, column %d: not JSON: %.*s", error.line, error.column, NOT_JSON_WHY(&error));
    exits_wrong("--json", json ? "must be an object" : why);
    json_decref(json);
    return false;
}

/* Puts the value of a flag or of a word. Takes ownership of `value`, which may be NULL. */
static bool give(request *r, const field_descriptor *field, json_t *value)
{
    uint64_t bit = UINT64_C(1) << (field - r->type->fields);

    if (value && field->label != PROTOBUF_C_LABEL_REPEATED && r->given & bit) {
        json_decref(value);
        value = wrong(field, field, "given more than once, by flags or by words");
    }
    r->given |= bit;
    return put(r->json, field, value);
}

options_result request_take_flag(request *r, arguments *args, const argument *arg)
{
    const field_descriptor *field = arg->name ? find_field(r->type, arg->name, arg->name_len) : NULL;

    if (!field)
        return OPTIONS_OTHER;
    bool alone = field->type == PROTOBUF_C_TYPE_BOOL && !arg->value;
    const char *text = alone ? "true" : options_value(args, arg);

    return text && give(r, field, value_named(field, field, arg->name_len, text)) ? OPTIONS_TAKEN : OPTIONS_WRONG;
}

const field_descriptor *request_position(const ProtobufCMessageDescriptor *type, unsigned n)
{
    for (unsigned i = 0; i < type->n_fields && n < REQUEST_POSITIONS; i++) {
        const field_descriptor *field = &type->fields[i];
        if (strcmp(field->name, "group") == 0)
            continue;
        if (field->label == PROTOBUF_C_LABEL_REPEATED || n-- == 0)
            return field;
    }
    return NULL;
}

bool request_take_word(request *r, const argument *arg)
{
    const field_descriptor *field = request_position(r->type, r->n_positions);

    if (!field) {
        exits_wrong(arg->text, "unexpected argument; see --help");
        return false;
    }
    if (field->label != PROTOBUF_C_LABEL_REPEATED)
        r->n_positions++;
    return give(r, field, value_of(field, field, arg->text));
}

static bool is_number(const field_descriptor *field)
{
    return field->type == PROTOBUF_C_TYPE_INT64 || field->type == PROTOBUF_C_TYPE_UINT64;
}

/* An expected_version of 0 means any version. */
bool request_is_complete(const request *r)
{
    char flag[WORDS_BYTES + 2] = "--";
    const field_descriptor *missing = NULL;

    for (unsigned i = 0; i < REQUEST_POSITIONS; i++) {
        const field_descriptor *field = request_position(r->type, i);
        if (!field || field->label == PROTOBUF_C_LABEL_REPEATED)
            break;
        if (strcmp(field->name, "expected_version") == 0 || request_has(r, field->name))
            continue;
        missing = missing ? missing : field;
        if (!is_number(field))
            continue;
        words_of_flag(missing, flag + 2);
        exits_wrong(flag, "is needed");
        return false;
    }
    return true;
}

/* Returns whether a field has this error because it is absent. */
static bool is_about_absence(const field_descriptor *field, const char *why)
{
    if (field->label == PROTOBUF_C_LABEL_REPEATED || words_is_duration(field))
        return strncmp(why, ": must be ", strlen(": must be ")) == 0;
    return strcmp(why, ": must not be empty") == 0;
}

void request_name_flag(const request *r, lks_error *error)
{
    size_t len = strcspn(error->field, ".[");
    char name[FIELD_NAME_BYTES] = "", flag[WORDS_BYTES], text[LKS_ERROR_MESSAGE_MAX];

    if (len < sizeof name)
        memcpy(name, error->field, len);
    name[len < sizeof name ? len : 0] = '\0';
    const field_descriptor *field = protobuf_c_message_descriptor_get_field_by_name(r->type, name);
    if (r->has_json || !field)
        return;
    const char *rest = error->message + len;
    words_of_flag(field, flag);
    if (!request_has(r, name) && is_about_absence(field, rest))
        rest = ": is needed";
    char nth[32] = "", *end;
    if (*rest == '[') {
        snprintf(nth, sizeof nth, " %lu", strtoul(rest + 1, &end, 10) + 1);
        rest = *end == ']' ? end + 1 : end;
    }
    snprintf(text, sizeof text, "--%s%s%s%s", flag, nth, *rest == '.' ? ": " : "", rest + (*rest == '.'));
    memcpy(error->message, text, sizeof text);
    options_write_times(error);
}

lks_code request_build(const request *r, lks_rpc_arena *arena, ProtobufCMessage **ret, lks_error *error)
{
    char *text = json_dumps(r->json, JSON_COMPACT);

    if (!text)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    lks_code code = lks_rpc_json_parse(r->type, text, strlen(text), &lks_rpc_scan_defaults, arena, ret, error);
    free(text);
    return code;
}
