/* Reads the store's replies. Invariant: a reply of an unexpected form never crashes and is never accepted: it makes the
 * call fail with INTERNAL, MAYBE, and the readers return empty values. Called by the services' finish. */
#include <string.h>

#include "base/number.h"
#include "memory.h"
#include "services/service.h"
#include "slice.h"

static const store_value nil = {.type = STORE_NIL};

static void set_malformed(answer *a)
{
    if (a->error.code == LKS_OK)
        lks_error_set(&a->error, LKS_INTERNAL, LKS_APPLIED_MAYBE, "the store sent a reply of an unexpected form");
}

const store_value *answer_at(answer *a, const store_value *array, size_t i)
{
    if (array->type != STORE_ARRAY || i >= array->n) {
        set_malformed(a);
        return &nil;
    }
    return &array->element[i];
}

size_t answer_count(answer *a, const store_value *array)
{
    if (array->type != STORE_ARRAY) {
        set_malformed(a);
        return 0;
    }
    return array->n;
}

/* Functions return numbers as integers, or as text if they were stored as text. */
int64_t answer_int(answer *a, const store_value *array, size_t i)
{
    const store_value *value = answer_at(a, array, i);

    if (value->type == STORE_INTEGER)
        return value->integer;
    const lks_rpc_slice text = value->type == STORE_STRING ? value->string : (lks_rpc_slice){.data = ""};
    const bool negative = text.len > 0 && text.data[0] == '-';
    int64_t number = number_parse(text.data + negative, text.len - negative, INT64_MAX);
    if (number < 0) {
        set_malformed(a);
        return 0;
    }
    return negative ? -number : number;
}

int64_t answer_event_number(answer *a, size_t i)
{
    const service_event *event = &a->plan->event;

    if (i < event->n_numbers)
        return event->numbers[i];
    set_malformed(a);
    return 0;
}

char *answer_text(answer *a, const store_value *array, size_t i)
{
    static char empty[1];
    const store_value *value = answer_at(a, array, i);

    if (value->type == STORE_STRING)
        return memory_copy_in(a->arena, value->string.data, value->string.len);
    set_malformed(a);
    return empty;
}

const store_value *answer_split(answer *a, const store_value *array, size_t i)
{
    const store_value *value = answer_at(a, array, i);
    store_value *split = memory_in(a->arena, sizeof *split);

    *split = (store_value){.type = STORE_ARRAY};
    if (value->type != STORE_STRING) {
        set_malformed(a);
        return split;
    }
    const char *end = value->string.data + value->string.len;
    size_t n = 1;
    for (const char *c = value->string.data; c < end; c++)
        n += *c == '\0';
    store_value *element = memory_in(a->arena, n * sizeof *element);
    for (const char *c = value->string.data; split->n < n; split->n++) {
        size_t len = strnlen(c, (size_t)(end - c));
        element[split->n] = (store_value){.type = STORE_STRING, .string = {.data = c, .len = len}};
        c += len + 1;
    }
    split->element = element;
    return split;
}

bool answer_says(const store_value *reply, const char *word)
{
    const store_value *first = reply->type == STORE_ARRAY && reply->n > 0 ? &reply->element[0] : NULL;

    return first && first->type == STORE_STRING && slice_is(first->string, word);
}

bool answer_is_numbers(const store_value *reply)
{
    return reply->type == STORE_ARRAY && reply->n > 0 && reply->element[0].type == STORE_INTEGER;
}

int answer_enum(answer *a, const store_value *array, size_t i, const ProtobufCEnumDescriptor *type)
{
    const store_value *value = answer_at(a, array, i);
    /* The first value of every enum of the contract is PREFIX_UNSPECIFIED. */
    size_t prefix = strlen(type->values[0].name) - strlen("UNSPECIFIED");

    for (unsigned v = 1; value->type == STORE_STRING && v < type->n_values; v++)
        if (slice_is(value->string, type->values[v].name + prefix))
            return type->values[v].value;
    set_malformed(a);
    return 0;
}

char *answer_decoded(answer *a, const store_value *array, size_t i)
{
    return plan_decode(a->arena, lks_rpc_slice_of(answer_text(a, array, i)));
}

void *answer_messages(answer *a, const ProtobufCMessageDescriptor *type, size_t n)
{
    ProtobufCMessage **list = memory_in(a->arena, n * sizeof *list);
    char *messages = memory_in(a->arena, n * type->sizeof_message);

    for (size_t i = 0; i < n; i++) {
        list[i] = (ProtobufCMessage *)(void *)(messages + i * type->sizeof_message);
        protobuf_c_message_init(type, list[i]);
    }
    return list;
}

const char *answer_group(const char *group, const char *only)
{
    return group[0] != '\0' ? group : only;
}

void answer_waits(answer *a)
{
    a->waits = true;
}

void answer_next_round(answer *a, service_next *next)
{
    a->next = next;
}

void answer_next_round_applied(answer *a, service_next *next)
{
    a->next = next;
    a->applied = true;
}

static void add_alarm(answer *a, service_alarm alarm)
{
    if (alarm.in_ms < 0)
        return;
    service_alarm *added = memory_in(a->arena, sizeof *added);
    alarm.next = a->alarms;
    *added = alarm;
    a->alarms = added;
}

const char *answer_id(answer *a, const char *asked)
{
    return asked[0] != '\0' ? asked : memory_text_in(a->arena, a->plan->id);
}

void answer_alarm(answer *a, lks_rpc_slice base, const char *function, const char *argument, int64_t in_ms)
{
    add_alarm(
        a, (service_alarm){.base = base, .function = function, .argument = lks_rpc_slice_of(argument), .in_ms = in_ms});
}

void answer_lasting_alarm(answer *a, lks_rpc_slice base, const char *function, int64_t in_ms)
{
    add_alarm(
        a, (service_alarm){
               .base = base, .function = function, .argument = lks_rpc_slice_of(""), .in_ms = in_ms, .lasting = true});
}
