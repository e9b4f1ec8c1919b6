-- StockService, the ledger: it ends by TrimLedger only.
--
-- A reader that has read all of it waits. Key, after the base:
--   stock:r  set  the servers where readers wait; ends with the longest wait
-- The next entry (append_ledger) wakes them all, by one message a server, and ends the
-- set: who still has nothing to read registers again, and what nobody waits for any
-- more has cost one message.

-- Whether a ledger id stands before another. Both parts are below 2^53.
local function id_before(a, b)
  local a_ms, a_seq = string.match(a, '^(%d+)-(%d+)$')
  local b_ms, b_seq = string.match(b, '^(%d+)-(%d+)$')
  a_ms, b_ms = tonumber(a_ms), tonumber(b_ms)
  return a_ms < b_ms or a_ms == b_ms and tonumber(a_seq) < tonumber(b_seq)
end

local function read_ledger(base, now, after, limit, server, wait_ms)
  local ledger = base .. 'stock:ledger'
  if redis.call('EXISTS', ledger) == 0 then
    -- An id was given here once: the ledger of then was trimmed and has ended.
    return {after ~= '' and after ~= '0-0' and 'TRIMMED' or 'OK', ''}
  end
  local info, field = redis.call('XINFO', 'STREAM', ledger), {}
  for i = 1, #info, 2 do field[info[i]] = info[i + 1] end
  local oldest = field['first-entry'] and field['first-entry'][1] or ''
  local mark = field['max-deleted-entry-id'] -- the last one trimmed; "0-0" before any was
  if after ~= '' and after ~= mark then
    -- What follows the mark is there. Another id was given by a ledger of before: what followed
    -- it there is gone.
    if id_before(after, mark) or not redis.call('XRANGE', ledger, after, after)[1] then return {'TRIMMED', oldest} end
  end

  local reply = {'OK', oldest}
  local from = after == '' and '-' or '(' .. after
  for _, entry in ipairs(redis.call('XRANGE', ledger, from, '+', 'COUNT', limit)) do
    reply[#reply + 1] = entry[1]
    for i = 2, 10, 2 do reply[#reply + 1] = entry[2][i] or '' end
  end
  return reply
end

-- after: the id after which to read, '' = from the oldest
-- -> {'OK' or 'TRIMMED', oldest id or '', id, kind, sku, quantity, order, reason of each...}
define('stock_read_ledger', {'no-writes'}, read_ledger)

-- The server waits when there is no entry -> as above, or {'WAIT'}
-- Without memory too: what is read can be trimmed.
define('stock_await_ledger', {'allow-oom'}, function(base, now, after, limit, server, wait_ms)
  local reply, readers = read_ledger(base, now, after, limit), base .. 'stock:r'
  if reply[1] ~= 'OK' or #reply > 2 then return reply end
  write('SADD', readers, server)
  if redis.call('PTTL', readers) < tonumber(wait_ms) then write('PEXPIRE', readers, wait_ms) end
  return {'WAIT'}
end)

-- How many entries one call forgets, and one node of the stream more.
local TRIM_STEP = 20000

-- up_to: the last id to forget -> {'OK'}, {'MORE'}: to be asked again
define('stock_trim_ledger', {'allow-oom'}, function(base, now, up_to)
  local ledger = base .. 'stock:ledger'
  local items = redis.call('ZCARD', base .. 'stock:skus')
  local last = redis.call('XREVRANGE', ledger, up_to, '-', 'COUNT', 1)[1]
  if last then
    -- XDEL, unlike XTRIM, leaves the mark by which ReadLedger tells TRIMMED. First, so that it
    -- never goes by what is not forgotten yet.
    write('XDEL', ledger, last[1])
    -- '~' forgets whole nodes only, which is the way to bound it; what is left is part of one.
    local gone = write('XTRIM', ledger, 'MINID', '~', last[1], 'LIMIT', TRIM_STEP)
    if gone > TRIM_STEP / 2 then return {'MORE'} end
    write('XTRIM', ledger, 'MINID', '=', last[1])
  end
  if items == 0 and redis.call('XLEN', ledger) == 0 then write('PEXPIRE', ledger, int(30 * DAY_MS), 'NX') end
  return {'OK'}
end)
