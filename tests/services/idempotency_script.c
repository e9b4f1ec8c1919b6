/* Turns words into requests and responses into words. Invariant: a word of a script
 * means one thing, so that two equal lines are two equal answers. */
#include "services/idempotency_script.h"

#include <stdio.h>

const lks_begin_response *begun;
const lks_record *got;

enum { HEADERS_MAX = 16, PARKED_MAX = 2048, TEXT_BYTES = 65536 };

static uint64_t last_fence;

static struct parked {
    char server[4], key[32], token[16];
    harness_waiting *call;
} parked[PARKED_MAX];
static size_t n_parked;
static service_alarm alarm;
static char told[TEXT_BYTES];

static const void *run(const char *method, const void *request, char *line)
{
    return run_line(&idempotency_service, method, request, line);
}

const char *call(const char *method, const void *request)
{
    char *line = new_line();

    return run(method, request, line) ? "OK" : line;
}

/* ---- Begin ------------------------------------------------------------------------ */

static void add_result(char *line, const lks_stored_result *result)
{
    assert_non_null(result);
    add(line, LINE_BYTES, " %d", result->code);
    if (result->body.len > 0)
        add(line, LINE_BYTES, " %.*s", (int)result->body.len, (const char *)result->body.data);
    for (size_t i = 0; i < result->n_headers; i++)
        add(line, LINE_BYTES, " %s=%s", result->headers[i]->key, result->headers[i]->value);
}

static char *begun_line(const lks_begin_response *response, char *line)
{
    begun = response;
    add(line, LINE_BYTES, "%s", harness_word(&lockstock__v1__begin_outcome__descriptor, (int)response->outcome));
    if (response->outcome != LKS_BEGIN_OUTCOME_MISMATCH)
        add(line, LINE_BYTES, " %lld", (long long)response->attempt);
    if (response->outcome == LKS_BEGIN_OUTCOME_EXECUTE)
        last_fence = response->fence;
    if (response->outcome == LKS_BEGIN_OUTCOME_REPLAY)
        add_result(line, response->result);
    /* What does not belong to the outcome is not there. */
    assert_int_equal(response->fence != 0, response->outcome == LKS_BEGIN_OUTCOME_EXECUTE);
    assert_int_equal(response->result != NULL, response->outcome == LKS_BEGIN_OUTCOME_REPLAY);
    if (response->outcome != LKS_BEGIN_OUTCOME_IN_PROGRESS)
        assert_int_equal(response->retry_after_ms, 0);
    return line;
}

static const lks_begin_request *begin_request(const char *key, const char *token, const char *fingerprint,
                                              int64_t lease_ms, int64_t retain_ms, int64_t wait_ms)
{
    static lks_begin_request request;

    request = (lks_begin_request)LKS_BEGIN_REQUEST_INIT;
    request.scope = harness_unconst("s");
    request.key = harness_unconst(key);
    request.attempt_token = harness_unconst(token_of(token));
    request.fingerprint.data = (uint8_t *)harness_unconst(fingerprint);
    request.fingerprint.len = strlen(fingerprint);
    request.lease_ms = lease_ms;
    request.retain_ms = retain_ms;
    request.wait_ms = wait_ms;
    return &request;
}

const char *begin_of(const char *key, const char *token, const char *fingerprint, int64_t lease_ms, int64_t retain_ms)
{
    char *line = new_line();
    const lks_begin_response *response =
        run("Begin", begin_request(key, token, fingerprint, lease_ms, retain_ms, 0), line);

    return response ? begun_line(response, line) : line;
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
    lks_extend_request request = LKS_EXTEND_REQUEST_INIT;
    char *line = new_line();

    request.scope = harness_unconst("s");
    request.key = harness_unconst(key);
    request.fence = of_fence;
    request.lease_ms = lease_ms;
    const lks_extend_response *response = run("Extend", &request, line);
    return response ? harness_word(&lockstock__v1__extend_outcome__descriptor, (int)response->outcome) : line;
}

