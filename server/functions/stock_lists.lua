-- StockService, lists: a page is a bounded amount of work. Where more holds are over
-- than one call looks at, the answer is {'MORE'} (stock_hold.lua).

-- after: the sku after which the page begins, '' = from the first
-- -> {'OK', '1' when more follow, view...}
define('stock_list_group', {'no-writes'}, function(base, now, prefix, after, page_size)
  local size = tonumber(page_size)
  -- Not compared as text, which Lua does by locale.
  local from = after ~= '' and string.sub(after, 1, #prefix) == prefix and '(' .. after or '[' .. prefix
  -- No UTF-8 text has a byte 255: all that begins with the prefix is below.
  local skus = redis.call('ZRANGEBYLEX', base .. 'stock:skus', from, '(' .. prefix .. '\255', 'LIMIT', 0, size + 1)
  local due, reply = due_lines(base, now, HOLDS_MAX), {'OK', skus[size + 1] and '1' or '0'}
  if not due then return {'MORE'} end
  for i = 1, math.min(size, #skus) do
    local item = load_item_with(due, base, encode(skus[i]))
    if item then reply[#reply + 1] = view(skus[i], item, now) end
  end
  return reply
end)

-- All groups of the base's namespace, a bounded number of keys a call.
-- cursor '': all keys were seen; then places, items that an earlier call found and had no room for, each as
-- "group/sku", both encoded
-- -> the items found as "group/sku", possibly a few more than size; next cursor; what
--    the keys of the namespace begin with
local function look_around(base, prefix, cursor, page_size, ...)
  local size, budget = tonumber(page_size), 2000
  local namespace = string.match(base, '^ls:{[^/]*/')
  -- Encoded text has no character with a meaning of its own in a pattern.
  local pattern = namespace .. '*}:stock:i:' .. encode(prefix) .. '*'
  local found, seen = {}, {}
  local function add(place)
    if not seen[place] then
      seen[place] = true
      found[#found + 1] = place
    end
  end

  for _, place in ipairs({...}) do add(place) end
  while cursor ~= '' and budget > 0 and #found < size do
    -- Asks for no more keys than there is room for, so that few are over.
    local count = math.min(size - #found, 100)
    local page = redis.call('SCAN', cursor, 'MATCH', pattern, 'COUNT', count, 'TYPE', 'hash')
    budget = budget - count
    cursor = page[1] ~= '0' and page[1] or ''
    for _, key in ipairs(page[2]) do
      local group, sku = string.match(key, '^([^}]*)}:stock:i:(.*)$', #namespace + 1)
      add(group .. '/' .. sku)
    end
  end
  return found, cursor, namespace
end

-- -> {'OK', next cursor, {group, view}...}, group and sku encoded
define('stock_list_namespace', {'no-writes'}, function(base, now, prefix, cursor, page_size, ...)
  local found, next_cursor, namespace = look_around(base, prefix, cursor, page_size, ...)
  local reply, due, room = {'OK', next_cursor}, {}, HOLDS_MAX
  for _, place in ipairs(found) do
    local group, sku = string.match(place, '^(.*)/(.*)$')
    local of = namespace .. group .. '}:'
    if not due[of] then
      due[of], room = due_lines(of, now, room)
      if not due[of] then return {'MORE'} end
    end
    local item = load_item_with(due[of], of, sku)
    if item then reply[#reply + 1] = {group, view(sku, item, now)} end
  end
  return reply
end)

-- What stands in its way: gives back what is over in the groups it would look at.
-- -> {'OK'}
define('stock_expire_listed', {'allow-oom'}, function(base, now, prefix, cursor, page_size, ...)
  local found, _, namespace = look_around(base, prefix, cursor, page_size, ...)
  local seen = {}
  for _, place in ipairs(found) do
    local of = namespace .. string.match(place, '^(.*)/') .. '}:'
    looked_in = 0 -- each ledger has readers of its own
    if not seen[of] and give_back_due(of, now) then break end
    seen[of] = true
  end
  return {'OK'}
end)
