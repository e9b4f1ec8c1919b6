-- IdempotencyService: tickets, each in a separate group, "ls:{namespace/scope/ticket}:".
--
--   idem:t  string  the subject, after its length (1 byte); then the consumer, once it is consumed
--
-- A ticket expires ttl_ms after it was issued, consumed or not.

-- -> {'OK'}
define('idempotency_issue_ticket', {}, function(base, now, subject, ttl_ms)
  write('SET', base .. 'idem:t', struct.pack('<Bc0', #subject, subject), 'PX', ttl_ms)
  return {'OK'}
end)

-- -> {'CONSUMED', 1 when again} {'ALREADY_CONSUMED', 0} {'UNKNOWN', 0}
define('idempotency_consume_ticket', {'allow-oom'}, function(base, now, subject, consumer)
  local key = base .. 'idem:t'
  local text = redis.call('GET', key)
  if not text then return {'UNKNOWN', 0} end
  local its_subject, behind = struct.unpack('<Bc0', text)
  local its_consumer = string.sub(text, behind)
  if its_subject ~= subject then return {'UNKNOWN', 0} end
  if its_consumer == consumer then return {'CONSUMED', 1} end
  if its_consumer ~= '' then return {'ALREADY_CONSUMED', 0} end
  write('SET', key, text .. consumer, 'KEEPTTL')
  return {'CONSUMED', 0}
end)