const char *complete_with(const char *key, uint64_t of_fence, int32_t code, const char *body, const char *headers)
{
    lks_complete_request request = LKS_COMPLETE_REQUEST_INIT;
    lks_result_header header[HEADERS_MAX], *list[HEADERS_MAX];
    char *line = new_line(), *copy = new_line();

    request.scope = harness_unconst("s");
    request.key = harness_unconst(key);
    request.fence = of_fence;
    request.code = code;
    request.body.data = (uint8_t *)harness_unconst(body);
    request.body.len = strlen(body);
    request.headers = list;
    add(copy, LINE_BYTES, "%s", headers);
    for (char *at = strtok(copy, " "); at; at = strtok(NULL, " ")) {
        lks_result_header *h = list[request.n_headers] = &header[request.n_headers];
        *h = (lks_result_header)LKS_RESULT_HEADER_INIT;
        h->key = at;
        h->value = strchr(at, '=');
        *h->value++ = '\0';
        request.n_headers++;
    }
    const lks_complete_response *response = run("Complete", &request, line);
    if (response)
        add(line, LINE_BYTES, "%s%s",
            harness_word(&lockstock__v1__complete_outcome__descriptor, (int)response->outcome),
            response->replayed ? " again" : "");
    return line;
}

const char *complete(const char *key, uint64_t of_fence, int32_t code, const char *body)
{
    return complete_with(key, of_fence, code, body, "");
}

static const char *fail_as(lks_fail_kind kind, const char *key, uint64_t of_fence, const char *detail)
{
    lks_fail_request request = LKS_FAIL_REQUEST_INIT;
    char *line = new_line();

    request.scope = harness_unconst("s");
    request.key = harness_unconst(key);
    request.fence = of_fence;
    request.kind = kind;
    request.detail = harness_unconst(detail);
    const lks_fail_response *response = run("Fail", &request, line);
    if (response)
        add(line, LINE_BYTES, "%s%s", harness_word(&lockstock__v1__fail_outcome__descriptor, (int)response->outcome),
            response->replayed ? " again" : "");
    return line;
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
    lks_get_request request = LKS_GET_REQUEST_INIT;
    char *line = new_line();

    request.scope = harness_unconst("s");
    request.key = harness_unconst(key);
    const lks_get_response *response = run("Get", &request, line);
    if (!response)
        return strncmp(line, "NOT_FOUND", 9) == 0 ? "NONE" : line;
    got = response->record;
    assert_string_equal(got->scope, "s");
    assert_string_equal(got->key, key);
    add(line, LINE_BYTES, "%s %lld", harness_word(&lockstock__v1__record_state__descriptor, (int)got->state),
        (long long)got->attempt);
    if (got->result)
        add_result(line, got->result);
    if (got->detail[0])
        add(line, LINE_BYTES, " (%s)", got->detail);
    return line;
}

const char *forget(const char *key)
{
    lks_delete_request request = LKS_DELETE_REQUEST_INIT;

    request.scope = harness_unconst("s");
    request.key = harness_unconst(key);
    return call("Delete", &request);
}

int64_t key_number(const char *command, const char *name, const char *key)
{
    char text[128];

    snprintf(text, sizeof text, "%s ls:{default/s/%s}:%s", command, key, name);
    return atoll(harness_redis(script_harness, text));
}

/* ---- tickets ---------------------------------------------------------------------- */

const char *issue(const char *scope, const char *subject, int64_t ttl_ms, char ticket[static 64])
{
    lks_issue_ticket_request request = LKS_ISSUE_TICKET_REQUEST_INIT;
    char *line = new_line();

    request.scope = harness_unconst(scope);
    request.subject = harness_unconst(subject);
    request.ttl_ms = ttl_ms;
    const lks_issue_ticket_response *response = run("IssueTicket", &request, line);
    if (response)
        snprintf(ticket, 64, "%s", response->ticket);
    return response ? "OK" : line;
}

