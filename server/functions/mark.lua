-- A mark that exists as long as the data: a server that finds another mark knows that all data was lost (FLUSHALL),
-- even if its connection was not.
--
-- Key, after the base "ls:{meta}:":
--   mark    string  chosen by the first server that asked; never expires
--   schema  string  the version of the data layout; a server writes it when it connects, and after such a loss

-- offered: the mark to set if there is none -> {'OK', the mark}
define('mark_read', {'allow-oom'}, function(base, now, offered)
  local key = base .. 'mark'
  local mark = redis.call('GET', key)
  if not mark then
    write('SET', key, offered)
    mark = offered
  end
  return {'OK', mark}
end)

-- layout: the version to set if there is none -> {'OK'}
define('mark_layout', {'allow-oom'}, function(base, now, layout)
  write('SET', base .. 'schema', layout, 'NX')
  return {'OK'}
end)
