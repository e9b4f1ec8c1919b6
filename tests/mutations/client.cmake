# What keeps the promises of lks_once, lks_limiter and lks_reservation.

# Once: a run and its calls
c_mutation(C1 client/once.c test_once:*is_stored [[request.scope = attempt->scope;
    request.key = attempt->key;
    request.attempt_token]] [[request.scope = attempt->key;
    request.key = attempt->key;
    request.attempt_token]])
c_mutation(C1 client/once_attempt.c test_once:*is_stored [[request.code = attempt->result.code;]] "")
c_mutation(C1 client/once_attempt.c test_once:*is_stored [[request.body = attempt->result.body;]] "")
c_mutation(C1 client/once_attempt.c test_once:*is_stored [[request.n_headers = attempt->result.n_headers;]] "")
c_mutation(C1 client/once.c test_once:*is_stored [[attempt->number = response->attempt;]] "")
c_mutation(C1 client/once.c test_once:*is_stored [[attempt->fence = response->fence;]] "")
c_mutation(C1 client/once.c test_once:*are_sent [[.len = options->fingerprint_len]] [[.len = 0]])
c_mutation(C1 client/once.c test_once:*are_sent [[request.wait_ms = lease_wait_ms(options->wait_ms);]] "")
c_mutation(C1 client/once.c test_once:*are_sent [[options->retain_ms < INT64_MAX ?]] [[false ?]])
c_mutation(C1 client/once_attempt.c test_once:*is_stored
  [[.body_len = stored->body.len,]] [[.body_len = stored->body.len + 1,]])
c_mutation(C1 client/once_attempt.c test_once:*is_stored [[.n_headers = failed ? 0 : n,]] [[.n_headers = 0,]])
c_mutation(C2 client/once.c test_once:*is_replayed
  [[*result = keep_result(response->result, true);]] [[*result = keep_result(response->result, false);]])
c_mutation(C2 client/once_attempt.c test_once:*final_failure*
  [[bool failed = stored->n_headers == 1 &&]] [[bool failed = false && stored->n_headers == 1 &&]])
