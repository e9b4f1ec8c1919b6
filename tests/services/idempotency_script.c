/* Turns words into requests and responses into words. Invariant: a word of a script
 * means one thing, so that two equal lines are two equal answers. */
#include "services/idempotency_script.h"

const lks_begin_response *begun;
const lks_record *got;

enum { HEADERS_MAX = 16 };

static uint64_t last_fence;

static service_alarm alarm;
static char told[TEXT_BYTES];

/* ---- Begin ------------------------------------------------------------------------ */

static void add_result(char *line, const lks_stored_result *result)
{
    assert_non_null(result);
    add_line(line, " %d", result->code);
    if (result->body.len > 0)
        add_line(line, " %.*s", (int)result->body.len, (const char *)result->body.data);
    for (size_t i = 0; i < result->n_headers; i++)
        add_line(line, " %s=%s", result->headers[i]->key, result->headers[i]->value);
}

static const char *begun_line(const lks_begin_response *response)
{
    char *line = new_line();

    begun = response;
    if (!response)
        return line_of(NULL);
    add_line(line, "%s", lks_begin_outcome_name(response->outcome));
    if (response->outcome != LKS_BEGIN_OUTCOME_MISMATCH)
        add_line(line, " %lld", (long long)response->attempt);
    if (response->outcome == LKS_BEGIN_OUTCOME_EXECUTE)
        last_fence = response->fence;
    if (response->outcome == LKS_BEGIN_OUTCOME_REPLAY)
        add_result(line, response->result);
    /* What does not belong to the outcome is not there. */
    assert_int_equal(response->fence != 0, response->outcome == LKS_BEGIN_OUTCOME_EXECUTE);
    assert_int_equal(!!response->result, response->outcome == LKS_BEGIN_OUTCOME_REPLAY);
    if (response->outcome != LKS_BEGIN_OUTCOME_IN_PROGRESS)
        assert_int_equal(response->retry_after_ms, 0);
    return line;
}

static lks_begin_request begin_request(const char *key, const char *token, const char *fingerprint, int64_t lease_ms,
                                       int64_t retain_ms, int64_t wait_ms)
{
    return message(begin_request, .scope = "s", .key = key, .attempt_token = token_of(token),
                   .fingerprint = {strlen(fingerprint), (uint8_t *)fingerprint}, .lease_ms = lease_ms,
                   .retain_ms = retain_ms, .wait_ms = wait_ms);
}

const char *begin_of(const char *key, const char *token, const char *fingerprint, int64_t lease_ms, int64_t retain_ms)
{
    const lks_begin_request request = begin_request(key, token, fingerprint, lease_ms, retain_ms, 0);

    return begun_line(answer_to(&request));
}

const char *begin(const char *key, const char *token)
{
    return begin_of(key, token, "", LEASE_MS, 0);
}

uint64_t fence(void)
{
    return last_fence;
}

/* ---- an attempt ------------------------------------------------------------------- */

const char *extend(const char *key, uint64_t of_fence, int64_t lease_ms)
{
    return line_of(ask(extend, .scope = "s", .key = key, .fence = of_fence, .lease_ms = lease_ms));
}

const char *complete_with(const char *key, uint64_t of_fence, int32_t code, const char *body, const char *headers)
{
    lks_result_header header[HEADERS_MAX], *list[HEADERS_MAX];
    char copy[LINE_BYTES], *word[WORDS_MAX];
    size_t n = words(headers, copy, word);

    for (size_t i = 0; i < n; i++) {
        char *named = strsep(&word[i], "=");
        list[i] = &header[i];
        header[i] = message(result_header, .key = named, .value = word[i]);
    }
    return line_of(ask(complete, .scope = "s", .key = key, .fence = of_fence, .code = code,
                       .body = {strlen(body), (uint8_t *)body}, .headers = list, .n_headers = n));
}

const char *complete(const char *key, uint64_t of_fence, int32_t code, const char *body)
{
    return complete_with(key, of_fence, code, body, "");
}

static const char *fail_as(lks_fail_kind kind, const char *key, uint64_t of_fence, const char *detail)
{
    return line_of(ask(fail, .scope = "s", .key = key, .fence = of_fence, .kind = kind, .detail = detail));
}

const char *fail_retryable(const char *key, uint64_t of_fence, const char *detail)
{
    return fail_as(LKS_FAIL_KIND_RETRYABLE, key, of_fence, detail);
}

const char *fail_final(const char *key, uint64_t of_fence, const char *detail)
{
    return fail_as(LKS_FAIL_KIND_FINAL, key, of_fence, detail);
}

/* ---- the record ------------------------------------------------------------------- */

