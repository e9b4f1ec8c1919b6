-- StockService: groups in buckets, where each item is kept in many groups, which are in different slots of a cluster.
--
--   ls:{namespace/group}:        stock:n alone, the number of buckets
--   ls:{namespace/group/n/0}:    the pool: each item's settings, and units that no bucket has
--   ls:{namespace/group/n/name}: a bucket, by its name (services/stock_place.c). An order lives in the bucket of its id
--
-- A pool's item has LENT in place of `sold`: the units that it has lent, which are those in buckets, sold or not, and
-- those under way. A bucket's item has the `born` of the pool's item, as `era` the version with which the pool got
-- these settings, and its limit negated, because its buyers are counted elsewhere (stock_claims.lua).
--
-- Three functions move units. Each may be repeated:
--   stock_send     takes units out of the source's item and keeps them in stock:m
--   stock_receive  adds them to the destination's item, unless that move or a later one has come from this source
--   stock_sent     removes units that were received from the source
-- Key, after the base of both sides:
--   stock:m:<sku, percent-encoded>  hash  "o<to>"   the last move to that bucket: id, units (0: received), born
--                                         "i<from>" the last move received from that bucket: born, id
-- The id of a move is the time or more, and higher than that of the last move of the item between the same buckets. So
-- at most one move between them is under way, and a repeat is recognized.

-- Splits the group into n buckets, permanently. -> {'BUCKETED', n}, or the number that it already has
define('stock_split', {}, function(base, now, n)
  local there = elsewhere(base)
  if there then return there end
  if redis.call('EXISTS', base .. 'stock:skus', base .. 'stock:ledger') > 0 then
    fail('FAILED_PRECONDITION', 'buckets: the group already has items or a ledger that are not in buckets')
  end
  local servers = redis.call('SMEMBERS', base .. 'stock:r') -- these readers wait in the wrong place
  write('SET', base .. 'stock:n', n)
  wake_readers(base, servers)
  return {'BUCKETED', tonumber(n)}
end)

local function moves_key(s, sku)
  return s.base .. 'stock:m:' .. encode(sku)
end

local MOVE_FORMAT, CAME_FORMAT = '<ddd', '<dd'
local MOVE_BYTES, NO_UNITS = 24, '\0\0\0\0\0\0\0\0' -- a packed move; its second number is 0

-- Returns the last move to that bucket: its id, units under way, born of the item.
local function move_out(s, sku, to)
  local text = field_of(s, moves_key(s, sku), 'o' .. to)
  if not text then return 0, 0, 0 end
  return struct.unpack(MOVE_FORMAT, text)
end

local function put_move(s, sku, to, id, units, born)
  put_field(s, moves_key(s, sku), 'o' .. to, struct.pack(MOVE_FORMAT, id, units, born))
end

-- Notes a move in the ledger; sign 1: units arrive, -1: units leave.
local function note_move(s, sku, units, sign, from, to, id)
  note(s, 'TRANSFERRED', sku, int(sign * units), from .. '-' .. to .. '-' .. int(id), '')
end

-- Returns the item as it is here: view, born, era, opens, closes, retain; without an item, the highest version of
-- deleted items, or 0.
local function view_here(s, item)
  if not item then return deleted_version(s) end
  local reply = view(item)
  reply[5] = math.abs(item[LIMIT])
  reply[9], reply[10], reply[11], reply[12], reply[13] = item[BORN], item[ERA], item[OPENS], item[CLOSES], item[RETAIN]
  return reply
end

-- Runs without memory too, because it returns expired holds.
-- -> {'OK', {item as view_here, then to, id, units, born of each move under way}...}
define_pass('stock_look', {'allow-oom'}, function(s, ...)
  if give_back_due(s) then return {'MORE'} end
  local reply = {'OK'}
  for i, sku in ipairs({...}) do
    local found = {view_here(s, item_of(s, sku))}
    local fields = redis.call('HGETALL', moves_key(s, sku))
    for f = 1, #fields, 2 do
      local to = string.match(fields[f], '^o(%d+)$')
      if to then
        local id, units, born = move_out(s, sku, to)
        if units > 0 then
          local n = #found
          found[n + 1], found[n + 2], found[n + 3], found[n + 4] = tonumber(to), id, units, born
        end
      end
    end
    reply[i + 1] = found
  end
  return reply
end, SHARED)

-- Takes up to `units` out of the item for bucket `to`; if a move to it is under way, returns that one.
-- -> {'SENT', id, units, born}, {'NONE'}: the item has no units, or is another item
define_pass('stock_send', {'allow-oom'}, function(s, sku, from, to, units, born)
  local last, under_way, of = move_out(s, sku, to)
  if under_way > 0 then return {'SENT', last, under_way, of} end
  local item = item_of(s, sku)
  if not item or item[BORN] ~= tonumber(born) or item[AVAILABLE] == 0 then return {'NONE'} end
  local n, id = math.min(tonumber(units), item[AVAILABLE]), math.max(clock(), last + 1)
  item[AVAILABLE], item[VERSION] = item[AVAILABLE] - n, item[VERSION] + 1
  if from == '0' then item[LENT] = item[LENT] + n end
  change_item(s, item)
  put_move(s, sku, to, id, n, item[BORN])
  note_move(s, sku, n, -1, from, to, id)
  return {'SENT', id, n, item[BORN]}
end, SHARED)

