-- IdService.
--
--   snowflake()  snowflakes(10)     ids in order, which must not be refused; next_of "s"  the next number of a sequence
--   next_ids("SNOWFLAKE", "", 1)    Next itself
--   decode(id)                      {at_ms =, worker =, sequence =}

LEASE, RANGE, AHEAD = 3000, 1000, 1000 -- ms, as in id.lua
EPOCH = 1704067200000
WORKERS = "ls:{meta}:id:workers"

function ms(n) pass(n / 1000) end
function next_ids(kind, name, count) return Id.Next{kind = kind, name = name, count = count} end

-- A store that is old enough for grants.
function setup()
  next_ids("SNOWFLAKE", "", 1) "UNAVAILABLE..."
  ms(LEASE)
  harness.server_ends "harness"
end

function snowflakes(n)
  local response = next_ids("SNOWFLAKE", "", n)
  if not response.response then error(tostring(response)) end
  local made = response.ids
  eq(#made, n)
  eq(response.order_scope, "SERVER")
  for i = 2, n do
    if made[i] <= made[i - 1] then error("id " .. i .. " is not greater than the one before") end
  end
  return made
end
function snowflake() return snowflakes(1)[1] end
function next_of(sequence) return next_ids("SEQUENCE", sequence, 0) {ids = {any}}.ids[1] end
function decode(id) return Id.Decode{id = id} {at_ms = any}.response end
function worker_of(id) return decode(id).worker end
function at_of(id) return decode(id).at_ms end

-- Redis' clock as the library sees it.
function clock_ms()
  return math.tointeger(tonumber(eval("local t = redis.call('TIME')\n"
    .. "local us = t[1] * 1000000 + t[2] + (redis.call('GET', 'ls:test:clock_offset_us') or 0)\n"
    .. "return string.format('%.0f', math.floor(us / 1000))")))
end
function store_calls(f) return commands_of("fcall", f) end
