-- SNOWFLAKE and Decode: the bits, grants and refusals.
require "id"

-- Time passes for the servers, but not by Redis' clock: it was set back.
local function lag(n)
  ms(n); ms(-n)
end

-- Workers first..last belong to others, granted at that time.
local function others_have(first, last, at)
  eval("for n = tonumber(ARGV[2]), tonumber(ARGV[3]) do\n"
    .. "  redis.call('HSET', ARGV[1], n, string.format('0 %.0f %s other', ARGV[4] + 1000, ARGV[4]))\nend",
    WORKERS, tostring(first), tostring(last), ("%d"):format(at))
end

local function refused(said)
  next_ids("SNOWFLAKE", "", 1)(said)
end
local NEW = "UNAVAILABLE NO kind: the store is new..."

-- ---- the bits ----

-- promise D1: SNOWFLAKE: 41 bits of ms, 10 of worker, 12 of sequence; Decode splits an id, at_ms since 1970, without
--   the store
function case.decode_takes_an_id_apart()
  eq(store_calls(function()
    for _, row in ipairs{{1, 0, 0, 1}, {1 << 12, 0, 1, 0}, {1 << 22, 1, 0, 0},
      {86400000 << 22 | 513 << 12 | 2050, 86400000, 513, 2050}, {math.maxinteger, (1 << 41) - 1, 1023, 4095}} do
      Id.Decode{id = row[1]} {at_ms = EPOCH + row[2], worker = row[3], sequence = row[4]}
    end
  end), 0)
end

-- promise D2: count ids, 4096 in a ms and then the next ms; their time is the clock's; a range that is used up is
--   followed by the next
function case.ids_are_of_the_time()
  local begun = clock_ms() -- Redis' clock runs, this server's is only moved
  for i = 1, 5 do
    local step = i <= 3 and 300 or 86400000
    eq(decode(snowflake()), {at_ms = within(begun - 1, clock_ms() + 1), worker = 0})
    ms(step)
    begun = begun + step
  end
end

-- promise D2
function case.ten_thousand_at_once()
  local made = snowflakes(10000)
  eq(at_of(made[10000]) - at_of(made[1]), 2); eq(snowflake(), above(made[10000]))
  next_ids("SNOWFLAKE", "", 0) {ids = {any}}
end

-- ---- grants ----

-- promise D3: one call of the store a second, however many ids are asked for
function case.range_is_requested_once_a_second()
  local last
  eq(store_calls(function()
    last = snowflake()
    for _ = 1, 100 do last = eq(snowflake(), above(last)) end
  end), within(1, 2)) -- 2 on a machine that needs a second for this
  eq(store_calls(function()
    ms(RANGE); eq(snowflake(), above(last))
  end), 1)
end

-- promise D8: a worker is leased to one server of the whole store; concurrent calls share it; a worker whose time has
--   passed is preferred
function case.each_server_has_a_worker()
  local a = snowflake()
  harness.server "B"; eq(worker_of(snowflake()), 1)
  harness.namespace "other" -- workers are the store's
  harness.server "C"; eq(worker_of(snowflake()), 2)
  harness.server "harness"; ms(RANGE); eq(worker_of(snowflake()), worker_of(a))
  ms(86400000) -- no other server took it
  eq(worker_of(snowflake()), worker_of(a))
end

-- promise D8
function case.a_worker_is_leased()
  local a = snowflake()
  harness.server_ends "harness"; ms(LEASE - 500)
  local b = eq(snowflake(), above(a))
  eq(worker_of(b), worker_of(a) + 1)
  harness.server "C"
  ms(600) -- a's is over, b's is not
  eq(worker_of(eq(snowflake(), above(b))), worker_of(a))
end

-- promise D7: a server that lost its worker stops at the end of its range and takes another worker
function case.a_server_that_lost_its_worker_takes_another()
  local a = snowflake()
  others_have(0, 0, clock_ms())
  local same = snowflake() -- of its own range, which no other server gets
  eq(worker_of(same), worker_of(a))
  ms(RANGE); eq(worker_of(eq(snowflake(), above(same))), 1)