-- Units of an item that was deleted are dropped.
-- -> {'OK'}, {'NO_ITEM'}: the bucket does not have the item yet
define_pass('stock_receive', {'allow-oom'}, function(s, sku, from, to, move_id, units, move_born)
  local key, field = moves_key(s, sku), 'i' .. from
  local id, n, born = tonumber(move_id), tonumber(units), tonumber(move_born)
  local text = field_of(s, key, field)
  if text then
    local last_born, last = struct.unpack(CAME_FORMAT, text)
    if born < last_born or born == last_born and id <= last then return {'OK'} end
  end
  local item = item_of(s, sku)
  if to ~= '0' and (not item or item[BORN] < born) then return {'NO_ITEM'} end
  -- Only an item deletes the key.
  if not item or item[BORN] ~= born then return {'OK'} end
  put_field(s, key, field, struct.pack(CAME_FORMAT, born, id))
  item[AVAILABLE], item[VERSION] = item[AVAILABLE] + n, item[VERSION] + 1
  if to == '0' then item[LENT] = item[LENT] - n end
  change_item(s, item)
  note_move(s, sku, n, 1, from, to, id)
  return {'OK'}
end, SHARED)

-- -> {'OK'}
define_pass('stock_sent', {'allow-oom'}, function(s, sku, to, move_id)
  local id, units, born = move_out(s, sku, to)
  if units > 0 and id == tonumber(move_id) then put_move(s, sku, to, id, 0, born) end
  return {'OK'}
end, SHARED)

-- Gives a bucket the settings of the pool's item, and deletes an older item.
-- -> {'OK'}
define_pass('stock_set_bucket', {}, function(s, sku, made, set, buyer_limit, opens, closes, retain)
  local born, era, item = tonumber(made), tonumber(set), item_of(s, sku)
  if item and (item[BORN] > born or item[BORN] == born and item[ERA] >= era) then return {'OK'} end
  check_types(s, sku)
  if not item or item[BORN] < born then
    if item and item[AVAILABLE] > 0 then note(s, 'DELETED', sku, int(item[AVAILABLE]), '', '') end
    item = {0, 0, born}
    item[RESERVED], item[BORN] = 0, born
    s.items[sku] = item
    list_item(s, sku)
  else
    item[VERSION] = item[VERSION] + 1
  end
  item[LIMIT], item[OPENS], item[CLOSES] = -tonumber(buyer_limit), tonumber(opens), tonumber(closes)
  item[RETAIN], item[ERA] = tonumber(retain), era
  change_item(s, item)
  if item[LIMIT] == 0 then forget_buyers(s, sku) end
  return {'OK'}
end, SHARED)

-- The pool's item was deleted: deletes the bucket's item of that time or earlier. -> {'OK'}
define_pass('stock_drop_bucket', {'allow-oom'}, function(s, sku, born)
  local item = item_of(s, sku)
  if not item or item[BORN] > tonumber(born) then return {'OK'} end
  return remove_item(s, sku, item, 0, true) -- by the pool
end, SHARED)

-- Whether a move is under way. Must be fast, because the search reads many keys.
local function is_moving(key)
  for _, value in ipairs(redis.call('HVALS', key)) do
    if #value == MOVE_BYTES and string.sub(value, 9, 16) ~= NO_UNITS then return true end
  end
end

-- Adds the moves of a hash that began a while ago and are not finished.
local function overdue_moves(base, key, now, reply)
  local sku = string.gsub(string.match(key, 'stock:m:(.*)$'), '%%(%x%x)', function(hex)
    return string.char(tonumber(hex, 16))
  end)
  local fields = redis.call('HGETALL', key)
  for f = 1, #fields, 2 do
    local to = string.match(fields[f], '^o(%d+)$')
    if to then
      local id, units, born = struct.unpack(MOVE_FORMAT, fields[f + 1])
      if units > 0 and id + OVERDUE_US < now then
        reply[#reply + 1] = {base, sku, to, int(id), int(units), int(born)}
      end
    end
  end
end

-- Finds the leftovers of a dead server: groups with a hold that ended a while ago and was not returned, and unfinished
-- moves.
-- -> {'OK', next cursor or '' at the end, base of each group, or {base, sku, to, id, units, born} of each move...}
define('stock_find_overdue', {'no-writes', OF_PART}, function(base, now, cursor)
  local page = redis.call('SCAN', cursor, 'MATCH', 'ls:{*}:stock:[mx]*', 'COUNT', 1000)
  local reply = {'OK', page[1] ~= '0' and page[1] or ''}
  for _, key in ipairs(page[2]) do
    local group, kind = string.match(key, '^(ls:{[^{}]*}:)stock:([mx])')
    local is = group and has_group(group) and redis.call('TYPE', key).ok
    if is == 'zset' and key == group .. 'stock:x' then
      local first = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
      if first[2] and tonumber(first[2]) + OVERDUE_US < now then reply[#reply + 1] = group end
    elseif is == 'hash' and kind == 'm' and is_moving(key) then
      overdue_moves(group, key, now, reply)
    end
  end
  return reply
end)
