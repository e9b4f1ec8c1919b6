/* Tickets: consumed once, by one consumer, for one subject. */
#include "services/idempotency_script.h"

#include <stdio.h>

static char ticket[64];

TEST(one_consumer_uses_it_once)
{
    says(issue("s", "me", 60000, ticket), "OK");
    says(consume("s", "me", ticket, "C1"), "CONSUMED");
    says(consume("s", "me", ticket, "C1"), "CONSUMED again");
    says(consume("s", "me", ticket, "C2"), "ALREADY_CONSUMED");
    says(consume("s", "me", ticket, "C1"), "CONSUMED again");
}

TEST(what_is_not_known_does_not_say_why)
{
    issue("s", "me", 60000, ticket);
    says(consume("s", "you", ticket, "C1"), "UNKNOWN");
    says(consume("t", "me", ticket, "C1"), "UNKNOWN");
    says(consume("s", "me", "never-issued", "C1"), "UNKNOWN");
    says(consume("s", "me", ticket, "C1"), "CONSUMED"); /* nothing was used up */
    says(consume("s", "you", ticket, "C1"), "UNKNOWN"); /* also the consumed one */
    harness_namespace(h, "other");
    says(consume("s", "me", ticket, "C1"), "UNKNOWN");
}

static int64_t ttl_ms(void)
{
    char command[128];

    snprintf(command, sizeof command, "PTTL ls:{default/s/%s}:idem:t", ticket);
    return atoll(harness_redis(h, command));
}

TEST(a_ticket_ends)
{
    issue("s", "me", 5000000, ticket);
    about(ttl_ms(), 5000000);
    says(consume("s", "me", ticket, "C1"), "CONSUMED");
    about(ttl_ms(), 5000000); /* known as consumed until then */
    assert_true(ttl_ms() > 4000000);
    harness_redis(h, "PEXPIRE ls:{default/s/%s}:idem:t 1", ticket);
    while (ttl_ms() >= 0)
        ;
    says(consume("s", "me", ticket, "C1"), "UNKNOWN");
    says(consume("s", "me", ticket, "C2"), "UNKNOWN");
    says(harness_redis(h, "KEYS ls:{*"), "");
}

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

TEST(tickets_are_random)
{
    enum { TICKETS = 1000 };
    static char tickets[TICKETS][64];

    for (int i = 0; i < TICKETS; i++) {
        says(issue("s", "me", 60000, tickets[i]), "OK");
        assert_int_equal(strlen(tickets[i]), 32);
        assert_int_equal(strspn(tickets[i], "0123456789abcdefghijklmnopqrstuvwxyz"), 32);
    }
    qsort(tickets, TICKETS, sizeof tickets[0], by_text);
    for (int i = 1; i < TICKETS; i++)
        assert_string_not_equal(tickets[i - 1], tickets[i]);
}

TEST(an_empty_consumer_is_made_up)
{
    issue("s", "me", 60000, ticket);
    says(consume("s", "me", ticket, ""), "CONSUMED");
    says(consume("s", "me", ticket, ""), "ALREADY_CONSUMED"); /* another one: not recognised */
}

TEST(foreign_data_is_left_alone)
{
    issue("s", "me", 60000, ticket);
    harness_redis(h, "SET ls:{default/s/%s}:idem:t x", ticket);
    says(consume("s", "me", ticket, "C1"), "FAILED_PRECONDITION NO the store holds foreign data under this name");
    says(harness_redis(h, "GET ls:{default/s/%s}:idem:t", ticket), "x");
}

TEST(calls_sent_together_are_as_separate_ones)
{
    enum { CONSUMERS = 50 };
    lks_consume_ticket_request request[CONSUMERS];
    const void *requests[CONSUMERS], *responses[CONSUMERS];
    lks_error errors[CONSUMERS];
    char scope[] = "s", subject[] = "me", consumer[CONSUMERS][SERVICE_TOKEN_BYTES_MIN + 1];

    issue("s", "me", 60000, ticket);
    for (int i = 0; i < CONSUMERS; i++) {
        request[i] = message(consume_ticket_request, .scope = scope, .subject = subject, .ticket = ticket,
                             .consumer_id = consumer[i]);
        snprintf(consumer[i], sizeof consumer[i], "consumer%08d", i);
        requests[i] = &request[i];
    }
    ask_together(CONSUMERS, requests, responses, errors);
    for (int i = 0; i < CONSUMERS; i++) {
        const lks_consume_ticket_response *response = responses[i];
        assert_int_equal(response->outcome,
                         i == 0 ? LKS_CONSUME_TICKET_OUTCOME_CONSUMED : LKS_CONSUME_TICKET_OUTCOME_ALREADY_CONSUMED);
        assert_false(response->replayed);
    }
}

TEST_MAIN(.setup_all = script_open, .teardown_all = servers_close, .setup = servers_reset)
