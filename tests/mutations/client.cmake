# What keeps the promises of lks_once, lks_limiter and lks_reservation.

# Once: a run and its calls
c_mutation(C1 client/once.c test_once:*is_stored [[request.scope = attempt->scope;
    request.key = attempt->key;
    request.attempt_token]] [[request.scope = attempt->key;
    request.key = attempt->key;
    request.attempt_token]])
c_mutation(C1 client/once.c test_once:*is_stored [[attempt->number = response->attempt;]] "")
c_mutation(C1 client/once.c test_once:*is_stored [[attempt->fence = response->fence;]] "")
c_mutation(C3 client/once.c test_once:*told_apart
  [[response->retry_after_ms < UINT32_MAX ? (uint32_t)response->retry_after_ms : UINT32_MAX;]] [[0;]])
c_mutation(C4 client/once.c test_once:*another_attempt
  [[request.attempt_token = attempt->token;]] [[request.attempt_token = "the-same-for-all-of-them";]])

# Once: what may have begun

# Once: the lease
c_mutation(C6 client/lease/lease_time.c test_once_lease:*while_it_runs [[* CLOCK_NS_PER_MS / RENEWALS]] [[* CLOCK_NS_PER_MS / (RENEWALS * 100)]])
c_mutation(C7 client/lease/lease.c test_once_lease:*nobody_extends*
  [[bool lost = clock_now_ns() >= lease->lost_ns;]] [[bool lost = false;]])
c_mutation(C6 client/lease/lease_time.c test_lease:*ask_for_a_pause [[pause_ms > error->retry_after_ms]] [[true]])
c_mutation(C7 client/lease/lease_time.c test_once_lease:*from_the_sending [[left > margin ? left - margin : 0]] [[left]])

# Once: the end
c_mutation(C8 client/once.c test_once_lease:*failure_for_now [[        request.detail = attempt->detail;]] [[        ;]])
c_mutation(C11 client/lease/lease_time.c test_once:*are_named
  [[lease_ms >= LEASE_MS_MIN && ]] "")
c_mutation(C11 client/lease/lease_time.c test_once:*are_named
  [[ && lease_ms <= LEASE_MS_MAX]] "")

# Once: two processes

# The limiter
c_mutation(C14 client/limiter.c test_limiter [[rules[i].key = from->key ? from->key : key;]] [[rules[i].key = (char *)key;]])
c_mutation(C14 client/limiter.c test_limiter [[rule->penalty = *from->limit->penalty;
            rule->limit.penalty = &rule->penalty;]] "")
c_mutation(C14 client/limiter.c test_limiter [[request.cost = cost;]] "")
c_mutation(C14 client/limiter.c test_limiter [[if (options->n_rules > 1 && !has_text(options->group))]] [[if (false)]])
c_mutation(C14 client/limiter.c test_limiter [[has_text(options->rules[i].policy) == !!options->rules[i].limit]] [[false]])
c_mutation(C14 client/limiter.c test_limiter [[options->n_rules < 1 || ]] "")
c_mutation(C15 client/limiter.c test_limiter [[return a_passes ? a->remaining < b->remaining : wait_of(a) > wait_of(b);]] [[return false;]])
c_mutation(C15 client/limiter.c test_limiter:*several_rules* [[return (uint64_t)result->retry_after_ms;]]
  [[return result->retry_after_ms < 0 ? 0 : (uint64_t)result->retry_after_ms;]])
c_mutation(C15 client/limiter.c test_limiter [[        return b_passes;]] [[        return a_passes;]])
c_mutation(C15 client/limiter.c test_limiter [[return decision->outcome == LKS_CHECK_OUTCOME_ALLOWED;]] [[return decision->outcome != LKS_CHECK_OUTCOME_DENIED;]])
c_mutation(C15 client/limiter.c test_limiter [[response->outcome != LKS_CHECK_OUTCOME_ALLOWED ? result->retry_after_ms : 0;]] [[0;]])
c_mutation(C16 client/limiter.c test_limiter [[limiter->fail_open && error_is_away(error)]] [[error_is_away(error)]])
c_mutation(C16 client/limiter.c test_limiter [[limiter->fail_open && error_is_away(error)]] [[limiter->fail_open]])
c_mutation(C16 client/limiter.c test_limiter [[ ||
        response->outcome > LKS_CHECK_OUTCOME_BANNED)]] [[)]])
c_mutation(C17 client/limiter.c test_limiter [[    if (limiter->remembered) {]] [[    if (true) {]])
c_mutation(C17 client/limiter.c test_limiter [[decision->outcome != LKS_CHECK_OUTCOME_ALLOWED || decision->request_id]] [[decision->request_id]])
c_mutation(C17 client/limiter.c test_limiter [[ || decision->request_id[0] == '\0')]] [[)]])
c_mutation(C17 client/limiter.c test_limiter [[response->outcome == LKS_REFUND_OUTCOME_UNKNOWN]] [[false]])
c_mutation(C17 client/limiter.c test_limiter [[limiter->rules[0].key ? limiter->rules[0].key]] [[false ? limiter->rules[0].key]])
c_mutation(C18 client/limiter.c test_limiter [[at_ns = now + (uint64_t)decision->retry_after_ms * CLOCK_NS_PER_MS;]] [[at_ns = now;]])
c_mutation(C18 client/limiter.c test_limiter [[decision->retry_after_ms <= 0 || ]] "")
c_mutation(C18 client/limiter.c test_limiter [[ ||
            (uint64_t)decision->retry_after_ms > (until_ns - now) / CLOCK_NS_PER_MS)]] [[)]])
c_mutation(C18 client/limiter.c test_limiter [[pthread_cond_broadcast(&limiter->changed);]] "")
c_mutation(C18 client/limiter.c test_limiter [[return !stopped;]] [[return true;]])
c_mutation(C19 client/limiter.c test_helpers:*refunded_once [[ : key;
    request.request_id = decision->request_id;]] [[ : key;]])

# Reservations
c_mutation(C20 client/reservation.c test_reservation:*and_confirmed [[lines[i].quantity = order->lines[i].quantity;]] "")
c_mutation(C20 client/reservation.c test_reservation:*and_confirmed
  [[request.fresh = !order->order_id;]] [[request.fresh = true;]])
c_mutation(C20 client/reservation.c test_reservation:*are_sent
  [[request.fresh = !order->order_id;]] [[request.fresh = false;]])
c_mutation(C20 client/reservation.c test_reservation:*are_sent [[        request.buyer_id = order->buyer_id;]] [[        ;]])
c_mutation(C20 client/reservation.c test_reservation:*are_sent [[reservation->replayed = response->replayed;]] "")
c_mutation(C20 client/reservation.c test_reservation:*taken_again [[request.reacquire_if_expired = reacquire;]] "")
c_mutation(C21 client/reservation.c test_reservation:*told_apart [[if (response->n_lines == 0)]] [[if (true)]])
c_mutation(C21 client/reservation.c test_reservation:*are_named [[if (!has_group && order->n_lines > 1)]] [[if (false)]])
c_mutation(C21 client/reservation.c test_reservation:*are_named [[ || order->n_lines > LINES_MAX)]] [[)]])
c_mutation(C22 client/reservation.c test_reservation:*became_of_it [[        request.reason = reason;]] [[        ;]])
c_mutation(C24 client/reservation.c test_reservation:*could_not_be_sold* [[ || outcome == LKS_CONFIRM_OUTCOME_CANCELLED;]] [[;]])
c_mutation(C25 client/lease/lease.c test_reservation:*extended_in_time [[left_ms < lease->lease_ms ?]] [[left_ms < 0 ?]])
