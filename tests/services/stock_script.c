/* Every word sends one request or checks one thing. */
#include "services/stock_script.h"

#include "functions/library.h"
#include "hash.h"

lks_put_item_request put_request(const char *group, const char *sku, int64_t on_hand)
{
    return message(put_item_request, .group = group, .sku = sku, .on_hand = on_hand);
}

const lks_item *put(const lks_put_item_request *request)
{
    const lks_put_item_response *response = answer_to(request);

    return response ? response->item : NULL;
}

const lks_item *put_item(const char *group, const char *sku, int64_t on_hand)
{
    return put_limited(group, sku, on_hand, 0);
}

const lks_item *put_limited(const char *group, const char *sku, int64_t on_hand, int64_t per_buyer_limit)
{
    lks_put_item_request request = put_request(group, sku, on_hand);

    request.per_buyer_limit = per_buyer_limit;
    const lks_item *item = put(&request);
    if (!item)
        fail_msg("PutItem %s: %s", sku, err.message);
    return item;
}

const lks_item *get_item(const char *group, const char *sku)
{
    const lks_get_item_response *response = ask(get_item, .group = group, .sku = sku);

    return response ? response->item : NULL;
}

const lks_adjust_response *adjust(const char *group, const char *sku, int64_t delta, const char *id)
{
    return ask(adjust, .group = group, .sku = sku, .delta = delta, .adjustment_id = id);
}

bool delete_item(const char *group, const char *sku)
{
    return ask(delete_item, .group = group, .sku = sku);
}

void change_item(const char *sku, enum item_number number, int64_t value)
{
    char key[64];

    snprintf(key, sizeof key, "ls:{default/g}:stock:i:%s", sku);
    harness_redis(h, "EVAL %s 1 %s %d %lld",
                  "local item = {struct.unpack('<Bdddddddddd', redis.call('GET', KEYS[1]))}\n"
                  "item[1 + ARGV[1]] = ARGV[2]\n"
                  "redis.call('SET', KEYS[1], struct.pack('<Bdddddddddd', unpack(item, 1, 11)))",
                  key, (int)number, (long long)value);
}

lks_line **lines_of(const char *lines, size_t *n)
{
    static struct {
        char text[8192];
        lks_line line[80];
        lks_line *pointer[80];
    } kept;

    snprintf(kept.text, sizeof kept.text, "%s", lines);
    *n = 0;
    for (char *at = strtok(kept.text, " "); at; at = strtok(NULL, " ")) {
        size_t i = (*n)++;
        char *colon = strrchr(at, ':');
        *colon = '\0';
        kept.line[i] = message(line, .sku = at, .quantity = strtoll(colon + 1, NULL, 10));
        kept.pointer[i] = &kept.line[i];
    }
    return kept.pointer;
}

const lks_deduct_response *deduct(const char *group, const char *order_id, const char *buyer_id, const char *lines)
{
    size_t n;
    lks_line **list = lines_of(lines, &n);

    return ask(deduct, .group = group, .order_id = order_id, .buyer_id = buyer_id, .lines = list, .n_lines = n);
}

const lks_reserve_response *reserve(const char *group, const char *order_id, const char *buyer_id, const char *lines,
                                    int64_t hold_ms)
{
    size_t n;
    lks_line **list = lines_of(lines, &n);

    return ask(reserve, .group = group, .order_id = order_id, .buyer_id = buyer_id, .lines = list, .n_lines = n,
               .hold_ms = hold_ms);
}

const lks_confirm_response *confirm(const char *group, const char *order_id, bool reacquire_if_expired)
{
    return ask(confirm, .group = group, .order_id = order_id, .reacquire_if_expired = reacquire_if_expired);
}

const lks_extend_hold_response *extend_hold(const char *group, const char *order_id, int64_t hold_ms)
{
    return ask(extend_hold, .group = group, .order_id = order_id, .hold_ms = hold_ms);
}

const lks_cancel_response *cancel(const char *group, const char *order_id, const char *reason)
{
    return ask(cancel, .group = group, .order_id = order_id, .reason = reason);
}

const lks_return_response *take_back(const char *group, const char *return_id, const char *order_id, const char *lines)
{
    size_t n;
    lks_line **list = lines_of(lines, &n);

    return ask(return, .group = group, .return_id = return_id, .order_id = order_id, .lines = list, .n_lines = n);
}

const lks_order *get_order(const char *group, const char *order_id)
{
    const lks_get_order_response *response = ask(get_order, .group = group, .order_id = order_id);

    return response ? response->order : NULL;
}

