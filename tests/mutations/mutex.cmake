# What keeps the promises of lks_mutex and its kin.

# A thread's own
c_mutation(M1 client/lease/lock.c test_mutex [[hold->count++;]] "")
c_mutation(M1 client/lease/lock.c test_mutex [[if (--hold->count != 0)]] [[if (false)]])
c_mutation(M1 client/lease/lock.c test_mutex [[if (a->channel != b->channel)]] [[if (false)]])
c_mutation(M1 client/lease/lock.c test_mutex [[return groups != 0 ? groups : strcmp(a->name, b->name);]] [[return groups;]])
c_mutation(M1 client/lease/lock.c test_mutex
  [[return groups != 0 ? groups : strcmp(a->name, b->name);]] [[return strcmp(a->name, b->name);]])
c_mutation(M2 client/lease/lock.c test_mutex [[static _Thread_local void *mine;]] [[static void *mine;]])
c_mutation(M3 client/lease/lock.c test_mutex
  [[lks_rpc_random_id(hold->token);]] [[memset(hold->token, 'x', sizeof hold->token - 1);]])
c_mutation(M4 client/lease/lock.c test_mutex
  [[mode == LKS_LOCK_MODE_EXCLUSIVE && hold->mode == LKS_LOCK_MODE_SHARED]] [[false]])
c_mutation(M4 client/lease/lock.c test_mutex
  [[mode == LKS_LOCK_MODE_EXCLUSIVE && hold->mode == LKS_LOCK_MODE_SHARED]] [[mode != hold->mode]])
c_mutation(M19 client/lease/lock.c test_mutex [[if (atomic_load(&process) == getpid())]] [[if (true)]])

