/* IdempotencyService: tickets. Invariant: a ticket cannot be guessed (165 bits of
 * getrandom), so it places its own record, and knowing it is having it. Called by
 * dispatch through idempotency.c's table. */
#include <lockstock/rpc/method.h>

#include "services/idempotency.h"

enum { TTL_MS_MIN = 1000, TTL_MS_MAX = 86400000 };

void issue_ticket_prepare(const lks_issue_ticket_request *request, plan *p)
{
    char *ticket = lks_rpc_arena_alloc(p->arena, LKS_RPC_RANDOM_ID_LEN + 1);

    plan_check_name(p, "scope", request->scope);
    plan_check_name(p, "subject", request->subject);
    plan_check_range(p, "ttl_ms", request->ttl_ms, TTL_MS_MIN, TTL_MS_MAX);
    if (!ticket) {
        plan_no_memory(p);
        return;
    }
    lks_rpc_random_id(ticket);
    plan_call_of_pair(p, "idempotency_issue_ticket", request->scope, ticket, 3);
    plan_arg(p, request->subject);
    plan_arg_int(p, request->ttl_ms);
    plan_arg(p, ticket); /* for finish */
}

void issue_ticket_finish(const lks_issue_ticket_request *request, answer *a, lks_issue_ticket_response *response)
{
    lks_rpc_slice ticket = a->plan->calls[0].args[2];
    char *text = lks_rpc_arena_copy(a->arena, ticket.data, ticket.len);

    (void)request;
    if (text)
        response->ticket = text;
    else
        lks_error_set(&a->error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_MAYBE, "out of memory");
}

void consume_ticket_prepare(const lks_consume_ticket_request *request, plan *p)
{
    plan_check_name(p, "scope", request->scope);
    plan_check_name(p, "subject", request->subject);
    plan_check_name(p, "ticket", request->ticket);
    plan_call_of_pair(p, "idempotency_consume_ticket", request->scope, request->ticket, 2);
    plan_arg(p, request->subject);
    idempotency_id_arg(p, "consumer_id", request->consumer_id);
}

void consume_ticket_finish(const lks_consume_ticket_request *request, answer *a, lks_consume_ticket_response *response)
{
    const store_value *reply = a->replies[0];

    (void)request;
    response->outcome =
        (lks_consume_ticket_outcome)answer_enum(a, reply, 0, &lockstock__v1__consume_ticket_outcome__descriptor);
    response->replayed = answer_int(a, reply, 1) != 0;
}