const lks_read_ledger_response *read_ledger(const char *group, const char *after, int32_t limit)
{
    return ask(read_ledger, .group = group, .after = after, .limit = limit);
}

bool trim_ledger(const char *group, const char *up_to)
{
    return ask(trim_ledger, .group = group, .up_to = up_to);
}

/* "a:8 b:0": the lines that are told of, or the order. */
static void add_rest(const ProtobufCMessage *response, char *line)
{
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field_by_name(response->descriptor, "lines");
    const char *at = (const char *)response;

    if (!field) {
        field = protobuf_c_message_descriptor_get_field_by_name(response->descriptor, "order");
        add_line(line, " %s", order_text(*(lks_order *const *)(const void *)(at + field->offset)));
        return;
    }
    const size_t n = *(const size_t *)(const void *)(at + field->quantifier_offset);
    lks_line_stock *const *told = *(lks_line_stock *const *const *)(const void *)(at + field->offset);
    for (size_t i = 0; i < n; i++)
        add_line(line, " %s:%lld", told[i]->sku, (long long)told[i]->available);
}

const char *answer_line(const void *response)
{
    char *line = line_of(response);

    if (response)
        add_rest(response, line);
    return line;
}

const char *order_text(const lks_order *order)
{
    char *line = new_line();

    if (!order)
        return "none";
    add_line(line, "%s %s", lks_order_state_name(order->state), order->buyer_id);
    for (size_t i = 0; i < order->n_lines; i++)
        add_line(line, " %s:%lld:%lld", order->lines[i]->sku, (long long)order->lines[i]->quantity,
                 (long long)order->lines[i]->returned);
    return line;
}

void expect_order(const char *group, const char *order_id, const char *order)
{
    assert_string_equal(order_text(get_order(group, order_id)), order);
}

void expect_stock(const char *group, const char *sku, int64_t available, int64_t reserved, int64_t sold)
{
    const lks_item *item = get_item(group, sku);

    if (!item)
        fail_msg("GetItem %s: %s", sku, err.message);
    if (item->available != available || item->reserved != reserved || item->sold != sold)
        fail_msg("%s: available %lld, reserved %lld, sold %lld expected, got %lld, %lld, %lld", sku,
                 (long long)available, (long long)reserved, (long long)sold, (long long)item->available,
                 (long long)item->reserved, (long long)item->sold);
}

void expect_item(const char *group, const char *sku, int64_t available, int64_t sold)
{
    expect_stock(group, sku, available, 0, sold);
}

int64_t lasting_alarm_ms(void)
{
    for (const service_alarm *alarm = harness_last_alarms(h); alarm; alarm = alarm->next)
        if (alarm->lasting && strcmp(alarm->function, "stock_expire") == 0)
            return alarm->in_ms;
    return -1;
}

int64_t ring_lasting_alarm(const char *group)
{
    char base[256];
    const int n = snprintf(base, sizeof base, "ls:{default/%s}:", group);
    const service_alarm lasting = {
        .base = {.data = base, .len = (size_t)n}, .function = "stock_expire", .lasting = true};

    return harness_ring(h, &lasting);
}

const char *ledger_text(const lks_read_ledger_response *response)
{
    static char got[65536];

    got[0] = '\0';
    if (!response)
        fail_msg("ReadLedger: %s", err.message);
    for (size_t i = 0; i < response->n_entries; i++) {
        const lks_ledger_entry *e = response->entries[i];
        add(got, sizeof got, "%s %s %lld %s\n", lks_ledger_kind_name(e->kind), e->sku, (long long)e->quantity,
            e->order_id);
    }
    return got;
}

const lks_item *put_in(const char *group, const char *sku, int64_t on_hand, int32_t n)
{
    lks_put_item_request request = put_request(group, sku, on_hand);

    request.buckets = n;
    return put(&request);
}

const char *order_in(unsigned bucket)
{
    static char ids[64][16];
    static unsigned next, number;
    char *id = ids[next++ % 64];

    do
        snprintf(id, sizeof ids[0], "o%u", number++);
    while (1 + hash_folded(hash_more(HASH_START, id, strlen(id))) % SCRIPT_BUCKETS != bucket);
    return id;
}

const char *overdue(const char *cursor)
{
    return harness_redis(h, "FCALL stock_find_overdue_%s 1 ls:{sweep}: 1 %s", functions_digest, cursor);
}
