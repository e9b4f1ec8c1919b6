-- Servers start, work, freeze and end, with a clock that jumps and is set back, over a store that loses its data: no id
-- comes twice, and those of one run of a server increase.
-- promise D5: a reassigned worker never repeats an id: the end of each range is written ahead and stays
-- promise D6: a server's ids increase, its clock or grants going back or not
-- promise D10: after Redis lost data no range is granted for one lease, and none before that time ever
require "id"

local SERVERS = 12

-- ---- what was given ----

local function note(given, made)
  for _, id in ipairs(made) do given[#given + 1] = id end
end
-- How many ids came twice.
local function doubles(given)
  local seen, n = {}, 0
  for _, id in ipairs(given) do
    if seen[id] then n = n + 1 end
    seen[id] = true
  end
  return n
end

-- ---- how it goes: chances, by how much the clock moves, and ids a call, mostly and at times ----

-- Hours, and long ranges with few ids in them.
local WIDE = {asks = 700, advances = 240, steps_back = 20, lost_replies = 10, ends = 25, losses = 5,
  ms = {1, 30, 300, 1000, 3000, 7000, 3600000}, few = 60, many_of = 20}
-- Milliseconds, all used up: two makers with the same time and worker make the same ids.
local NARROW = {asks = 580, advances = 140, steps_back = 100, lost_replies = 30, ends = 120, losses = 30,
  ms = {1, 2, 5, 10, 30, 60, LEASE}, few = 40, many_of = 3}

-- ---- the world ----

-- The end of the latest range, as far as the store knows.
local function latest_ms()
  return tonumber(eval("local latest = 0\n"
    .. "for _, text in ipairs(redis.call('HVALS', 'ls:{meta}:id:workers')) do\n"
    .. "  latest = math.max(latest, tonumber(string.match(text, '^%d+ (%d+) ') or text))\n"
    .. "end\nreturn string.format('%.0f', latest)"))
end

-- With so few workers each has many owners.
local FEW = "local WORKERS = 8"
local function few_workers() harness.alter("local WORKERS = 1024", FEW) end

local function run(course, steps)
  local given, last = {}, {} -- the last id of each server's life
  local behind, lost = false, 0 -- the clock stepped back, since the last loss; nothing that was lost reaches behind this
  local n = {refused = 0, losses = 0, lives = 0, steps_back = 0}
  local function server() return "server" .. pick(SERVERS) end

  local function take_ids()
    local name, count = server(), pick(course.many_of) == 0 and 10000 or 1 + pick(course.few)
    harness.server(name)
    local response = next_ids("SNOWFLAKE", "", count)
    if not response.response then
      local why = response.error
      eq(why.code == "UNAVAILABLE" or why.code == "RESOURCE_EXHAUSTED" or tostring(response), true)
      eq(why, {applied = "NO", retry_after_ms = above(0)})
      n.refused = n.refused + 1
      return
    end
    eq(#response.ids, count)
    for _, id in ipairs(response.ids) do
      if id <= (last[name] or 0) then error(("%s gave %d after %d"):format(name, id, last[name])) end
      last[name] = id
    end
    note(given, response.ids)
  end
  local function step_back()
    ms(-pick_from(course.ms))
    behind, n.steps_back = true, n.steps_back + 1
  end
  -- The store grants, and the reply is lost.
  local function lose_a_reply()
    local name = server()
    harness.alter("local WORKERS = 1024", FEW .. "\nlocal function write(...) write(...) error('lost') end")
    harness.server(name)
    local response = next_ids("SNOWFLAKE", "", 1)
    if response.response then -- out of the range it has
      note(given, response.ids)
      last[name] = response.ids[1]
    end
    few_workers()
  end
  local function end_a_life()
    local name = server()
    harness.server_ends(name)
    last[name], n.lives = nil, n.lives + 1
  end
  -- A loss while the clock is behind what was granted before is not survived; so the clock is not set back before a
  -- server has noticed the loss.
  local function lose_the_data()
    lost = math.max(lost, latest_ms())
    if behind and lost > clock_ms() then ms(math.tointeger(lost - clock_ms())) end
    behind = false
    lost = math.max(lost, clock_ms() + LEASE)
    if pick(2) == 1 then
      redis("DEL", WORKERS)
    else
      eval("local at = redis.call('GET', 'ls:test:clock_offset_us')\nredis.call('FLUSHALL')\n"
        .. "redis.call('SET', 'ls:test:clock_offset_us', at or 0)")
    end
    n.losses = n.losses + 1
    harness.server "who notices"; next_ids("SNOWFLAKE", "", 1) "UNAVAILABLE NO kind: the store is new..."
    harness.server_ends "who notices"
  end

  few_workers()
  for i = 1, steps do
    choose{course.asks, take_ids, course.advances, function() ms(pick_from(course.ms) // (1 + pick(3))) end,
      course.steps_back, step_back, course.lost_replies, lose_a_reply, course.ends, end_a_life, course.losses, lose_the_data}
    if i % 100 == 0 then harness.forget() end
  end
  eq(doubles(given), 0); eq(#given, above(steps))
  eq(n, {refused = above(0), losses = above(0), lives = above(0), steps_back = above(0)})
end

function case.ids_are_unique_over_days()
  rounds(2, 20, function() run(WIDE, 2000) end)
end

function case.ids_are_unique_within_seconds()
  rounds(4, 100, function() run(NARROW, 800) end)
end

-- Everything that can happen to one worker happens within a second: another owner, clock back, loss.
function case.a_bad_second()
  each(repeated(30, true), function()
    local given = {}
    local function take(server, n)
      harness.server(server); note(given, snowflakes(n))
    end
    take("A", 1); ms(-5000); take("B", 200); harness.server_ends "A"
    harness.server "A"; ms(5000); take("A", 200); ms(RANGE)
    take("A", 200); take("B", 200); eq(doubles(given), 0)
  end)
end
