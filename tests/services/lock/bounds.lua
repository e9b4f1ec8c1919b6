-- The work of one FCALL for waiters is bounded for all its calls together, and foreign data under other names
-- does not make it fail after a write.
require "lock_queue"

local OVER = 1000 -- a lease that is over after over()
local function over() pass(2 * OVER / 1000) end

-- "T<name>" holds the name, and n readers wait for it at S1.
local function a_crowd_waits(name, n)
  acquire("T" .. name .. " " .. name) "ACQUIRED"
  for i = 0, n - 1 do wait(("S1 %s%d %s:S"):format(name, i, name)) "QUEUED" end
end

-- ---- one bound for all calls of an FCALL ----

-- promise B17: the work of an FCALL for waiters and its reads of holders are bounded for all its calls together;
--   waiters that it leaves are visited again; a try on free names is still granted
function case.calls_that_travel_together_share_a_bound_of_work_for_waiters()
  redis_only "calls share an FCALL"
  local n, readers, offered, more = 8, 60, 0, 0
  for i = 0, n - 1 do a_crowd_waits("n" .. i, readers) end
  messages()
  local answers = Lock.Release.together(repeated(n, function(i) return {group = "g", token = token_of("Tn" .. i - 1)} end))
  for i, answered in ipairs(answers) do
    answered "RELEASED"
    offered = offered + holders_kept("n" .. i - 1)
  end
  eq(offered, within(readers, 128))
  local told = messages()
  for i = 1, n - 1 do
    if holders_kept("n" .. i) == 0 then eq(told, containing "S1:A ") end -- it is looked at again
  end
  for i = 0, n - 1 do
    while promote("n" .. i) == 0 do more = eq(more + 1, within(1, 4 * n)) end
    eq(holders_kept("n" .. i), readers)
  end
end

-- Tries of the names in one FCALL: "BUSY ACQUIRED".
local function try_together(...)
  local names, outcomes = {...}, {}
  local answers = Lock.Acquire.together(repeated(#names, function(i)
    return {group = "g", token = "token-of-the-try-" .. i, lease_ms = LEASE, targets = {{name = names[i]}}}
  end))
  for i, answered in ipairs(answers) do outcomes[i] = answered.outcome end
  return table.concat(outcomes, " ")
end

-- promise B17
-- The first call has used up what an FCALL may do; the next ones still take what is free.
function case.a_try_behind_a_crowd_is_granted()
  acquire("T1 crowd", {lease_ms = OVER})
  for i = 1, 200 do wait("S1 R" .. i .. " crowd:S") "QUEUED" end
  acquire("T2 dead", {lease_ms = OVER})
  for i = 1, 10 do wait("S2 D" .. i .. " dead") "QUEUED" end
  acquire("T3 free", {lease_ms = OVER}); server_down "S2"; over()
  try_together("crowd", "dead", "free", "empty") "BUSY ACQUIRED ACQUIRED ACQUIRED"
  eq(holders_kept "crowd", within(1, 128))
end

-- Semaphores with one expired lease, and more running leases than are looked at in any case.
local function large_semaphores()
  for _, name in ipairs{"s0", "s1"} do
    acquire("L" .. name .. " " .. name .. ":P1/9000", {lease_ms = OVER}) "ACQUIRED"
    acquire("M" .. name .. " " .. name .. ":P1/9000") "ACQUIRED"
    redis("EVAL", "local name = redis.call('GET', KEYS[1]) "
      .. "local entry = struct.pack('<ddd', struct.unpack('<d', name, 20) + 1e9, 1, 1) "
      .. "for i = 1, 3000 do redis.call('HSET', KEYS[2], ARGV[1] .. i, entry) end "
      .. "redis.call('SETRANGE', KEYS[1], 35, struct.pack('<d', 3002))",
      "2", key("n:" .. name), key("h:" .. name), "token-of-one-of-many-")
  end
end

-- promise B17
-- A later call reads the second semaphore.
function case.a_call_behind_a_large_semaphore_reads_no_more()
  redis_only "calls share an FCALL"
  large_semaphores(); over()
  eq(commands_of("hgetall", function() try_together("s0", "s1") "BUSY BUSY" end), 1)
end

