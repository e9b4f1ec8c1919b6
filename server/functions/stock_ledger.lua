-- StockService: the ledger. Only TrimLedger removes entries.
--
-- All entries of an FCALL are one entry of the stream (write_ledger): a field named by their number n, whose value is
-- their words with NUL between them. The stream's id is "ms-s", and the ids of the n entries are "ms-" and (s + 1) *
-- 1000 - n + 1 to (s + 1) * 1000: they increase like the stream's, and an entry of the stream is removed when its last
-- one is trimmed.
--
-- Key, after the base:
--   stock:r  set  the servers where readers wait for the next entry; expires with the longest wait
-- The next entry wakes all readers with one message to each server, and deletes the set. A reader without a new entry
-- registers again.

-- Both parts of an id, which are below 2^53.
local function parts_of(id)
  local ms, seq = string.match(id, '^(%d+)-(%d+)$')
  return tonumber(ms), tonumber(seq)
end

-- Whether an id of the stream is before another.
local function id_before(a, b)
  local a_ms, a_seq = parts_of(a)
  local b_ms, b_seq = parts_of(b)
  return a_ms < b_ms or a_ms == b_ms and a_seq < b_seq
end

-- Returns the number of entries in an entry of the stream.
local function packed_in(entry)
  return tonumber(entry[2][1]) or foreign()
end

local function first_id(entry)
  local ms, seq = parts_of(entry[1])
  return int(ms) .. '-' .. int((seq + 1) * PACKED_MAX - packed_in(entry) + 1)
end

-- Returns the id of the last entry in an entry of the stream; "0-0" for "0-0".
local function last_id(id)
  local ms, seq = parts_of(id)
  return id == '0-0' and id or int(ms) .. '-' .. int((seq + 1) * PACKED_MAX)
end

-- Returns where reading after an id begins in the stream, and how many entries to read of the one that has this id; nil
-- if entries after the id were trimmed, or the ledger has never used it.
local function place_of(ledger, after, mark)
  if after == '0-0' then
    if mark ~= '0-0' then return nil end
    return '-', 0
  end
  local ms, seq = parts_of(after)
  local at = int(ms) .. '-' .. int(math.max(math.ceil(seq / PACKED_MAX) - 1, 0))
  local left = math.ceil(seq / PACKED_MAX) * PACKED_MAX - seq
  if at ~= mark then
    local entry = redis.call('XRANGE', ledger, at, at)[1]
    if seq == 0 or id_before(at, mark) or not entry or left >= packed_in(entry) then return nil end
  elseif left > 0 then
    return nil
  end
  return left > 0 and at or '(' .. at, left
end

-- Returns the last id that the ledger has used up to `after`, a moment (services/stock_ledger_pages.h); nil if entries
-- after it were trimmed.
local function given_before(ledger, after, mark)
  local ms, seq = parts_of(after)
  local s = math.max(math.ceil(seq / PACKED_MAX) - 1, 0)
  local at, left = int(ms) .. '-' .. int(s), (s + 1) * PACKED_MAX - seq
  if mark ~= '0-0' and (id_before(at, mark) or at == mark and left > 0) then return nil end
  local entries = redis.call('XREVRANGE', ledger, at, '-', 'COUNT', 2)
  if entries[1] and entries[1][1] == at then
    if left < packed_in(entries[1]) then return after end
    table.remove(entries, 1)
  end
  local before = entries[1] and entries[1][1] or mark
  -- Entries that are being trimmed may still be there.
  return last_id(id_before(before, mark) and mark or before)
end

-- Part of each reply: later entries have no id below this time in ms.
local function time_ms()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

