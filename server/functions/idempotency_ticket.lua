-- IdempotencyService, tickets: each in a group of its own, "ls:{namespace/scope/ticket}:".
--
--   idem:t  hash  s  subject
--                 c  consumer, once it is consumed
--
-- It ends ttl_ms after it was issued, consumed or not.

-- -> {'OK'}
define('idempotency_issue_ticket', {}, function(base, now, subject, ttl_ms)
  local key = base .. 'idem:t'
  write('HSET', key, 's', subject)
  write('PEXPIRE', key, ttl_ms)
  return {'OK'}
end)

-- -> {'CONSUMED', 1 when again} {'ALREADY_CONSUMED', 0} {'UNKNOWN', 0}
define('idempotency_consume_ticket', {'allow-oom'}, function(base, now, subject, consumer)
  local key = base .. 'idem:t'
  local ticket = redis.call('HMGET', key, 's', 'c')
  if ticket[1] ~= subject then return {'UNKNOWN', 0} end
  if ticket[2] == consumer then return {'CONSUMED', 1} end
  if ticket[2] then return {'ALREADY_CONSUMED', 0} end
  write('HSET', key, 'c', consumer)
  return {'CONSUMED', 0}
end)
