-- Acquire: grants, refusals, and that a repeated token is granted once.
-- promise L10: an expired lease blocks nobody
require "lock"

-- promise L1: ACQUIRED: token, group, a fence a target in order, lease_ms
function case.a_free_lock_is_acquired()
  acquire "T1 a" "ACQUIRED" {lease_ms = LEASE, token = token_of "T1", group = "g", fences = {{name = "a", fence = above(0)}}}
  inspect "a" "EXCLUSIVE T1"
end

-- promise L2: BUSY: the holder's owner, name and rest of the lease; no change
function case.held_lock_is_busy_and_names_its_holder()
  acquire "T1 a"; pass(400)
  acquire "T2 a" "BUSY a held by T1" {holder = {lease_ms = about(LEASE - 400000)}, fences = {}, token = token_of "T2"}
  inspect "a" "EXCLUSIVE T1"
end

-- promise L4: the same token again gets the same grant
function case.the_same_token_again_is_the_same_grant()
  local first = acquire "T1 a b:S"
  remember(); pass(400)
  acquire "T1 a b:S" "ACQUIRED again" {fences = first.fences, lease_ms = about(LEASE - 400000)}; unchanged()
end

-- promise L9: no second grant before the lease ends; to the microsecond
function case.a_lease_ends_at_its_end_and_not_before()
  redis "SET ls:test:clock_still_us 1700000000000000"; acquire("T1 a", {lease_ms = 10})
  redis "INCRBY ls:test:clock_offset_us 9999"; acquire "T2 a" "BUSY a held by T1" {holder = {lease_ms = 0}}
  acquire "T1 a" "ACQUIRED again"
  redis "INCRBY ls:test:clock_offset_us 1"; acquire "T1 a" "TOKEN_SPENT"; acquire "T2 a" "ACQUIRED"
end

-- promise L28: an empty token is generated; an empty group is that of the one name
function case.an_empty_token_is_made_up_and_an_empty_group_is_the_name()
  local request = {targets = {{name = "lone name", mode = "SHARED"}}, lease_ms = LEASE}
  local one = Lock.Acquire(request) "ACQUIRED"
  local two = Lock.Acquire(request) "ACQUIRED" {group = "lone name"}
  eq(#one.token, 32)
  eq(two.token, function(token) if token == one.token then return "another token" end end)
  Lock.Release{names = {"lone name"}, token = two.token} "RELEASED"
end

-- promise L29: names cannot move a key or reach another namespace
function case.namespaces_do_not_see_each_other()
  acquire "T1 a"; harness.namespace "other"; inspect "a" "FREE"; acquire "T1 a" "ACQUIRED"; release "T1" "RELEASED"
  -- Names that would reach "default" if they were not encoded.
  for i, odd in ipairs{"default/g}:lock:n:a", "}", "a}:{", "../default"} do
    harness.namespace(odd); acquire("N" .. i .. " a") "ACQUIRED"; release("N" .. i) "RELEASED"
  end
  harness.namespace "default"; inspect "a" "EXCLUSIVE T1"
end

-- promise L29
function case.odd_names_are_names_like_others()
  local odd = {"a}b", "a:b", "a/b", "a%2Fb", "a%", "*", "[a]", "a b", "\u{597d}", "'\"\\"}
  for i, name in ipairs(odd) do
    Lock.Acquire{group = "g", token = i - 1 .. "}:/%*\u{597d}{}{}{}{}", owner = name, targets = {{name = name}},
      lease_ms = LEASE} "ACQUIRED"
  end
  for _, name in ipairs(odd) do
    Lock.Inspect{group = "g", name = name} {name = name, holders = {{owner = name}}}
  end
end

-- promise L21: each name and each holder has its own fence
-- promise L49: combined calls are as separate ones
function case.calls_sent_together_are_one_after_the_other()
  local function all(mode)
    harness.reset()
    return Lock.Acquire.together(repeated(3, function(i)
      return {targets = {{name = "a", mode = mode}}, token = token_of("T" .. i), lease_ms = LEASE}
    end))
  end
  local answers = all "EXCLUSIVE"
  eq(texts(answers), "ACQUIRED, BUSY a held by , BUSY a held by ")
  answers = all "SHARED"
  eq(texts(answers), "ACQUIRED, ACQUIRED, ACQUIRED")
  for i = 2, 3 do eq(fence_of(answers[i]), above(fence_of(answers[i - 1]))) end
end

-- promise L8: no second grant for a token, also if its record is lost
function case.token_is_granted_once_also_if_its_record_is_lost()
  acquire "T1 a:S"; redis("DEL", key "t:T1"); acquire "T1 a:S" "TOKEN_SPENT"; inspect "a" {holders = {{}}}
  -- Its record is gone and its lease has expired, but it is still in the name's hash.
  pass(1000); acquire "T1 a:S" "ACQUIRED"; inspect "a" "SHARED T1"
  release "T1" "RELEASED"; acquire "T2 a" "ACQUIRED"
  redis("DEL", key "t:T2"); acquire "T2 a" "TOKEN_SPENT"
end

-- promise L48: foreign data: FAILED_PRECONDITION, no change
function case.foreign_data_is_refused_and_left_alone()
  each({
    "SET ls:{default/g}:lock:n:a foreign", "HSET ls:{default/g}:lock:n:a f foreign",
    "SETRANGE ls:{default/g}:lock:n:a 18 x", "SET ls:{default/g}:lock:t:T1.............. foreign",
    "ZADD ls:{default/g}:lock:t:T1.............. 1 foreign",
    -- as long as ours, with another first byte
    "SET ls:{default/g}:lock:n:a xE-foreign-and-longer-than-all-that-is-kept-of-a-name-with-one-holder",
    "EVAL redis.call('SET',KEYS[1],'xH-foreign-and-longer'..string.char(32)..'a'..string.char(32)..'b') 1 "
      .. "ls:{default/g}:lock:t:T1..............",
  }, function(command)
    redis(command); remember(); acquire "T1 b a" (foreign); unchanged()
  end)
end

-- promise L26: tokens 10 minutes, fences 24 h, every key ends
function case.every_key_of_a_lock_ends()
  local short = {lease_ms = LEASE // 5}
  for _, text in ipairs{"T1 a b:S c:P1/3", "T2 d", "T3 e f", "T6 g:S", "T7 g:S", "T8 g:S i:S"} do acquire(text, short) end
  renew("T2", short); release "T1"; release "T3 e"; release "T4"
  pass(200); acquire "T5 b"
  eq(redis_number "DBSIZE", 8 + 1 + 8 + 1) -- names, holders of g, tokens, the clock
  eq(endless_keys(), "")
end
