-- StockService: lists. A page is a bounded amount of work. {'MORE'}: stock_hold.lua.

-- after: the last sku of the page before, '' = none
-- -> {'OK', 1 when more follow, {sku, view}...}, {'BUCKETED', n}
define_pass('stock_list_group', {'no-writes'}, function(s, prefix, after, page_size)
  local size = tonumber(page_size)
  -- Lua compares text by locale, so Redis compares.
  local from = after ~= '' and string.sub(after, 1, #prefix) == prefix and '(' .. after or '[' .. prefix
  -- UTF-8 has no byte 255, so everything with the prefix is below.
  local skus = redis.call('ZRANGEBYLEX', s.base .. 'stock:skus', from, '(' .. prefix .. '\255', 'LIMIT', 0, size + 1)
  local due, reply = count_due(s, HOLDS_MAX), {'OK', skus[size + 1] and 1 or 0}
  local there = not skus[1] and elsewhere(s.base)
  if there then return there end
  if not due then return {'MORE'} end
  for i = 1, math.min(size, #skus) do
    local item = item_with(s, due, skus[i])
    if item then reply[#reply + 1] = {skus[i], view(item)} end
  end
  return reply
end, SHARED)

-- Looks at all groups of the namespace, a bounded number of keys per call. cursor: '0' at first, '' after all keys;
-- node: the node that returned the cursor; listed: slots that are done. Then encoded group, sku of items that were
-- found when a page was full.
-- -> the base, encoded group, sku of the items found, possibly a few more than size; next cursor
local function scan_items(base, prefix, cursor, page_size, node, listed, ...)
  local size, budget = tonumber(page_size), 2000
  local resumed, is_listed = resume(cursor, node, listed)
  local namespace = string.match(base, '^ls:{[^/]*/')
  local pattern = namespace .. '*}:stock:i:' .. string.gsub(prefix, '[*?[%]\\]', '\\%0') .. '*'
  local found, seen, places = {}, {}, {...}
  local function add(group, sku)
    local place = group .. '/' .. sku
    if not seen[place] then
      seen[place] = true
      if not has_group(namespace .. group .. '}:') then return end
      found[#found + 1] = {namespace .. group .. '}:', group, sku}
    end
  end

  cursor = resumed or '0'
  for i = 1, resumed and #places or 0, 2 do add(places[i], places[i + 1]) end
  while cursor ~= '' and budget > 0 and #found < size do
    -- Asks for as many keys as fit, so that few are left over.
    local count = math.min(size - #found, 100)
    local page = redis.call('SCAN', cursor, 'MATCH', pattern, 'COUNT', count, 'TYPE', 'string')
    budget = budget - count
    cursor = page[1] ~= '0' and page[1] or ''
    for _, key in ipairs(page[2]) do
      -- Names in other keys may contain the pattern.
      local group, sku = string.match(key, '^([^}]*)}:stock:i:(.*)$', #namespace + 1)
      -- A group in buckets is "group/n/bucket"; its items are all in the pool.
      local bucket = group and string.match(group, '/([^/]*)$') or '0'
      if group and bucket == '0' and string.sub(sku, 1, #prefix) == prefix and not is_listed(key) then
        add(group, sku)
      end
    end
  end
  return found, cursor
end

-- The state of another group.
local function state_of(s, base)
  if base == s.base then return s end
  s.others = s.others or {}
  local other = s.others[base] or open_stock(base)
  s.others[base], other.at = other, s.at
  return other
end

-- -> {'OK', next cursor, this node, its slots, {encoded group, sku, view}...}
define_pass('stock_list_namespace', {'no-writes', OF_PART}, function(s, prefix, cursor, page_size, node, listed,
  ...)
  local found, next_cursor = scan_items(s.base, prefix, cursor, page_size, node, listed, ...)
  local reply, room, due = {'OK', next_cursor, this_node(), served_slots()}, HOLDS_MAX, {}
  for _, place in ipairs(found) do
    local base, group, sku = place[1], place[2], place[3]
    local of = state_of(s, base)
    if not due[base] then
      due[base], room = count_due(of, room)
      if not due[base] then return {'MORE'} end
    end
    local ok, item = pcall(item_with, of, due[base], sku)
    if not ok and not item.lks_code then error(item) end
    if ok and item then reply[#reply + 1] = {group, sku, view(item)} end
  end
  return reply
end, SHARED)

-- Returns the expired holds of the groups that stock_list_namespace would look at.
-- -> {'OK'}
define_pass('stock_expire_listed', {'allow-oom', OF_PART}, function(s, prefix, cursor, page_size, node, listed,
  ...)
  touch(s)
  for _, place in ipairs((scan_items(s.base, prefix, cursor, page_size, node, listed, ...))) do
    if give_back_due(state_of(s, place[1])) then break end
  end
  return {'OK'}
end, SHARED)