-- promise B17
function case.a_promotion_behind_a_large_semaphore_looks_no_more()
  redis_only "calls share an FCALL"
  large_semaphores(); wait "S1 T1 s0" "QUEUED"; wait "S1 T2 s1" "QUEUED"
  over()
  eq(commands_of("hgetall", function()
    eq(fcall("lock_promote", "ls:{default/g}:", "1", "s0", "1", "s1"), containing "\nOK\n0\n") -- at once again
  end), 2) -- of one name: holders, servers of who waits
  eq(promote "s1", above(0))
end

-- The FCALL reads no more holders, but the released token must not hold again.
function case.a_release_behind_a_large_semaphore_ends_an_expired_lease()
  redis_only "calls share an FCALL"
  large_semaphores(); over()
  local answers = Lock.Release.together{{group = "g", token = token_of "Ms0"}, {group = "g", token = token_of "Ls1"}}
  answers[1] "RELEASED"; answers[2] "NOT_HELD"
  pass(-2 * OVER / 1000); acquire "Ls1 s1:P1/9000" "TOKEN_SPENT"
end

-- Nobody has looked at the name since the lease ended.
function case.a_release_of_an_expired_lease_hands_over()
  acquire("T1 a", {lease_ms = OVER}) "ACQUIRED"; wait "S1 T2 a" "QUEUED"
  over(); messages(); release "T1" "NOT_HELD"; deliver() "T2"
end

-- ---- refusals ----

local other_capacity = "FAILED_PRECONDITION NO targets[0].capacity: another one is in use"

-- promise B18: a refusal removes expired leases, hands over and is NO; the next refusal reads no holders
function case.a_refusal_that_removed_leases_is_cheap_the_next_time()
  acquire("T1 a:P1/5", {lease_ms = OVER}) "ACQUIRED"; acquire "T2 a:P1/5" "ACQUIRED"
  over()
  eq(commands_of("hgetall", function() acquire "T3 a:P1/6" (other_capacity) end), above(0))
  eq(commands_of("hgetall", function() acquire "T4 a:P1/6" (other_capacity) end), 0)
  inspect "a" "PERMIT/5 T2=1"
end

-- promise B18
function case.a_refusal_that_finds_a_lease_over_hands_over()
  acquire("T1 a:P3/5", {lease_ms = OVER}) "ACQUIRED"; acquire "T2 a:P1/5" "ACQUIRED"; wait "S1 T3 a:P4/5" "QUEUED"
  over(); messages(); acquire "T4 a:P1/6" (other_capacity); deliver() "T3"; inspect "a" "PERMIT/5 T2=1 T3=4"
end

-- ---- foreign data under the names of others ----

local spoilt = {"SET w:b foreign", "SET s:b foreign", "SET n:b foreign", "SETRANGE n:b 0 x", "SETRANGE n:b 1 x",
  "SET h:b foreign", "HSET h:b foreign-token-of-16 foreign"}
local function spoil(command) redis((command:gsub(" (.:b)", " ls:{default/g}:lock:%1"))) end

-- A writer of a and b waits for the reader of b.
local function with_b_foreign(body)
  each(spoilt, function(command)
    acquire "T1 a" "ACQUIRED"; acquire "T3 b:S" "ACQUIRED"
    acquire "T8 b:S" "ACQUIRED"; wait "S2 T2 a b" "QUEUED"
    spoil(command); wait "S1 T4 a" "QUEUED"
    body()
  end)
end

-- promise L56: foreign data under names or in records of others blocks these names and causes no error after a write
function case.a_waiter_with_a_foreign_name_is_barred_and_bars()
  with_b_foreign(function()
    local before = harness.snapshot():match("[^\n]*:lock:n:b [^\n]*")
    release "T1" "RELEASED"; deliver() ""
    eq(promote "a", above(-2)); acquire "T5 a" "BUSY a..."; eq(harness.snapshot(), containing(before))
  end)
end

-- promise L56
-- When its server is gone, it bars nobody, whatever else it waits for.
function case.a_dead_waiter_with_a_foreign_name_is_passed_over()
  with_b_foreign(function()
    server_down "S2"; release "T1" "RELEASED"; deliver() "T4"
  end)
end

-- promise L56
-- The same when a lease ends by itself, and when a refused call finds it expired.
function case.no_look_at_the_names_of_others_is_an_error()
  each(spoilt, function(command)
    acquire("T1 a:P3/5", {lease_ms = OVER}) "ACQUIRED"; acquire "T6 a:P1/5" "ACQUIRED"
    acquire "T3 b:S" "ACQUIRED"; acquire "T8 b:S" "ACQUIRED"; wait "S2 T2 a:P4/5 b" "QUEUED"
    spoil(command); over(); acquire "T4 a:P1/6" (other_capacity); acquire "T5 a:P1/5" "BUSY a..."
    eq(promote "a", above(-2)); release "T6" "RELEASED"
  end)
