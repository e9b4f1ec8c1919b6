-- Settings that the servers of one store exchange.
--
-- Key, after the base "ls:{meta}:":
--   servers      hash    server id -> "until note": ms since 1970, and the note that is valid until then. The key ends
--                        with the last of them
--   pass:<name>  string  when a server last said that it walks all keys for that reason, in ms since 1970

local NOTES = 64 -- the maximum of notes in one reply
local PASS_KEPT_MS = 7 * 86400000 -- longer than servers wait between two passes

-- id: the calling server; note: kept for keep_ms -> {'OK', the end of that time, then until, note of other servers...},
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

-- Lets one server at a time walk the keys, if no server has claimed the pass for apart_ms. apart_ms 0: renews the
-- claim.
-- -> {'OK', 1 or 0, ms until another pass may begin}
define('server_begin_pass', {'allow-oom'}, function(base, now, name, apart_ms)
  local key, ms, apart = base .. 'pass:' .. name, math.floor(now / 1000), tonumber(apart_ms)
  local left = (tonumber(redis.call('GET', key) or '0') or foreign()) + apart - ms
  if left > 0 and left <= apart then return {'OK', 0, left} end -- more: the clock stepped back
  write('SET', key, int(ms), 'PX', PASS_KEPT_MS)
  return {'OK', 1, apart}
end)
