/* Every word sends one request or checks one thing; on a difference both sides
 * are printed. */
#include "services/stock_script.h"

int empty_harness(void **state)
{
    harness_reset(h);
    return 0;
}

lks_put_item_request put_request(const char *group, const char *sku, int64_t on_hand)
{
    lks_put_item_request request = LKS_PUT_ITEM_REQUEST_INIT;

    request.group = harness_unconst(group);
    request.sku = harness_unconst(sku);
    request.on_hand = on_hand;
    return request;
}

const lks_item *put(const lks_put_item_request *request)
{
    const lks_put_item_response *response = harness_call(h, &stock_service, "PutItem", request, &err);

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
    lks_get_item_request request = LKS_GET_ITEM_REQUEST_INIT;

    request.group = harness_unconst(group);
    request.sku = harness_unconst(sku);
    const lks_get_item_response *response = harness_call(h, &stock_service, "GetItem", &request, &err);
    return response ? response->item : NULL;
}

const lks_adjust_response *adjust(const char *group, const char *sku, int64_t delta, const char *id)
{
    lks_adjust_request request = LKS_ADJUST_REQUEST_INIT;

    request.group = harness_unconst(group);
    request.sku = harness_unconst(sku);
    request.delta = delta;
    request.adjustment_id = harness_unconst(id);
    return harness_call(h, &stock_service, "Adjust", &request, &err);
}

bool delete_item(const char *group, const char *sku)
{
    lks_delete_item_request request = LKS_DELETE_ITEM_REQUEST_INIT;

    request.group = harness_unconst(group);
    request.sku = harness_unconst(sku);
    return harness_call(h, &stock_service, "DeleteItem", &request, &err) != NULL;
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
        kept.line[i] = (lks_line)LKS_LINE_INIT;
        kept.line[i].sku = at;
        kept.line[i].quantity = strtoll(colon + 1, NULL, 10);
        kept.pointer[i] = &kept.line[i];
    }
    return kept.pointer;
}

const lks_deduct_response *deduct(const char *group, const char *order_id, const char *buyer_id, const char *lines)
{
    lks_deduct_request request = LKS_DEDUCT_REQUEST_INIT;

    request.group = harness_unconst(group);
    request.order_id = harness_unconst(order_id);
    request.buyer_id = harness_unconst(buyer_id);
    request.lines = lines_of(lines, &request.n_lines);
    return harness_call(h, &stock_service, "Deduct", &request, &err);
}

const lks_reserve_response *reserve(const char *group, const char *order_id, const char *buyer_id, const char *lines,
                                    int64_t hold_ms)
{
    lks_reserve_request request = LKS_RESERVE_REQUEST_INIT;

    request.group = harness_unconst(group);
    request.order_id = harness_unconst(order_id);
    request.buyer_id = harness_unconst(buyer_id);
    request.lines = lines_of(lines, &request.n_lines);
    request.hold_ms = hold_ms;
    return harness_call(h, &stock_service, "Reserve", &request, &err);
}

const lks_confirm_response *confirm(const char *group, const char *order_id, bool reacquire_if_expired)
{
    lks_confirm_request request = LKS_CONFIRM_REQUEST_INIT;

    request.group = harness_unconst(group);
    request.order_id = harness_unconst(order_id);
    request.reacquire_if_expired = reacquire_if_expired;
    return harness_call(h, &stock_service, "Confirm", &request, &err);
}

const lks_extend_hold_response *extend_hold(const char *group, const char *order_id, int64_t hold_ms)
{
    lks_extend_hold_request request = LKS_EXTEND_HOLD_REQUEST_INIT;

    request.group = harness_unconst(group);
    request.order_id = harness_unconst(order_id);
    request.hold_ms = hold_ms;
    return harness_call(h, &stock_service, "ExtendHold", &request, &err);
}

const lks_cancel_response *cancel(const char *group, const char *order_id, const char *reason)
{
    lks_cancel_request request = LKS_CANCEL_REQUEST_INIT;

    request.group = harness_unconst(group);
    request.order_id = harness_unconst(order_id);
    request.reason = harness_unconst(reason);
    return harness_call(h, &stock_service, "Cancel", &request, &err);
}

const lks_return_response *take_back(const char *group, const char *return_id, const char *order_id, const char *lines)
{
    lks_return_request request = LKS_RETURN_REQUEST_INIT;

    request.group = harness_unconst(group);
    request.return_id = harness_unconst(return_id);
    request.order_id = harness_unconst(order_id);
    request.lines = lines_of(lines, &request.n_lines);
    return harness_call(h, &stock_service, "Return", &request, &err);
}

const lks_order *get_order(const char *group, const char *order_id)
{
    lks_get_order_request request = LKS_GET_ORDER_REQUEST_INIT;

    request.group = harness_unconst(group);
    request.order_id = harness_unconst(order_id);
    const lks_get_order_response *response = harness_call(h, &stock_service, "GetOrder", &request, &err);
    return response ? response->order : NULL;
}

const lks_read_ledger_response *read_ledger(const char *group, const char *after, int32_t limit)
{
    lks_read_ledger_request request = LKS_READ_LEDGER_REQUEST_INIT;

    request.group = harness_unconst(group);
    request.after = harness_unconst(after);
    request.limit = limit;
    return harness_call(h, &stock_service, "ReadLedger", &request, &err);
}

