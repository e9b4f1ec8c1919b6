-- The words of every script. A step is a call of a method, written as a request, and then its answer:
--
--   Lock.Inspect{group = "g", name = "a"} "FREE" {last_fence = 0, holders = {}}
--
-- A text is the answer's line: its outcome, "again" after it for a replay, else OK; of an error its code, what was
-- applied, and its message. "BUSY..." means: begins so. A table is a part of the response: other fields may be
-- anything, lists have that length, and a function checks a value (about, above, any). The files beside this one have
-- shorter words for one service: acquire "T1 a b:S" "ACQUIRED".

-- ---- cases ----------------------------------------------------------------------------

local cases = {}
case_names = {}
case = setmetatable({}, {__newindex = function(_, name, body)
  if cases[name] then error("two cases are called " .. name, 2) end
  cases[name], case_names[#case_names + 1] = body, name
end})

local function skip_if(condition, why)
  if not condition then return end
  print("skipped: " .. why)
  skipped = true
  error(why, 0)
end

-- The first line of a case that is about Redis itself, with the reason: the machine (support/machine_engine.h) skips it.
function redis_only(why) skip_if(harness.is_machine, why) end
-- The same where the locks are in the machine, and the rest in Redis.
function one_store_only(why) skip_if(harness.has_two_stores, why) end

function setup() end -- a script may replace it: before each case

function run_case(name)
  setup()
  cases[name]()
end

-- Runs the body several times with other random numbers, each time on an empty store; more often in ctest's label soak.
-- LOCKSTOCK_SEED, which a failure prints, repeats a run.
function rounds(fast, full, body)
  local start = tonumber(os.getenv("LOCKSTOCK_SEED")) or os.time()
  for seed = start, start + (os.getenv("LOCKSTOCK_SOAK") and full or fast) - 1 do
    harness.reset()
    setup()
    math.randomseed(seed)
    local ok, why = xpcall(body, function(text) return debug.traceback(tostring(text), 2) end)
    if not ok then error("LOCKSTOCK_SEED=" .. seed .. "\n" .. why, 0) end
    harness.forget()
  end
end
function pick(n) return math.random(0, n - 1) end
function pick_from(list) return list[math.random(#list)] end
-- Does one of several things: choose{40, f, 60, g}, each with its chance.
function choose(things)
  local at, all = 0, 0
  for i = 1, #things, 2 do all = all + things[i] end
  local roll = math.random(all)
  for i = 1, #things, 2 do
    at = at + things[i]
    if roll <= at then return things[i + 1]() end
  end
end

-- ---- checks ---------------------------------------------------------------------------

local function text_of(value)
  if type(value) ~= "table" then return type(value) == "string" and ("%q"):format(value) or tostring(value) end
  local parts = {}
  for k, v in pairs(value) do parts[#parts + 1] = k .. " = " .. text_of(v) end
  table.sort(parts)
  return "{" .. table.concat(parts, ", ") .. "}"
end

local function differ(got, expected, path)
  error(("%sgot      %s\nexpected %s"):format(path == "" and "" or path .. ":\n", text_of(got), text_of(expected)), 0)
end

local function match(got, expected, path)
  if type(expected) == "function" then
    local wish = expected(got)
    if wish then differ(got, wish, path) end
  elseif type(expected) ~= "table" then
    if got ~= expected then differ(got, expected, path) end
  else
    if type(got) ~= "table" or (#expected > 0 or next(expected) == nil) and #got ~= #expected then
      differ(got, expected, path)
    end
    for k, v in pairs(expected) do match(got[k], v, path == "" and tostring(k) or path .. "." .. k) end
  end
end

-- Returns `got`; fails unless it is `expected`, which may be a table or a check as in a step.
function eq(got, expected)
  match(got, expected, "")
  return got
end

local function check(holds, wish)
  return function(got) if not (got and holds(got)) then return wish end end
end
function above(x) return check(function(got) return got > x end, "above " .. x) end
function within(a, b) return check(function(got) return got >= a and got <= b end, a .. " to " .. b) end
-- A time left, less the time that the test took.
function about(ms) return within(ms - 90000, ms) end
any = check(function() return true end, "anything")
function containing(text) return check(function(got) return got:find(text, 1, true) end, "..." .. text .. "...") end

-- A text is called with the expected text.
function says(got, expected)
  local start = expected:match("^(.*)%.%.%.$")
  if not (got == expected or start and got:sub(1, #start) == start) then differ(got, expected, "") end
  return got
end
getmetatable("").__call = says

-- ---- calls ----------------------------------------------------------------------------

local Answer = {}
function Answer.__index(a, field) return rawget(a, "response") and a.response[field] end
function Answer.__tostring(a) return a.text end
function Answer.__call(a, expected)
  if type(expected) == "string" then
    says(a.text, expected)
  elseif not a.response then
    differ(a.text, expected, "")
  else
    match(a.response, expected, "")
  end
  return a
end

function line_of(response, error)
  if not response then return error.code .. " " .. error.applied .. " " .. error.message end
  return (response.outcome or "OK") .. (response.replayed and " again" or "")
end

-- Words of a service put a response in one line: lines["Lock.Inspect"] = function(response) ... end
lines = {}

-- The last error; its code is OK after a response.
last_error = {code = "OK"}

-- An answer in a script; its fields are those of the response.
function answer(method, response, error)
  last_error = error
  local line = response and lines[method]
  return setmetatable({method = method, response = response, error = error,
    text = line and line(response) or line_of(response, error)}, Answer)
end

-- Lock.Acquire{...}; Lock.Acquire.together{...} sends all requests in one FCALL.
local Method = {}
function Method.__call(m, request) return answer(m.name, harness.call(m.name, request)) end
function Method.__index(m, what)
  if what == "together" then
    return function(requests)
      local list = harness.together(m.name, requests)
      for i, one in ipairs(list) do list[i] = answer(m.name, one.response, one.error) end
      return list
    end
  elseif what == "bytes" then
    return function(bytes) return answer(m.name, harness.call_bytes(m.name, bytes)) end
  end
end
for _, name in ipairs{"Lock", "Stock", "Idempotency", "RateLimit", "Id", "Guard", "Admin"} do
  _G[name] = setmetatable({}, {__index = function(methods, method)
    methods[method] = setmetatable({name = name .. "." .. method}, Method)
    return methods[method]
  end})
end

-- The texts of answers, as one.
function texts(answers)
  local list = {}
  for i, one in ipairs(answers) do list[i] = tostring(one) end
  return table.concat(list, ", ")
end

-- ---- requests -------------------------------------------------------------------------

function split(text)
  local list = {}
  for word in text:gmatch("%S+") do list[#list + 1] = word end
  return list
end

-- A copy of a request with other fields; fields of messages and elements of lists as well: {targets = {{name = ""}}}.
function with(request, more)
  local copy = {}
  for k, v in pairs(request) do copy[k] = type(v) == "table" and with(v, {}) or v end
  for k, v in pairs(more or {}) do
    if type(v) == "table" and next(v) == nil then copy[k] = {}
    elseif type(v) == "table" and type(copy[k]) == "table" then copy[k] = with(copy[k], v)
    else copy[k] = v end
  end
  return copy
end

-- A word takes its arguments as one text, and after it more fields of the request.
function word(f)
  return function(text, more) return f(more or {}, table.unpack(split(text or ""))) end
end

function repeated(n, of)
  local list = {}
  for i = 1, n do list[i] = type(of) == "function" and of(i) or of end
  return list
end
function long(n) return ("x"):rep(n) end

-- "T1" stands for a token of the right length.
function token_of(alias) return alias .. ("."):rep(16 - #alias) end

-- ---- the store ------------------------------------------------------------------------

-- redis "GET key", or one argument a word: its reply as text, an array's elements a line each.
function redis(first, ...)
  if select("#", ...) == 0 then return harness.redis(table.unpack(split(first))) end
  return harness.redis(first, ...)
end
function redis_number(...) return math.tointeger(tonumber(redis(...))) end
-- The names of keys, which have no spaces.
function keys_like(pattern) return split(redis("KEYS", pattern)) end
function eval(script, ...) return harness.redis("EVAL", script, "0", ...) end
-- One function of the library.
function fcall(name, base, ...) return harness.redis("FCALL", name .. "_" .. harness.digest, "1", base, ...) end

-- From now on only the script moves the store's clock.
function hold_clock()
  local seconds, us = redis("TIME"):match("(%d+)\n(%d+)")
  redis(("SET ls:test:clock_still_us %d%06d"):format(seconds, us))
end
-- Microseconds since 1970 as the library sees them, where the clock goes on.
function now_us()
  local seconds, us = redis("TIME"):match("(%d+)\n(%d+)")
  return seconds * 1000000 + us + (redis_number "GET ls:test:clock_offset_us" or 0)
end
function pass(seconds) harness.advance_ms(math.floor(seconds * 1000)) end

-- guard:<token> only notes how far an Enter is.
local function stored() return (harness.snapshot():gsub("[^\n]*:guard:[^\n]*\n?", "")) end

local remembered
function remember() remembered = stored() end
function unchanged()
  local now = stored()
  if now ~= remembered then differ(now, remembered, "the store has changed") end
end

-- Keys without an end; there should be none.
function endless_keys()
  local found = {}
  for _, key in ipairs(keys_like "ls:{*") do
    if redis_number("PTTL", key) <= 0 then found[#found + 1] = key end
  end
  return table.concat(found, " ")
end

-- How often Redis ran the command while f ran.
function commands_of(command, f)
  local before = harness.commands(command)
  f()
  return harness.commands(command) - before
end
function all_commands()
  local n = 0
  for calls in redis("INFO commandstats"):gmatch(":calls=(%d+)") do n = n + calls end
  return n
end

-- Runs a body for each row on an empty store.
function each(rows, body)
  for _, row in ipairs(rows) do
    harness.reset()
    setup()
    body(row)
  end
end

-- ---- bad input ------------------------------------------------------------------------

foreign = "FAILED_PRECONDITION NO the store holds foreign data under this name"

-- Rows of a change to a key (?), the key, and the names of the calls in `tries` that read it: they are refused and
-- change nothing. prepare() runs first, and the key is removed unless it is changed in place.
function refuses_foreign(rows, tries, prepare)
  for _, row in ipairs(rows) do
    for name in row[3]:gmatch("%S+") do
      harness.reset()
      setup()
      prepare()
      local command = {}
      for part in row[1]:gmatch("[^ ]+") do command[#command + 1] = part == "?" and row[2] or part end
      if not (row.in_place or command[1] == "APPEND" or command[1] == "SETRANGE") then redis("DEL", row[2]) end
      redis(table.unpack(command))
      remember()
      local said = tostring(tries[name]())
      if said:sub(1, 22) ~= "FAILED_PRECONDITION NO" then error(("%s of %s, %s: %s"):format(row[1], row[2], name, said)) end
      unchanged()
    end
  end
end

-- Each request is refused for its field and changes nothing: refuses(Lock.Acquire, good) {{"group", group = long(129)}}
function refuses(method, good)
  return function(rows)
    remember()
    for i, row in ipairs(rows) do
      local field, spoilt = row[1], {}
      for k, v in pairs(row) do if k ~= 1 then spoilt[k] = v end end
      local said = tostring(method(with(good, spoilt)))
      local start = "INVALID_ARGUMENT NO " .. field .. ":"
      if said:sub(1, #start) ~= start then differ(said, start .. "...", "row " .. i) end
      unchanged()
    end
  end
end

-- The same for bytes; the field's name is anywhere in the text.
function refuses_bytes(method, rows)
  remember()
  for i, row in ipairs(rows) do
    local said = tostring(method.bytes(row[1]))
    if said:sub(1, 20) ~= "INVALID_ARGUMENT NO " or not said:find(row[2], 1, true) then differ(said, row[2], "row " .. i) end
    unchanged()
  end
end

-- How many calls of the method one FCALL may carry, by their weight.
function sharing(method, request)
  local n, weight = harness.planned(harness.plan("server", method, request))
  eq(n, above(0))
  eq(weight, within(1, harness.weight_max))
  return harness.weight_max // weight
end