const char *consume(const char *scope, const char *subject, const char *ticket, const char *consumer)
{
    lks_consume_ticket_request request = LKS_CONSUME_TICKET_REQUEST_INIT;
    char *line = new_line();

    request.scope = harness_unconst(scope);
    request.subject = harness_unconst(subject);
    request.ticket = harness_unconst(ticket);
    request.consumer_id = harness_unconst(consumer[0] ? token_of(consumer) : "");
    const lks_consume_ticket_response *response = run("ConsumeTicket", &request, line);
    if (response)
        add(line, LINE_BYTES, "%s%s",
            harness_word(&lockstock__v1__consume_ticket_outcome__descriptor, (int)response->outcome),
            response->replayed ? " again" : "");
    return line;
}

/* ---- waiting ---------------------------------------------------------------------- */

int idempotency_reset(void **state)
{
    n_parked = 0;
    return servers_reset(state);
}

static const char *line_of(const struct parked *p)
{
    char *line = new_line();
    lks_error error;

    if (harness_is_parked(p->call)) {
        alarm = *harness_alarms(p->call);
        assert_string_equal(alarm.function, "idempotency_lease_over");
        assert_string_equal(alarm.argument.data, p->server);
        assert_false(alarm.lasting);
        return "WAITS";
    }
    const lks_begin_response *response = harness_answer(p->call, &error);
    if (response)
        return begun_line(response, line);
    add_error(line, &error);
    return line;
}

const char *wait_of(const char *server, const char *key, const char *token, const char *fingerprint, int64_t lease_ms,
                    int64_t wait_ms)
{
    struct parked *p = &parked[n_parked++];

    assert_true(n_parked <= PARKED_MAX);
    snprintf(p->server, sizeof p->server, "%s", server);
    snprintf(p->key, sizeof p->key, "%s", key);
    snprintf(p->token, sizeof p->token, "%s", token);
    p->call = harness_start(script_harness, &idempotency_service, p->server, "Begin",
                            begin_request(p->key, p->token, fingerprint, lease_ms, 0, wait_ms));
    return line_of(p);
}

const char *wait_at(const char *server, const char *key, const char *token)
{
    return wait_of(server, key, token, "", LEASE_MS, WAIT_MS);
}

static const char *event(const char *server, const char *token, service_event what)
{
    for (size_t i = n_parked; i-- > 0;) {
        struct parked *p = &parked[i];
        if (strcmp(p->server, server) == 0 && strcmp(p->token, token) == 0) {
            harness_event(script_harness, p->call, what);
            return line_of(p);
        }
    }
    fail_msg("%s parks no call of %s", server, token);
    return NULL;
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
            for (size_t i = 0; i < n_parked; i++) {
                struct parked *p = &parked[i];
                if (strncmp(p->server, word, 2) != 0 || strcmp(p->key, word + 3) != 0 || !harness_is_parked(p->call))
                    continue;
                harness_event(script_harness, p->call, SERVICE_WOKEN);
                const char *line = line_of(p);
                if (!harness_is_parked(p->call))
                    add(answers, sizeof answers, "%s%s %s %s", answers[0] ? ", " : "", p->server, p->token, line);
            }
        }
    }
    return answers;
}

int64_t ring(void)
{
    return harness_ring(script_harness, &alarm);
}

int64_t ring_at(const char *server, const char *key)
{
    char base[64];

    snprintf(base, sizeof base, "ls:{default/s/%s}:", key);
    return harness_ring(script_harness, &(service_alarm){.base = lks_rpc_slice_of(base),
                                                         .function = "idempotency_lease_over",
                                                         .argument = lks_rpc_slice_of(server)});
}

int waiting_keys(void)
{
    return atoi(harness_redis(script_harness, "EVAL %s 0", "return #redis.call('KEYS', 'ls:*:idem:w')"));
}
