-- The usage of namespaces in the store, for their quotas.

local QUOTA_STEP = 500

-- {'OK', next cursor or '' at the end, {namespace, keys, bytes}...}
local function count(cursor, bytes_of)
  local page = redis.call('SCAN', cursor, 'MATCH', 'ls:{*', 'COUNT', QUOTA_STEP)
  local reply, rows = {'OK', page[1] ~= '0' and page[1] or ''}, {}
  for _, key in ipairs(page[2]) do
    local ns = string.match(key, '^ls:{([^/{}]+)/')
    if ns then
      local row = rows[ns] or {ns, 0, 0}
      if not rows[ns] then rows[ns], reply[#reply + 1] = row, row end
      row[2], row[3] = row[2] + 1, row[3] + bytes_of(key)
    end
  end
  return reply
end

define('quota_count_keys', {'no-writes', OF_PART}, function(base, now, cursor)
  return count(cursor, function() return 0 end)
end)

define('quota_count_bytes', {'no-writes', OF_PART}, function(base, now, cursor)
  return count(cursor, function(key) return redis.call('MEMORY', 'USAGE', key) or 0 end)
end)
