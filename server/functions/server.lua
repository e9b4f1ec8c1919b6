-- What servers of one store tell each other: their settings.
--
-- Key, after the base "ls:{meta}:":
--   servers  hash    server id -> "until note": ms since 1970, and the note that is valid until then. The key ends with
--                    the last of them

local NOTES = 64 -- that one reply tells of

-- id: the server that asks; note: kept for keep_ms -> {'OK', until when that is, then until, note of other servers...},
-- without equal notes
define('server_note', {'allow-oom'}, function(base, now, id, note, keep_ms)
  local key, ms = base .. 'servers', math.floor(now / 1000)
  local latest = ms + tonumber(keep_ms)
  local all, reply = redis.call('HGETALL', key), {'OK', int(latest)}
  for i = 1, #all, 2 do
    local till, other = string.match(all[i + 1], '^(%d+) (.*)$')
    till = tonumber(till) or 0
    local over = till <= ms or till > latest -- the latter: the clock stepped back
    if over and all[i] ~= id then write('HDEL', key, all[i]) end
    if not over and all[i] ~= id and other ~= note and #reply < 2 * NOTES then
      reply[#reply + 1], reply[#reply + 2] = int(till), other
    end
  end
  write('HSET', key, id, int(latest) .. ' ' .. note)
  write('PEXPIRE', key, keep_ms)
  return reply
end)
