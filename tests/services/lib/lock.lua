-- LockService, all in the group "g". "T1" is a token and the owner of what it holds. A target is a name (EXCLUSIVE),
-- name:S (SHARED) or name:P<permits>/<capacity>.
--
--   acquire "T1 a b:S" "ACQUIRED"             acquire "T2 a" "BUSY a held by T1"
--   renew "T1 a" "RENEWED"                    no name: all of the token
--   release "T1 x b" "NOT_HELD x=NOT_HELD b=RELEASED"
--   inspect "a" "PERMIT/5 T1=2 T2=1"          "FREE", "EXCLUSIVE T1", "SHARED T1 T2"
--   force_release "a" "T1 T2"                 the holders removed
--   check_fence "disk 7" "STALE 9"            reset_fence "disk 7" "9"

-- The lease of acquire and renew. Cases stay hundreds of seconds away from its end, so that their own time does not
-- matter.
LEASE = 1000000

function target(text)
  local name, mode, permits, capacity = text:match("^([^:]*):?([SP]?)(%d*)/?(%d*)$")
  return {name = name, mode = ({S = "SHARED", P = "PERMIT"})[mode], permits = math.tointeger(permits),
    capacity = math.tointeger(capacity)}
end

function acquire_request(token, ...)
  local targets = {}
  for i, text in ipairs{...} do targets[i] = target(text) end
  return {group = "g", token = token_of(token), owner = token, lease_ms = LEASE, targets = targets}
end

lines["Lock.Acquire"] = function(r)
  return r.outcome .. (r.holder and " " .. r.holder.name .. " held by " .. r.holder.owner or "")
    .. (r.replayed and " again" or "")
end
lines["Lock.Renew"] = function(r) return r.results[1].outcome end
lines["Lock.Release"] = function(r)
  local line = r.outcome
  for _, name in ipairs(r.names) do line = line .. " " .. name.name .. "=" .. name.outcome end
  return line .. (r.replayed and " again" or "")
end
lines["Lock.Inspect"] = function(r)
  local line = r.mode == "UNSPECIFIED" and "FREE" or r.mode
  if r.capacity > 0 then line = line .. "/" .. r.capacity end
  for _, holder in ipairs(r.holders) do
    line = line .. " " .. holder.owner .. (r.capacity > 0 and "=" .. holder.permits or "")
  end
  return line
end
lines["Lock.ForceRelease"] = function(r)
  local owners = {}
  for i, holder in ipairs(r.removed) do owners[i] = holder.owner end
  return table.concat(owners, " ")
end
lines["Lock.CheckFence"] = function(r) return r.outcome .. " " .. r.high_water end
lines["Lock.ResetFence"] = function(r) return tostring(r.high_water) end

acquire = word(function(more, ...) return Lock.Acquire(with(acquire_request(...), more)) end)
renew = word(function(more, token, ...)
  local lease = with({group = "g", token = token_of(token), names = {...}, lease_ms = LEASE}, more)
  return Lock.Renew{leases = {lease}}
end)
release = word(function(_, token, ...) return Lock.Release{group = "g", token = token_of(token), names = {...}} end)
inspect = word(function(_, name) return Lock.Inspect{group = "g", name = name} end)
force_release = word(function(_, name) return Lock.ForceRelease{group = "g", name = name} end)
check_fence = word(function(_, resource, fence) return Lock.CheckFence{resource = resource, fence = math.tointeger(fence)} end)
reset_fence = word(function(_, resource, fence) return Lock.ResetFence{resource = resource, fence = math.tointeger(fence)} end)

-- The fence that an acquire was given for its first target.
function fence_of(acquired) return acquired.fences[1].fence end

-- A key of the group: key "n:a" of the name a, key "t:T1" of a token.
function key(text)
  local kind, of = text:match("^(%a):(.*)$")
  return "ls:{default/g}:lock:" .. kind .. ":" .. (kind == "t" and token_of(of) or of)
end
function ttl(text) return redis_number("PTTL", key(text)) end