# Taking
c_mutation(M5 client/lease/lock.c test_mutex
  [[refuse(error, LKS_LOCK_BUSY, LKS_ABORTED]] [[refuse(error, LKS_LOCK_TIMED_OUT, LKS_ABORTED]])
c_mutation(M5 client/lease/lock.c test_mutex [[refuse(error, LKS_LOCK_TIMED_OUT, ]] [[refuse(error, LKS_LOCK_BUSY, ]])
c_mutation(M5 client/lease/lock.c test_mutex
  [[refuse(error, LKS_LOCK_FAILED, LKS_ABORTED, LKS_REASON_LEASE_LOST,]] [[refuse(error, LKS_LOCK_BUSY, LKS_ABORTED, LKS_REASON_LEASE_LOST,]])
c_mutation(M6 client/lease/lock.c test_mutex [[ || error->applied != LKS_APPLIED_NO;]] [[;]])
c_mutation(M6 client/lease/lock.c test_mutex [[ || error->applied != LKS_APPLIED_NO;]] [[ || result == LKS_LOCK_FAILED;]])
c_mutation(M6 client/lease/lock.c test_mutex:*unanswered_try*
  [[    if (result != LKS_LOCK_ACQUIRED && doubtful)
        error->applied = LKS_APPLIED_MAYBE;]] "")
c_mutation(M6 client/lease/lock.c test_mutex:*unanswered_try*
  [[    if (code == LKS_OK || code == LKS_ABORTED)
        error->applied = LKS_APPLIED_NO;]] "")
c_mutation(M15 client/lease/lock.c test_mutex_loss:*confirmed [[lease_is_doubtful(hold->lock->lease_ms, sent_ns, now_ns)]] [[false]])
c_mutation(M16 client/lease/lock.c test_mutex_loss:*max_hold*
  [[max_hold_ms == 0 ? CLOCK_NEVER : now_ns + max_hold_ms * CLOCK_NS_PER_MS;]] [[CLOCK_NEVER;]])

# Renewing
c_mutation(M7 client/lease/watchdog.c test_mutex_renewal:*as_long_as_it_is_held
  [[renew_at(hold, sent_ns + renewal_ns(hold));]] "")
c_mutation(M7 client/lease/watchdog.c test_mutex_renewal:*after_the_unlock
  [[    heap_clear(&watch->renewals, &hold->renewal);
    heap_clear(&watch->losses, &hold->loss);
    unexpect(watch);]] [[    heap_clear(&watch->losses, &hold->loss);
    unexpect(watch);]])
c_mutation(M7 client/lease/watchdog.c test_mutex_renewal:*in_flight*
  [[hold->ended || now >= hold->lost_ns]] [[now >= hold->lost_ns]])
c_mutation(M8 client/lease/watchdog.c test_mutex_renewal:*few_calls
  [[uint64_t until_ns = now + renewal_ns(hold);]] [[uint64_t until_ns = now;]])
c_mutation(M9 client/lease/watchdog.c test_mutex_renewal:*that_fails*
  [[        renew_again(hold, batch->n, error);]] [[        ;]])
c_mutation(M9 client/lease/watchdog.c test_mutex_renewal:*poisoned* [[hold->batch_max = (uint32_t)n / 2;]] "")
c_mutation(M8 client/lease/watchdog.c test_mutex_renewal:*few_calls [[if (watch->channel == channel)]] [[if (false)]])
c_mutation(M10 client/lease/watchdog.c test_mutex_renewal:*comes_and_goes [[if (watchdog.expected == 0 && idle)]] [[if (false)]])

# Losing
c_mutation(M11 client/lease/lease_time.c test_mutex_loss:*lost_in_time [[(left > margin ? left - margin : 0)]] [[left]])
c_mutation(M11 client/lease/watchdog.c test_mutex_loss:*late_renewal*
  [[extend(hold, batch->sent_ns, result->lease_ms);]] [[extend(hold, clock_now_ns(), result->lease_ms);]])
c_mutation(M11 client/lease/lock.c test_mutex_loss:*late_answer*
  [[watchdog_begin(hold, sent_ns, left_ms);]] [[watchdog_begin(hold, now_ns, left_ms);]])
c_mutation(M12 client/lease/watchdog.c test_mutex_loss:*server_says_lost [[        lose_at(hold, now);]] "")
c_mutation(M12 client/lease/watchdog.c test_mutex_loss:*server_says_lost [[hold->reason = LKS_LOSS_TAKEN;]] "")
c_mutation(M13 client/lease/watchdog.c test_mutex_loss:*stays_lost [[hold->ended || now >= hold->lost_ns]] [[hold->ended]])
c_mutation(M13 client/lease/watchdog.c test_mutex_loss:*during_a_renewal*
  [[    uint64_t now_ns = clock_now_ns(); /* under the lock: nothing is renewed after a look that saw it lost */
    uint64_t left_ns = hold->lost_ns > now_ns ? hold->lost_ns - now_ns : 0;
    pthread_mutex_unlock(&watchdog.lock);
]] [[    uint64_t lost_ns = hold->lost_ns;
    pthread_mutex_unlock(&watchdog.lock);
    uint64_t now_ns = clock_now_ns();
    uint64_t left_ns = lost_ns > now_ns ? lost_ns - now_ns : 0;
]])
c_mutation(M13 client/lease/watchdog.c test_mutex_loss:*is_not_renewed [[    heap_clear(&watch->losses, &hold->loss);
    heap_clear(&watch->renewals, &hold->renewal);
    if (!lock]] [[    heap_clear(&watch->losses, &hold->loss);
    if (!lock]])
c_mutation(M14 client/mutex.c test_mutex_loss:*lost_in_time
  [[(uint32_t)(lock_left_ns(hold) / CLOCK_NS_PER_MS)]] [[(uint32_t)(lock_left_ns(hold) / CLOCK_NS_PER_MS) * 2]])
c_mutation(M14 client/lease/lock.c test_mutex_loss:*lost_in_time [[if (watchdog_is_lost(hold))
        return refuse]] [[if (false)
        return refuse]])
c_mutation(M14 client/lease/lock.c test_mutex_loss:*lost_in_time [[    if (lost)
        code = tell_lost(error);]] "")
c_mutation(M14 client/lease/lock.c test_mutex_loss:*stays_lost
  [[return watchdog_is_lost(hold) ? tell_lost(error) : succeed(error);]] [[return succeed(error);]])
c_mutation(M14 client/lease/lock.c test_mutex_loss:*lost_in_time [[        lock_release_later(lock->channel, lock->group, hold->token);
    if (lost)]] [[        ;
    if (lost)]])

# Callbacks, and the end
c_mutation(M17 client/lease/lock.c test_mutex_loss:*may_do [[if (watchdog_telling())
        return refuse]] [[if (false)
        return refuse]])
c_mutation(M17 client/lease/lock.c test_mutex_loss:*free_waits* [[watchdog_quiesce(lock);]] "")
c_mutation(M18 client/mutex.c test_mutex [[    if (guard->mutex)
        lks_mutex_unlock(guard->mutex, NULL);
]] "")
c_mutation(M18 client/lease/lock.c test_mutex [[atomic_load(&lock->holds) != 0 || ]] "")