end

-- promise D8
function case.concurrent_calls_share_a_range()
  local last = 0
  for _, one in ipairs(Id.Next.together(repeated(20, {kind = "SNOWFLAKE"}))) do last = eq(one.ids[1], above(last)) end
  eq(decode(last), {worker = 0, at_ms = within(0, clock_ms())}) -- no range was burnt
  redis("HLEN", WORKERS) "2"
end

-- promise D9: all workers taken: RESOURCE_EXHAUSTED with retry_after_ms
function case.all_workers_taken()
  others_have(0, 1023, clock_ms() - 1000); refused "RESOURCE_EXHAUSTED NO kind: all 1024 workers..."
  eq(last_error.retry_after_ms, within(1, LEASE - 1000))
  others_have(700, 700, clock_ms() - LEASE); eq(worker_of(snowflake()), 700)
  others_have(1023, 1023, clock_ms() - LEASE); harness.server "B"; eq(worker_of(snowflake()), 1023)
end

-- ---- other primaries, and a clock that is wrong ----

local function primary_is(generation) fcall("id_generation", "ls:{meta}:", "1", generation) end
-- As if a primary had granted the worker of an id and had not replicated it.
local function lose_the_worker_of(id) redis("HDEL", WORKERS, tostring(worker_of(id))) end
local function far_behind(lost) eq(at_of(snowflake()), above(at_of(lost) + RANGE + AHEAD)) end

-- promise T23: after a failover that lost answers: fences increase, no SNOWFLAKE repeats, and a reader of a lost
--   ledger entry is informed
function case.new_primary_grants_nothing_until_lost_leases_have_expired()
  primary_is "a/1"
  local lost = snowflake()
  lose_the_worker_of(lost); primary_is "b/2"; harness.server "other"; refused "UNAVAILABLE..."
  ms(LEASE); far_behind(lost)
end

function case.same_primary_grants_at_once()
  primary_is "a/1"; snowflake(); primary_is "a/1"; harness.server "other"; snowflake()
end

-- The line of CLUSTER NODES for the node that runs the functions.
local function cluster_epoch(epoch) redis("SET", "ls:test:myself", "id host myself - 0 0 " .. epoch .. " connected") end

-- promise T23
function case.in_a_cluster_another_primary_is_known_by_the_grant_itself()
  harness.alter("local mine = myself()", "local mine = redis.call('GET', 'ls:test:myself')"); cluster_epoch(1)
  refused(NEW) -- no server has noted which one it is
  ms(LEASE)
  local lost = snowflake()
  harness.server "same"; snowflake(); lose_the_worker_of(lost); cluster_epoch(2)
  harness.server "other"; refused(NEW); eq(last_error.retry_after_ms, LEASE)
  ms(LEASE); far_behind(lost)
end

-- promise D5
-- The reply was lost and the clock stepped back: the end that was written stays, because the reply may still come.
function case.an_end_that_was_written_stays()
  redis("HSET", WORKERS, "floor", "0")
  local ends = clock_ms() + RANGE
  harness.alter("return {'OK', worker.n", "error('lost')\n  return {'OK', worker.n"); refused "INTERNAL..."
  harness.alter("RANGE_MS = 1000", "RANGE_MS = 1000")
  ms(-60000); snowflake(); eq(tonumber(redis("HGET", WORKERS, "0"):match(" (%d+)")), above(ends - 1))
end

-- promise D8
function case.a_lease_that_ends_far_in_the_future_has_ended()
  local a = snowflake()
  others_have(1, 1023, clock_ms() + 3600000); ms(-60000); harness.server "B"
  eq(decode(snowflake()), {worker = worker_of(a), at_ms = above(at_of(a) + RANGE - 1)})
end