c_mutation(C2 client/once_attempt.c test_once:*final_failure* [[.n_headers = failed ? 0 : n,]] [[.n_headers = n,]])
c_mutation(C3 client/once.c test_once:*told_apart
  [[refuse(error, LKS_ONCE_IN_PROGRESS, LKS_ABORTED, LKS_REASON_BUSY,
               "another]]
  [[refuse(error, LKS_ONCE_IN_PROGRESS, LKS_UNAVAILABLE, LKS_REASON_BUSY,
               "another]])
c_mutation(C3 client/once.c test_once:*told_apart
  [[response->retry_after_ms < UINT32_MAX ? (uint32_t)response->retry_after_ms : UINT32_MAX;]] [[0;]])
c_mutation(C3 client/once.c test_once:*told_apart
  [[return refuse(error, LKS_ONCE_MISMATCH,]] [[return refuse(error, LKS_ONCE_IN_PROGRESS,]])
c_mutation(C3 client/once.c test_once:*told_apart [[        *ret = NULL;]] "")
c_mutation(C4 client/once.c test_once:*another_attempt
  [[request.attempt_token = attempt->token;]] [[request.attempt_token = "the-same-for-all-of-them";]])

# Once: what may have begun
c_mutation(C5 client/once.c test_once:*begin_is_given_back
  [[else if (outcome == LKS_ONCE_FAILED && error->applied != LKS_APPLIED_NO)]] [[else if (false)]])
c_mutation(C5 client/once.c test_once:*told_apart
  [[outcome == LKS_ONCE_FAILED && error->applied != LKS_APPLIED_NO]] [[outcome == LKS_ONCE_FAILED]])
c_mutation(C5 client/once_back.c test_once:*begin_is_given_back [[request.wait_ms = 0;]] "")
c_mutation(C5 client/once_back.c test_once:*begin_is_given_back
  [[if (code == LKS_OK && response->outcome == LKS_BEGIN_OUTCOME_EXECUTE)]] [[if (false)]])
c_mutation(C5 client/once_back.c test_once:*answer_is_given_back
  [[if (code == LKS_OK && response->outcome == LKS_BEGIN_OUTCOME_EXECUTE)]] [[if (code == LKS_OK)]])
c_mutation(C5 client/once_back.c test_once:*begin_is_given_back [[request.fence = fence;]] "")
c_mutation(C5 client/once.c test_once_lease:*in_doubt* [[error->applied = LKS_APPLIED_MAYBE; /* the attempt has begun */]] "")

# Once: the lease
c_mutation(C6 client/lease/lease_time.c test_once_lease:*while_it_runs [[* CLOCK_NS_PER_MS / RENEWALS]] [[* CLOCK_NS_PER_MS / (RENEWALS * 100)]])
c_mutation(C6 client/once_attempt.c test_once_lease:*while_it_runs [[request.fence = attempt->fence;
    request.lease_ms]] [[request.lease_ms]])
c_mutation(C7 client/lease/lease.c test_once_lease:*nobody_extends*
  [[bool lost = clock_now_ns() >= lease->lost_ns;]] [[bool lost = false;]])
c_mutation(C6 client/lease/lease_time.c test_lease:*ask_for_a_pause [[pause_ms > error->retry_after_ms]] [[true]])
c_mutation(C7 client/lease/lease_time.c test_once_lease:*from_the_sending [[left > margin ? left - margin : 0]] [[left]])
c_mutation(C7 client/once.c test_once_lease:*from_the_sending
  [[lease_begin(lease, sent_ns, lease->lease_ms);]] [[lease_begin(lease, now_ns, lease->lease_ms);]])
c_mutation(C7 client/once.c test_once_lease:*begin_is_confirmed
  [[lease_is_doubtful(lease->lease_ms, sent_ns, now_ns)]] [[false]])
c_mutation(C7 client/once.c test_once_lease:*begin_is_confirmed
  [[return extended ? LKS_ONCE_EXECUTED]] [[return true ? LKS_ONCE_EXECUTED]])

# Once: the end
c_mutation(C8 client/once.c test_once_lease:*failure_for_now
  [[request.kind = finally ? LKS_FAIL_KIND_FINAL : LKS_FAIL_KIND_RETRYABLE;]] [[request.kind = LKS_FAIL_KIND_FINAL;]])
c_mutation(C8 client/once.c test_once_lease:*failure_for_good
  [[request.kind = finally ? LKS_FAIL_KIND_FINAL : LKS_FAIL_KIND_RETRYABLE;]] [[request.kind = LKS_FAIL_KIND_RETRYABLE;]])
c_mutation(C8 client/once.c test_once_lease:*failure_for_now [[        request.detail = attempt->detail;]] [[        ;]])
c_mutation(C8 client/once.c test_once_lease:*failure_for_now
  [[lks_error_set(error, LKS_ABORTED, LKS_APPLIED_YES, "it failed]] [[lks_error_set(error, LKS_ABORTED, LKS_APPLIED_NO, "it failed]])
c_mutation(C8 client/once.c test_once_lease:*failure_for_good
  [[return outcome == LKS_FAIL_OUTCOME_STORED ? LKS_ONCE_EXECUTED : LKS_ONCE_DOUBTFUL;]] [[return LKS_ONCE_EXECUTED;]])
c_mutation(C9 client/once.c test_once_lease:*patience [[timeout_ms > lease->lease_ms ? timeout_ms : lease->lease_ms]] [[timeout_ms]])
c_mutation(C9 client/once.c test_once_lease:*doubtful [[    return LKS_ONCE_DOUBTFUL;]] [[    return LKS_ONCE_EXECUTED;]])
c_mutation(C9 client/once.c test_once_lease:*doubtful
  [[*result = keep_result(&attempt->result, false);]] [[if (code == LKS_OK) *result = keep_result(&attempt->result, false);]])
c_mutation(C10 client/once.c test_once_lease:*winners*
  [[if (outcome == LKS_COMPLETE_OUTCOME_SUPERSEDED)
        return superseded(attempt, result, error);]] "")
c_mutation(C10 client/once.c test_once_lease:*at_once
  [[if (outcome == LKS_FAIL_OUTCOME_SUPERSEDED)
        return superseded(attempt, result, error);]] "")
c_mutation(C10 client/once.c test_once_lease:*winners*
  [[*result = keep_result(response->record->result, true);]] [[*result = NULL;]])
c_mutation(C11 client/once_attempt.c test_once:*too_much* [[if (len > LKS_ONCE_BODY_MAX)]] [[if (false)]])
c_mutation(C11 client/once_attempt.c test_once:*too_much* [[at == LKS_ONCE_HEADERS_MAX || ]] [[at == LKS_ONCE_HEADERS_MAX - 1 || ]])
c_mutation(C11 client/once_attempt.c test_once:*too_much* [[*key == '\0' || ]] "")
c_mutation(C11 client/once_attempt.c test_once:*too_much* [[!is_text(key, HEADER_KEY_MAX)]] [[!is_text(key, HEADER_VALUE_MAX)]])
c_mutation(C11 client/once_attempt.c test_once:*too_much* [[!is_text(value, HEADER_VALUE_MAX)]] [[!is_text(value, LKS_ONCE_BODY_MAX)]])
c_mutation(C11 client/once_attempt.c test_once:*too_much* [[strncasecmp(key, reserved]] [[strncmp(key, reserved]])
c_mutation(C11 client/once_attempt.c test_once:*at_a_character [[            len--;]] [[            break;]])
c_mutation(C11 client/once_attempt.c test_once:*at_a_character [[        len = LKS_ONCE_DETAIL_MAX;]] [[        ;]])
c_mutation(C11 client/lease/lease_time.c test_once:*are_named
  [[lease_ms >= LEASE_MS_MIN && ]] "")
c_mutation(C11 client/lease/lease_time.c test_once:*are_named
  [[ && lease_ms <= LEASE_MS_MAX]] "")
c_mutation(C11 client/once_attempt.c test_once:*not_utf8* [[return len <= len_max && lks_rpc_utf8_valid(text, len);]] [[return len <= len_max;]])
c_mutation(C11 client/once_attempt.c test_once:*not_utf8* [[    if (!lks_rpc_utf8_valid(detail, len))
        return LKS_INVALID_ARGUMENT;]] "")
c_mutation(C11 client/once_attempt.c test_once:*cannot_send* [[    if (!can_be_sent(attempt)) {]] [[    if (false) {]])
c_mutation(C11 client/once_attempt.c test_once:*cannot_send* [[    if (can_be_sent(attempt))
        return LKS_OK;
    attempt->result.n_headers--;]] [[    if (true)
        return LKS_OK;
    attempt->result.n_headers--;]])

# Once: two processes
c_mutation(C13 client/once.c test_helpers:*frozen*
  [[if (outcome == LKS_COMPLETE_OUTCOME_SUPERSEDED)
        return superseded(attempt, result, error);]] "")

# The limiter
c_mutation(C14 client/limiter.c test_limiter [[rules[i].key = from->key ? from->key : key;]] [[rules[i].key = (char *)key;]])
c_mutation(C14 client/limiter.c test_limiter [[rule->penalty = *from->limit->penalty;
            rule->limit.penalty = &rule->penalty;]] "")
c_mutation(C14 client/limiter.c test_limiter [[request.group = limiter->group;
    request.n_rules]] [[request.group = "";
    request.n_rules]])
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
c_mutation(C16 client/away.h test_limiter [[error->code == LKS_UNAVAILABLE || ]] "")
c_mutation(C16 client/away.h test_limiter [[(error->code == LKS_RESOURCE_EXHAUSTED && passes);]] [[false;]])
c_mutation(C16 client/away.h test_limiter:*closed_or_open [[(error->code == LKS_RESOURCE_EXHAUSTED && passes);]]
  [[error->code == LKS_RESOURCE_EXHAUSTED;]])
c_mutation(C16 client/away.h test_limiter:*full_channel* [[error->origin == LKS_ORIGIN_LOCAL || ]] "")
c_mutation(C16 client/limiter.c test_limiter [[ ||
        response->outcome > LKS_CHECK_OUTCOME_BANNED)]] [[)]])
c_mutation(C17 client/limiter.c test_limiter [[        request.request_id = decision->request_id;]] "")
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
c_mutation(C19 client/away.h test_helpers:*limiter_without* [[error->code == LKS_UNAVAILABLE || ]] "")
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
c_mutation(C21 client/reservation.c test_reservation:*told_apart [[tell_refusal(response, "sold out", error);
        return response->outcome;]] [[return LKS_RESERVE_OUTCOME_CLOSED;]])
c_mutation(C21 client/reservation.c test_reservation:*told_apart [[if (response->n_lines == 0)]] [[if (true)]])
c_mutation(C21 client/reservation.c test_reservation:*are_named [[if (!has_group && order->n_lines > 1)]] [[if (false)]])
c_mutation(C21 client/reservation.c test_reservation:*are_named [[ || order->n_lines > LINES_MAX)]] [[)]])
c_mutation(C22 client/reservation.c test_reservation:*block_cancels
  [[    if (!reservation->settled)
        cancel(reservation, NULL, CANCEL_MS, &error);
    if (!reservation->settled)
        cancel_later(reservation);]] "")
c_mutation(C22 client/reservation.c test_reservation:*all_means [[    if (!reservation->settled)
        cancel_later(reservation);]] "")
c_mutation(C22 client/reservation.c test_reservation:*all_means [[    if (!reservation->settled)
        cancel(reservation, NULL, CANCEL_MS, &error);]] "")
c_mutation(C22 client/reservation.c test_reservation:*completion_thread [[    if (!reservation->settled)
        cancel_later(reservation);]] "")
c_mutation(C22 client/reservation.c test_reservation:*became_of_it [[    case LKS_CANCEL_OUTCOME_UNKNOWN_ORDER:
        reservation->settled = true;]] [[    case LKS_CANCEL_OUTCOME_UNKNOWN_ORDER:]])
c_mutation(C22 client/reservation.c test_reservation:*became_of_it [[        request.reason = reason;]] [[        ;]])
c_mutation(C23 client/reservation.c test_reservation:*reserve_is_cancelled
  [[    if (error->applied != LKS_APPLIED_NO)
        cancel_unreturned]] [[    if (false)
        cancel_unreturned]])
c_mutation(C23 client/reservation.c test_reservation:*reserve_is_cancelled
  [[    if (error->applied != LKS_APPLIED_NO)
        cancel_unreturned]] [[    cancel_unreturned]])
c_mutation(C23 client/reservation.c test_reservation:*unanswered_try*
  [[    if (outcome != LKS_RESERVE_OUTCOME_RESERVED && doubtful)]] [[    if (false)]])
c_mutation(C24 client/reservation.c test_reservation:*may_be_sold*
  [[    else if (error->applied != LKS_APPLIED_NO)
        reservation->settled = true;]] "")
c_mutation(C24 client/reservation.c test_reservation:*may_be_sold* [[    else if (error->applied != LKS_APPLIED_NO)]] [[    else]])
c_mutation(C24 client/reservation.c test_reservation:*could_not_be_sold*
  [[reservation->settled = outcome == LKS_CONFIRM_OUTCOME_CONFIRMED ||]] [[reservation->settled = true ||]])
c_mutation(C24 client/reservation.c test_reservation:*could_not_be_sold* [[ || outcome == LKS_CONFIRM_OUTCOME_CANCELLED;]] [[;]])
c_mutation(C25 client/reservation.c test_reservation:*kept_is_extended [[request.hold_ms = reservation->lease.lease_ms;
    return request;]] [[return request;]])
c_mutation(C25 client/reservation.c test_reservation:*again_is_extended* [[if (reservation->replayed && order->keep_ms != 0 && left_ms > 0)]] [[if (false)]])
c_mutation(C25 client/reservation.c test_reservation:*was_lost_is_kept [[*sent_ns = now_ns;]] [[*sent_ns = now_ns < *sent_ns ? now_ns : *sent_ns;]])
c_mutation(C25 client/lease/lease.c test_reservation:*extended_in_time [[left_ms < lease->lease_ms ?]] [[left_ms < 0 ?]])
c_mutation(C25 client/reservation.c test_reservation:*rest_of_a_hold*
  [[lease_begin(&reservation->lease, sent_ns, left_ms);]] [[lease_begin(&reservation->lease, sent_ns, reservation->lease.lease_ms);]])
c_mutation(C27 client/reservation.c test_helpers:*gives_back
  [[    if (!reservation->settled)
        cancel(reservation, NULL, CANCEL_MS, &error);
    if (!reservation->settled)
        cancel_later(reservation);]] "")
