-- What callers see when the store changes under a running lockstockd: it is down, its memory is full, its
-- settings lose data, its clock steps, its password changes.
require "lock"
require "stock"

local HOUR_US = 3600000000
local clock

function setup() call_options = {no_retry = true} end

local function start_with_clock()
  clock = world.clock(world.dir())
  store = world.redis{append_only = true, env = clock:env()}
  server{store = store:url()}
end

-- A refusal that comes at once, without retries: nothing was done, and the server says so.
-- promise CH1
function case.a_call_without_a_store_is_refused()
  two_servers({}, nil, 1)
  put "a 10"
  store:stop()
  -- Calls sent on the lost connection are MAYBE.
  until_(function() return stock("a").error.applied == "NO" end)
  for _, options in ipairs{{}, {no_retry = true}} do
    call_options = options
    for _, refused in ipairs{deduct "o1 - a:1", stock "a"} do
      eq(refused.error, {code = "UNAVAILABLE", applied = "NO", from_peer = true, message = containing "No such file"})
    end
  end
  store:restart()
  until_(function() return deduct("o1 - a:1").response or eq(last_error.applied, "NO") and nil end)
end

-- promise T21: TLS to the store: its identity and ours; SIGHUP changes the password without losing a call; wrong files
--   leave everything unchanged
-- call lost; wrong files leave all as it was
function case.a_password_that_changes_is_read_on_sighup()
  local path = write(world.dir() .. "/password", "first\n")
  store = world.redis{}
  redis "CONFIG SET requirepass first"
  local s = server{store = store:url(), args = {"--allow-unsafe-store", "--store-password-file", path}}
  write(path, "second\n")
  redis "AUTH first"; redis "CONFIG SET requirepass second"
  s:signal "HUP"
  s:line "event=reloaded"
  redis "AUTH second"; redis "CLIENT KILL TYPE normal SKIPME yes"
  s:line "event=ready"
  until_(function() return put("a 10") end)
end

function case.release_of_an_unknown_token_needs_memory()
  start_with_clock()
  acquire "T0 m" "ACQUIRED"
  redis "CONFIG SET maxmemory 1"
  local before = redis "DBSIZE"
  for i = 1, 50 do
    release("N" .. i) "RESOURCE_EXHAUSTED NO..."
    eq(last_error.retry_after_ms, above(0))
  end
  eq(redis "DBSIZE", before)
  release "T0" "RELEASED"
  redis "CONFIG SET maxmemory 0"
  release "N1" "NOT_HELD"
  acquire "N1 m" "TOKEN_SPENT"
end

function case.a_register_that_was_spoiled_can_be_put_back()
  start_with_clock()
  local fence = fence_of(acquire "T1 r" "ACQUIRED")
  check_fence "r 9007199254740991" "INVALID_ARGUMENT NO..."
  check_fence("r " .. fence + HOUR_US) "OK..."
  check_fence("r " .. fence) "STALE..."
  reset_fence("r " .. fence)
  check_fence("r " .. fence) "OK..."
end

function case.clock_step_repeats_neither_grant_nor_fence()
  start_with_clock()
  local lease = {lease_ms = 600000}
  local first = fence_of(acquire("T1 c", lease) "ACQUIRED")
  clock:move(-HOUR_US)
  acquire("T2 c", lease) "BUSY..."
  release "T1" "RELEASED"
  local second = fence_of(acquire("T3 c", lease) "ACQUIRED")
  eq(second, above(first))
  clock:move(2 * HOUR_US) -- its lease is over
  eq(fence_of(acquire("T4 c", lease) "ACQUIRED"), above(second))
  release "T3" "NOT_HELD"
  acquire("T5 c", lease) "BUSY..."
end

-- The settings checked at the start are checked again every 30 s.
function case.a_policy_that_evicts_is_noticed()
  start_with_clock()
  redis "CONFIG SET maxmemory 100mb maxmemory-policy allkeys-lru"
  eq(servers[1]:line "event=store-unsafe", containing "evicts")
  servers[1]:line "event=not-ready"
  acquire "T1 s" "UNAVAILABLE NO..."
  redis "CONFIG SET maxmemory-policy noeviction maxmemory 0"
  servers[1]:line "event=ready"
  acquire "T1 s" "ACQUIRED"
end