const char *get(const char *key)
{
    const lks_get_response *response = ask(get, .scope = "s", .key = key);
    char *line = new_line();

    if (!response)
        return err.code == LKS_NOT_FOUND ? "NONE" : line_of(NULL);
    got = response->record;
    says(got->scope, "s");
    says(got->key, key);
    add_line(line, "%s %lld", lks_record_state_name(got->state), (long long)got->attempt);
    if (got->result)
        add_result(line, got->result);
    if (got->detail[0])
        add_line(line, " (%s)", got->detail);
    return line;
}

const char *forget(const char *key)
{
    return line_of(ask(delete, .scope = "s", .key = key));
}

int64_t key_number(const char *command, const char *name, const char *key)
{
    char line[128];

    snprintf(line, sizeof line, "%s ls:{default/s/%s}:%s", command, key, name);
    return atoll(harness_redis(h, line));
}

/* ---- tickets ---------------------------------------------------------------------- */

const char *issue(const char *scope, const char *subject, int64_t ttl_ms, char ticket[static 64])
{
    const lks_issue_ticket_response *response = ask(issue_ticket, .scope = scope, .subject = subject, .ttl_ms = ttl_ms);

    if (response)
        snprintf(ticket, 64, "%s", response->ticket);
    return line_of(response);
}

const char *consume(const char *scope, const char *subject, const char *ticket, const char *consumer)
{
    return line_of(ask(consume_ticket, .scope = scope, .subject = subject, .ticket = ticket,
                       .consumer_id = consumer[0] ? token_of(consumer) : ""));
}

/* ---- waiting ---------------------------------------------------------------------- */

static const char *said_of(const parked *p)
{
    if (!is_waiting(p))
        return begun_line(harness_answer(p->call, &err));
    alarm = *harness_alarms(p->call);
    says(alarm.function, "idempotency_lease_over");
    says(alarm.argument.data, p->server);
    assert_false(alarm.lasting);
    return "WAITS";
}

const char *wait_of(const char *server, const char *key, const char *token, const char *fingerprint, int64_t lease_ms,
                    int64_t wait_ms)
{
    const lks_begin_request request = begin_request(key, token, fingerprint, lease_ms, 0, wait_ms);

    return said_of(park(server, key, token, &request));
}

const char *wait_at(const char *server, const char *key, const char *token)
{
    return wait_of(server, key, token, "", LEASE_MS, WAIT_MS);
}

static const char *event(const char *server, const char *token, service_event what)
{
    const parked *p = find(server, token);

    happen(p, what);
    return said_of(p);
}

const char *woken(const char *server, const char *token)
{
    return event(server, token, SERVICE_WOKEN);
}

const char *timed_out(const char *server, const char *token)
{
    return event(server, token, SERVICE_DEADLINE);
}

const char *abandoned(const char *server, const char *token)
{
    return event(server, token, SERVICE_ABANDONED);
}

/* "W ls:{default/s/k}:idem:w" */
static void add_message(char server, const char *text)
{
    char key[64];

    assert_int_equal(sscanf(text, "W ls:{default/s/%63[^}]}:idem:w", key), 1);
    add(told, sizeof told, "%sS%c:%s", told[0] ? " " : "", server, key);
}

const char *messages(void)
{
    told[0] = '\0';
    servers_read(add_message);
    return told;
}

const char *deliver(void)
{
    static char answers[TEXT_BYTES], copy[TEXT_BYTES];

    answers[0] = '\0';
    while (messages()[0]) {
        char *rest = copy, *word;
        snprintf(copy, sizeof copy, "%s", told);
        while ((word = strsep(&rest, " "))) {
            for (size_t i = 0; parked_at(i); i++) {
                const parked *p = parked_at(i);
                if (strncmp(p->server, word, 2) != 0 || strcmp(p->key, word + 3) != 0 || !is_waiting(p))
                    continue;
                happen(p, SERVICE_WOKEN);
                const char *line = said_of(p);
                if (!is_waiting(p))
                    add(answers, sizeof answers, "%s%s %s %s", answers[0] ? ", " : "", p->server, p->token, line);
            }
        }
    }
    return answers;
}

int64_t ring(void)
{
    return harness_ring(h, &alarm);
}

int64_t ring_at(const char *server, const char *key)
{
    char base[64];

    snprintf(base, sizeof base, "ls:{default/s/%s}:", key);
    return harness_ring(h, &(service_alarm){.base = lks_rpc_slice_of(base),
                                            .function = "idempotency_lease_over",
                                            .argument = lks_rpc_slice_of(server)});
}

int waiting_keys(void)
{
    return atoi(harness_redis(h, "EVAL %s 0", "return #redis.call('KEYS', 'ls:*:idem:w')"));
}
