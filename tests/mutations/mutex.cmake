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

# Renewing

# Losing
c_mutation(M11 client/lease/lease_time.c test_mutex_loss:*lost_in_time [[(left > margin ? left - margin : 0)]] [[left]])
c_mutation(M14 client/mutex.c test_mutex_loss:*lost_in_time
  [[(uint32_t)(lock_left_ns(hold) / CLOCK_NS_PER_MS)]] [[(uint32_t)(lock_left_ns(hold) / CLOCK_NS_PER_MS) * 2]])
c_mutation(M14 client/lease/lock.c test_mutex_loss:*lost_in_time [[    if (lost)
        code = tell_lost(error);]] "")
c_mutation(M14 client/lease/lock.c test_mutex_loss:*lost_in_time [[        lock_release_later(lock->channel, lock->group, hold->token);
    if (lost)]] [[        ;
    if (lost)]])

# Callbacks, and the end
c_mutation(M18 client/mutex.c test_mutex [[    if (guard->mutex)
        lks_mutex_unlock(guard->mutex, NULL);
]] "")
c_mutation(M18 client/lease/lock.c test_mutex [[atomic_load(&lock->holds) != 0 || ]] "")