end

-- promise L56
-- The look ends, although it should first look at the earlier waiter of the foreign name.
function case.a_look_past_an_earlier_waiter_of_a_foreign_name_ends()
  each(spoilt, function(command)
    acquire "T1 a" "ACQUIRED"; acquire("T3 b:S", {lease_ms = OVER}) "ACQUIRED"; acquire("T8 b:S", {lease_ms = OVER}) "ACQUIRED"
    wait "S1 T6 b" "QUEUED"; wait "S2 T2 a b" "QUEUED"
    spoil(command); over(); release "T1" "RELEASED"; eq(promote "a", above(-2))
  end)
end

-- Even if they block no call.
function case.all_names_of_a_call_are_read_before_one_is_written()
  acquire("T1 a:S", {lease_ms = OVER}) "ACQUIRED"; acquire("T2 b:S", {lease_ms = OVER}) "ACQUIRED"
  acquire "T3 c" "ACQUIRED"; wait "S1 T4 a:S c" "QUEUED"; wait "S1 T5 b:S c" "QUEUED"
  spoil "SET h:b foreign"; over(); remember(); acquire "T6 a:S b:S" (foreign)
  wait "S1 T7 a:S b:S" (foreign); unchanged()
end

-- A second holder makes a hash of the only holder.
function case.type_of_the_holders_key_is_checked_before_a_write()
  acquire "T1 a:S b:S" "ACQUIRED"
  spoil "SET h:b foreign"; remember(); acquire "T2 a:S b:S" (foreign); unchanged()
end

-- promise L56
function case.a_foreign_record_of_the_holder_is_nobodys_error()
  acquire "T1 a" "ACQUIRED"
  redis("SET", key "t:T1", "foreign"); acquire "T2 a" "BUSY a held by "
end

-- ---- each key foreign, each method ----

-- a: T1 and T2 hold it, T4 and T6 wait. b: T1 holds it, T5 and T6 wait. c: T3 was offered it. d: T7 holds it. e: free.
local function all_kinds_of_keys()
  acquire "T1 a:S b"; acquire "T2 a:S"; wait "S1 T4 a"; wait "S1 T5 b"
  wait "S2 T6 a b:P1/3 c:S"; acquire "T8 c"; wait "S2 T3 c:P1/3"; release "T8"
  acquire "T7 d"; acquire "T9 e"; release "T9"
end

local function later() pass(LEASE / 1000 + 1); remember() end
local tries = {
  force_a = function() force_release "a" end,
  force_b = function() force_release "b" end,
  force_c = function() force_release "c" end,
  release_t1 = function() release_at "S1 T1" end,
  release_t1_of_b = function() release_at "S2 T1 b" end,
  release_t2 = function() release "T2 a" end,
  release_t6 = function() release "T6" end,
  renew_t1 = function() renew "T1" end,
  take_d = function() later() acquire "T10 d:P1/3 e:S" end,
  take_all = function() later() acquire "T10 a b c d e" end,
  wait_for_all = function() wait "S1 T11 a b:S c d e:P1/2" end,
  wait_again = function() wait "S1 T6 a b:P1/3 c:S" end,
  claim_c = function() acquire "T3 c:P1/3" end,
  inspect = function() inspect "a" end,
}

-- promise L25
function case.no_call_acts_and_is_refused_for_foreign_data()
  local wrong = {}
  all_kinds_of_keys()
  local keys = keys_like "ls:{default/g}:*"
  eq(#keys, above(15))
  for name, try in pairs(tries) do
    for _, foreign_key in ipairs(keys) do
      for _, command in ipairs{"SET ? foreign", "ZADD ? 1 foreign"} do
        harness.reset(); setup(); all_kinds_of_keys(); redis("DEL", foreign_key)
        redis((command:gsub("?", foreign_key))); remember(); try()
        if last_error.code ~= "OK" and last_error.message:find("foreign", 1, true) then unchanged() end
        if last_error.code ~= "OK" and last_error.applied ~= "NO" and last_error.applied ~= "" then
          wrong[#wrong + 1] = table.concat({name, command, foreign_key, line_of(nil, last_error)}, " ")
        end
      end
    end
  end
  eq(table.concat(wrong, "\n"), "")
end