bool trim_ledger(const char *group, const char *up_to)
{
    lks_trim_ledger_request request = LKS_TRIM_LEDGER_REQUEST_INIT;

    request.group = harness_unconst(group);
    request.up_to = harness_unconst(up_to);
    return harness_call(h, &stock_service, "TrimLedger", &request, &err) != NULL;
}

/* One text is expected, with the outcome's name and "again" when replayed before it. */
static void expect_answer(const void *response, const ProtobufCEnumDescriptor *type, int outcome, bool replayed,
                          const char *rest, int got_outcome, bool got_replayed, const char *got_rest)
{
    if (!response)
        fail_msg("%s expected, got the error %s: %s", harness_word(type, outcome), lks_code_name(err.code),
                 err.message);
    if (got_outcome != outcome || got_replayed != replayed || strcmp(got_rest, rest) != 0)
        fail_msg("%s%s %s expected, got %s%s %s", harness_word(type, outcome), replayed ? " again" : "", rest,
                 harness_word(type, got_outcome), got_replayed ? " again" : "", got_rest);
}

static const char *told(size_t n, lks_line_stock *const *lines)
{
    static char got[4096];
    size_t len = 0;

    got[0] = '\0';
    for (size_t i = 0; i < n; i++)
        len += (size_t)snprintf(got + len, sizeof got - len, "%s%s:%lld", i > 0 ? " " : "", lines[i]->sku,
                                (long long)lines[i]->available);
    return got;
}

void expect_deduct(const lks_deduct_response *response, lks_deduct_outcome outcome, bool replayed, const char *lines)
{
    expect_answer(response, &lockstock__v1__deduct_outcome__descriptor, (int)outcome, replayed, lines,
                  response ? (int)response->outcome : 0, response && response->replayed,
                  response ? told(response->n_lines, response->lines) : "");
}

void expect_reserve(const lks_reserve_response *response, lks_reserve_outcome outcome, bool replayed, const char *lines)
{
    expect_answer(response, &lockstock__v1__reserve_outcome__descriptor, (int)outcome, replayed, lines,
                  response ? (int)response->outcome : 0, response && response->replayed,
                  response ? told(response->n_lines, response->lines) : "");
}

void expect_confirm(const lks_confirm_response *response, lks_confirm_outcome outcome, bool replayed, const char *order)
{
    expect_answer(response, &lockstock__v1__confirm_outcome__descriptor, (int)outcome, replayed, order,
                  response ? (int)response->outcome : 0, response && response->replayed,
                  order_text(response ? response->order : NULL));
}

void expect_cancel(const lks_cancel_response *response, lks_cancel_outcome outcome, bool replayed, const char *order)
{
    expect_answer(response, &lockstock__v1__cancel_outcome__descriptor, (int)outcome, replayed, order,
                  response ? (int)response->outcome : 0, response && response->replayed,
                  order_text(response ? response->order : NULL));
}

void expect_return(const lks_return_response *response, lks_return_outcome outcome, bool replayed, const char *order)
{
    expect_answer(response, &lockstock__v1__return_outcome__descriptor, (int)outcome, replayed, order,
                  response ? (int)response->outcome : 0, response && response->replayed,
                  order_text(response ? response->order : NULL));
}

const char *order_text(const lks_order *order)
{
    static char got[4096];
    int len;

    if (!order)
        return "none";
    len = snprintf(got, sizeof got, "%s %s", harness_word(&lockstock__v1__order_state__descriptor, (int)order->state),
                   order->buyer_id);
    for (size_t i = 0; i < order->n_lines; i++)
        len += snprintf(got + len, sizeof got - (size_t)len, " %s:%lld:%lld", order->lines[i]->sku,
                        (long long)order->lines[i]->quantity, (long long)order->lines[i]->returned);
    return got;
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

int64_t chore_ms(void)
{
    for (const service_alarm *alarm = harness_last_alarms(h); alarm; alarm = alarm->next)
        if (alarm->lasting && strcmp(alarm->function, "stock_expire") == 0)
            return alarm->in_ms;
    return -1;
}

int64_t run_chore(const char *group)
{
    char base[256];
    const int n = snprintf(base, sizeof base, "ls:{default/%s}:", group);
    const service_alarm chore = {.base = {.data = base, .len = (size_t)n}, .function = "stock_expire", .lasting = true};

    return harness_ring(h, &chore);
}

const char *ledger_text(const lks_read_ledger_response *response)
{
    static char got[65536];
    size_t len = 0;

    got[0] = '\0';
    if (!response)
        fail_msg("ReadLedger: %s", err.message);
    for (size_t i = 0; i < response->n_entries; i++) {
        const lks_ledger_entry *e = response->entries[i];
        const char *kind =
            protobuf_c_enum_descriptor_get_value(&lockstock__v1__ledger_kind__descriptor, (int)e->kind)->name;
        len += (size_t)snprintf(got + len, sizeof got - len, "%s %s %lld %s\n", kind + strlen("LEDGER_KIND_"), e->sku,
                                (long long)e->quantity, e->order_id);
    }
    return got;
}
