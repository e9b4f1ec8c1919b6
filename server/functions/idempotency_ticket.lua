-- IdempotencyService, tickets: each in a group of its own, "ls:{namespace/scope/ticket}:".
--
--   idem:t  hash  s  subject
--                 c  consumer, once it is consumed
--
-- It ends ttl_ms after it was issued, consumed or not.

-- args: subject, ttl_ms -> {'OK'}
define('idempotency_issue_ticket', {}, function(base, args)
  local key = base .. 'idem:t'
  write('HSET', key, 's', args[1])
  write('PEXPIRE', key, args[2])
  return {'OK'}
end)

-- args: subject, consumer -> {'CONSUMED', 1 when again} {'ALREADY_CONSUMED', 0} {'UNKNOWN', 0}
define('idempotency_consume_ticket', {'allow-oom'}, function(base, args)
  local key = base .. 'idem:t'
  local ticket = redis.call('HMGET', key, 's', 'c')
  if ticket[1] ~= args[1] then return {'UNKNOWN', 0} end
  if ticket[2] == args[2] then return {'CONSUMED', 1} end
  if ticket[2] then return {'ALREADY_CONSUMED', 0} end
  write('HSET', key, 'c', args[2])
  return {'CONSUMED', 0}
end)
