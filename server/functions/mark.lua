-- A mark that stays as long as what the store keeps: who finds another one than before
-- knows that all was lost (FLUSHALL), though its connection was not.
--
-- Key, after the base "ls:{meta}:":
--   mark  string  what the first who asked chose; never ends

-- args: the mark to set where there is none -> {'OK', the mark}
define('mark_read', {'allow-oom'}, function(base, args)
  local key = base .. 'mark'
  local mark = redis.call('GET', key)
  if not mark then
    write('SET', key, args[1])
    mark = args[1]
  end
  return {'OK', mark}
end)
