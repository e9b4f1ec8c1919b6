# What keeps the promises of lks_mutex and its kin.

# A thread's own
c_mutation(M1 client/lease/lock.c test_mutex [[hold->count++;]] "")
c_mutation(M1 client/lease/lock.c test_mutex [[if (--hold->count != 0)]] [[if (false)]])
c_mutation(M1 client/lease/lock.c test_mutex [[if (a->channel != b->channel)]] [[if (false)]])
c_mutation(M2 client/lease/lock.c test_mutex [[static _Thread_local void *mine;]] [[static void *mine;]])
c_mutation(M4 client/lease/lock.c test_mutex
  [[mode == LKS_LOCK_MODE_EXCLUSIVE && hold->mode == LKS_LOCK_MODE_SHARED]] [[false]])
c_mutation(M4 client/lease/lock.c test_mutex
  [[mode == LKS_LOCK_MODE_EXCLUSIVE && hold->mode == LKS_LOCK_MODE_SHARED]] [[mode != hold->mode]])

# Taking

# Renewing

# Losing
c_mutation(M11 client/lease/lease_time.c test_mutex_loss:*lost_in_time [[(left > margin ? left - margin : 0)]] [[left]])

# Callbacks, and the end
c_mutation(M18 client/mutex.c test_mutex [[    if (guard->mutex)
        lks_mutex_unlock(guard->mutex, NULL);
]] "")
