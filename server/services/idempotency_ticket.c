/* IdempotencyService: tickets. Invariant: a ticket cannot be guessed (165 bits of getrandom); knowing it proves
 * ownership. */
#include <lockstock/rpc/method.h>

#include "memory.h"
#include "services/idempotency.h"

enum { TTL_MS_MIN = 1000, TTL_MS_MAX = 86400000 };

void issue_ticket_prepare(const lks_issue_ticket_request *request, plan *p)
{
    char *ticket = memory_in(p->arena, LKS_RPC_RANDOM_ID_LEN + 1);

    plan_check_name(p, "scope", request->scope);
    plan_check_name(p, "subject", request->subject);
    plan_check_range(p, "ttl_ms", request->ttl_ms, TTL_MS_MIN, TTL_MS_MAX);
    lks_rpc_random_id(ticket);
    p->kept = ticket;
    plan_call_at(p, &fn_idempotency_issue_ticket, plan_base(p, request->scope, ticket), 0);
    args_idempotency_issue_ticket(p, .subject = request->subject, .ttl_ms = request->ttl_ms);
}

void issue_ticket_finish(const lks_issue_ticket_request *request, answer *a, lks_issue_ticket_response *response)
{
    (void)request;
    response->ticket = a->plan->kept;
}

void consume_ticket_prepare(const lks_consume_ticket_request *request, plan *p)
{
    plan_check_name(p, "scope", request->scope);
    plan_check_name(p, "subject", request->subject);
    plan_check_name(p, "ticket", request->ticket);
    const char *consumer = idempotency_id(p, "consumer_id", request->consumer_id);
    plan_call_at(p, &fn_idempotency_consume_ticket, plan_base(p, request->scope, request->ticket), 0);
    args_idempotency_consume_ticket(p, .subject = request->subject, .consumer = consumer);
}

void consume_ticket_finish(const lks_consume_ticket_request *request, answer *a, lks_consume_ticket_response *response)
{
    const store_value *reply = a->replies[0];

    (void)request;
    response->outcome =
        (lks_consume_ticket_outcome)answer_enum(a, reply, 0, &lockstock__v1__consume_ticket_outcome__descriptor);
    response->replayed = answer_int(a, reply, 1) != 0;
}