local function read_ledger(base, now, after, limit, server, wait_ms, loose)
  local ledger, wanted = base .. 'stock:ledger', tonumber(limit)
  if redis.call('EXISTS', ledger) == 0 then
    local there = elsewhere(base)
    if there then return there end
    -- The ledger that used the id was trimmed and has expired.
    if loose == '0' and after ~= '' and after ~= '0-0' then return {'TRIMMED', '', time_ms(), ''} end
    return {'OK', '', time_ms(), '0-0'}
  end
  local info, field = redis.call('XINFO', 'STREAM', ledger), {}
  for i = 1, #info, 2 do field[info[i]] = info[i + 1] end
  local oldest = field['first-entry'] and first_id(field['first-entry']) or ''
  -- The last id that was trimmed; "0-0": none.
  local mark, from, left = field['max-deleted-entry-id']
  if after == '' then
    after = last_id(mark)
  elseif loose == '1' then
    after = given_before(ledger, after, mark)
  end
  if after then from, left = place_of(ledger, after, mark) end
  if not from then return {'TRIMMED', oldest, time_ms(), ''} end

  local reply, count = {'OK', oldest, time_ms(), after}, 1
  repeat
    local page, n = redis.call('XRANGE', ledger, from, '+', 'COUNT', count), 1
    for _, entry in ipairs(page) do
      n = packed_in(entry)
      wanted = wanted - (left > 0 and math.min(left, n) or n)
      left = 0
      reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = entry[1], n, entry[2][2]
      from = '(' .. entry[1]
    end
    local last = #page < count
    -- Assumes that the next entries hold as many, so that it reads little more than it returns.
    count = math.min(math.ceil(wanted / n), 16)
  until last or wanted <= 0
  return reply
end

-- after: the id after which to read, '' = from the oldest
-- loose: `after` is a moment; the ledger need not have used it
-- -> {'OK' or 'TRIMMED', oldest id or '', time_ms, the id after which it read; for each entry of the stream id, n,
--    words...}: the first may begin before the wanted ids, and the last may end after them; {'BUCKETED', n}
define('stock_read_ledger', {'no-writes'}, read_ledger)

-- Without an entry the server is registered -> as above, or {'WAIT', time_ms, the id after which it read}
-- Runs without memory too, because readers trim the entries that they have read.
define('stock_await_ledger', {'allow-oom'}, function(base, now, after, limit, server, wait_ms, loose)
  local reply, readers = read_ledger(base, now, after, limit, server, wait_ms, loose), base .. 'stock:r'
  if reply[1] ~= 'OK' or #reply > 4 then return reply end
  write('SADD', readers, server)
  if redis.call('PTTL', readers) < tonumber(wait_ms) then write('PEXPIRE', readers, wait_ms) end
  return {'WAIT', reply[3], reply[4]}
end)

-- The number of entries of the stream that one call removes, plus at most one node of the stream.
local TRIM_STEP = 4000

-- up_to: the last id to remove -> {'OK'}, {'MORE'}: call again, {'BUCKETED', n}
define('stock_trim_ledger', {'allow-oom'}, function(base, now, up_to)
  local ledger = base .. 'stock:ledger'
  local there = redis.call('EXISTS', ledger) == 0 and elsewhere(base)
  if there then return there end
  local items = redis.call('ZCARD', base .. 'stock:skus')
  -- An entry of the stream stays if only a part of it is to be removed.
  local ms, seq = parts_of(up_to)
  local whole = math.floor(seq / PACKED_MAX)
  if whole == 0 then ms, whole = ms - 1, MAX_INTEGER end
  local last = ms >= 0 and redis.call('XREVRANGE', ledger, int(ms) .. '-' .. int(whole - 1), '-', 'COUNT', 1)[1]
  if last then
    -- XDEL leaves the mark by which ReadLedger recognizes TRIMMED; XTRIM does not. It runs first, so that the mark
    -- covers entries that are removed later.
    write('XDEL', ledger, last[1])
    -- '~' removes whole nodes only, which bounds the work; the rest is part of one node.
    local gone = write('XTRIM', ledger, 'MINID', '~', last[1], 'LIMIT', TRIM_STEP)
    if gone > TRIM_STEP / 2 then return {'MORE'} end
    write('XTRIM', ledger, 'MINID', '=', last[1])
  end
  if items == 0 and redis.call('XLEN', ledger) == 0 then write('PEXPIRE', ledger, int(30 * DAY_MS), 'NX') end
  return {'OK'}
end)