-- promise D8
function case.a_worker_of_the_present_is_preferred()
  others_have(0, 9, clock_ms() + 3600000) -- by a clock that was wrong
  local id = snowflake()
  eq(decode(id), {worker = 10, at_ms = within(0, clock_ms())})
end

-- promise D4: not far ahead of the clock: RESOURCE_EXHAUSTED with retry_after_ms
function case.server_ahead_of_the_clock_gets_one_range_a_second()
  hold_clock()
  harness.alter("till = first + RANGE_MS", "till = first + 2") -- 8192 ids
  snowflake(); ms(-60000); ms(RANGE)
  local last = snowflake()
  lag(RANGE)
  local made = snowflakes(8000) -- its range stays its own, however old
  eq(made[1], above(last))
  next_ids("SNOWFLAKE", "", 8000) "RESOURCE_EXHAUSTED NO kind: this server has made more..."
  eq(last_error.retry_after_ms, within(1, RANGE))
  ms(RANGE); eq(snowflakes(8000)[1], above(made[8000]))
end

-- promise D4
function case.small_lead_over_the_clock_is_allowed()
  hold_clock()
  local last = snowflake()
  for _ = 1, 3 do
    lag(RANGE)
    last = eq(snowflake(), above(last))
  end
end

-- ---- a range that is used up ----

-- promise D2
function case.a_range_that_is_used_up_is_followed()
  hold_clock()
  harness.alter("RANGE_MS = 1000", "RANGE_MS = 5")
  local last = 0
  eq(store_calls(function()
    for _ = 1, 6 do
      local made = snowflakes(10000)
      eq(made[1], above(last))
      last = made[10000]
    end
  end), above(2))
end

-- promise D2
function case.calls_at_once_that_use_up_a_range()
  harness.alter("RANGE_MS = 1000", "RANGE_MS = 5")
  local answers = Id.Next.together(repeated(3, {kind = "SNOWFLAKE", count = 10000}))
  eq(#answers[1].ids, 10000); eq(#answers[2].ids, 10000)
  -- It must ask again, which calls in one FCALL do not do in a harness.
  eq({answers[3].response == nil, answers[3].error.code}, {true, "OK"})
end

-- promise D2
function case.more_than_a_range_holds_is_refused()
  harness.alter("RANGE_MS = 1000", "RANGE_MS = 2")
  next_ids("SNOWFLAKE", "", 10000) "RESOURCE_EXHAUSTED NO kind: fewer ids..."; eq(#snowflakes(4096), 4096)
end

-- ---- a store that is new, or lost its data ----

-- promise D10
function case.a_new_store_grants_nothing_for_a_lease()
  harness.reset(); refused(NEW); eq(last_error.retry_after_ms, LEASE)
  ms(LEASE - 1000); refused(NEW); eq(last_error.retry_after_ms, within(1, 1000))
  ms(1000); snowflake()
  -- The other kinds need not wait.
  redis("DEL", WORKERS); next_ids("UUID_V7", "", 1) {uuids = {any}}; next_ids("SEQUENCE", "s", 1) {ids = {any}}
end

-- promise D11: outside of 2024 to 2093: OUT_OF_RANGE
function case.before_2024_and_after_2093_there_are_no_ids()
  local back = EPOCH - clock_ms()
  redis("HSET", WORKERS, "floor", "0"); ms(back - 60000); refused "OUT_OF_RANGE NO kind: ..."; ms(120000)
  eq(at_of(snowflake()), within(EPOCH, EPOCH + 120000 - 1))
  ms(1 << 41); refused "OUT_OF_RANGE NO kind: ..."
end

-- ---- foreign data ----

-- promise D12
function case.foreign_data_is_not_changed()
  redis("HSET", WORKERS, "0", "junk"); remember(); refused(foreign); unchanged()
  redis("HSET", WORKERS, "floor", "soon"); refused(foreign); redis("SET", WORKERS, "text"); refused(foreign)
end
