-- Modes: which holders exclude each other, semaphores, and many holders of one name with some expired leases.
-- promise L10
-- promise L23
require "lock"

-- promise L11
function case.each_mode_beside_each_other()
  each({
    {"a", "a", "BUSY a held by T1"},           {"a", "a b", "BUSY a held by T1"},
    {"a", "a:S", "BUSY a held by T1"},         {"a", "a:P1/9", "BUSY a held by T1"},
    {"a:S", "a", "BUSY a held by T1"},         {"a:S", "a:S", "ACQUIRED"},
    {"a:S", "a:P1/9", "BUSY a held by T1"},    {"a:P1/9", "a", "BUSY a held by T1"},
    {"a:P1/9", "a:S", "BUSY a held by T1"},    {"a:P1/9", "a:P1/9", "ACQUIRED"},
    {"a:P9/9", "a:P1/9", "BUSY a held by T1"}, {"a:P1/9", "a:P9/9", "BUSY a held by T1"},
    {"a:P8/9", "a:P1/9", "ACQUIRED"},
  }, function(row)
    local first, second, said = table.unpack(row)
    acquire("T1 " .. first) "ACQUIRED"
    remember(); acquire("T2 " .. second)(said)
    if said ~= "ACQUIRED" then unchanged() end
  end)
end

-- promise L12
function case.permits_are_counted()
  acquire "T1 a:P2/5" "ACQUIRED"; acquire "T2 a:P3/5" "ACQUIRED"
  acquire "T3 a:P1/5" "BUSY a held by T..."; inspect "a" "PERMIT/5 T1=2 T2=3"; release "T1" "RELEASED"
  acquire "T4 a:P0/5" "ACQUIRED" -- none asked for is one
  inspect "a" "PERMIT/5 T2=3 T4=1"; acquire "T5 a:P2/5" "BUSY a held by T..."; acquire "T6 a:P1/5" "ACQUIRED"
  for _, token in ipairs{"T2", "T4", "T6"} do release(token) "RELEASED" end
  acquire "T7 a" "ACQUIRED"
end

-- promise L12
function case.the_largest_semaphore_counts_exactly()
  acquire "T1 a:P9007199254740990/9007199254740991" "ACQUIRED"
  acquire "T2 a:P2/9007199254740991" "BUSY a held by T1"; acquire "T3 a:P1/9007199254740991" "ACQUIRED"
  acquire "T4 a:P1/9007199254740991" "BUSY a held by T..."
  inspect "a" "PERMIT/9007199254740991 T1=9007199254740990 T3=1"
end

-- promise L13
function case.a_capacity_is_fixed_while_anyone_holds()
  acquire "T1 a:P1/5"; remember()
  acquire "T2 a:P1/6" "FAILED_PRECONDITION NO targets[0].capacity: another one is in use"
  acquire "T2 b a:P1/4" "FAILED_PRECONDITION NO targets[1].capacity: another one is in use"; unchanged()
  release "T1"; acquire "T2 a:P1/6" "ACQUIRED"
  pass(1000); acquire "T3 a:P7/7" "ACQUIRED"
end

function case.readers_share_and_a_writer_comes_after_the_last()
  acquire("T1 a:S", {lease_ms = 1000000}); acquire("T2 a:S", {lease_ms = 2000000})
  acquire "W1 a" "BUSY a held by T..."
  pass(1500)
  acquire "W1 a" "BUSY a held by T2" {holder = {lease_ms = about(500000)}} -- not T1, whose lease is over
  inspect "a" "SHARED T2"; acquire "T3 a:S" "ACQUIRED"
  pass(500); acquire "W2 a" "BUSY a held by T3"; release "T3" "RELEASED"
  acquire "W2 a" "ACQUIRED"; inspect "a" "EXCLUSIVE W2"
end

function case.holders_are_read_once_after_a_lease_has_ended()
  acquire("T1 a:S", {lease_ms = 1000000}); acquire("T2 a:S", {lease_ms = 3000000}); pass(1500)
  eq(commands_of("hgetall", function()
    for _ = 1, 5 do acquire "W1 a" "BUSY a held by T2" end
  end), 1)
  eq(redis("HLEN", key "h:a"), "1") -- T2
end

-- promise L14: 4,096 holders of a name
-- promise B2: a hand-over does not read the thousands of holders of a name, and views describe them in parts; a full
--   name is detected without reading them
function case.a_name_has_a_bounded_number_of_holders()
  local most = 4096
  for i = 0, most - 1 do
    acquire("T" .. i .. " a:S", {lease_ms = i < 10 and LEASE or 3 * LEASE}) "ACQUIRED"
    if i % 100 == 0 then harness.forget() end
  end
  -- When no lease has expired, that is known without reading them.
  eq(commands_of("hgetall", function()
    acquire "T4096 a:S" "RESOURCE_EXHAUSTED NO targets[0]: has 4096 holders"
  end), 0)
  pass(1000); acquire "T4096 a:S" "ACQUIRED"
  -- They are described in parts: 4,087 are 16 times 256 or less.
  local seen
  eq(commands_of("fcall", function() seen = inspect "a" end), 2 + 16)
  eq(#seen.holders, most - 9)
  for i = 2, #seen.holders do eq(seen.holders[i].fence, above(seen.holders[i - 1].fence)) end
  eq(seen.holders[1].owner, "T10")
  eq(commands_of("fcall", function() force_release "a" end), 1 + 16)
  inspect "a" "FREE"
end
