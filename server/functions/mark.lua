-- A mark that stays as long as what the store keeps: who finds another one than before
-- knows that all was lost (FLUSHALL), though its connection was not.
--
-- Key, after the base "ls:{meta}:":
--   mark  string  what the first who asked chose; never ends

-- offered: the mark to set where there is none -> {'OK', the mark}
define('mark_read', {'allow-oom'}, function(base, now, offered)
  local key = base .. 'mark'
  local mark = redis.call('GET', key)
  if not mark then
    write('SET', key, offered)
    mark = offered
  end
  return {'OK', mark}
end)
