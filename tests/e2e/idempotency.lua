-- IdempotencyService on two servers and one Redis: double clicks, lost replies, attempts that wake late, many who wait,
-- servers that die, and a ticket that many want.
require "idempotency"

local LEASE_MS, WAIT_MS = 600000, 180000

function setup()
  two_servers()
  call_options = {timeout_ms = 240000}
end

local function begin_request(k, token, more)
  return with({scope = "s", key = k, attempt_token = token and token_of(token), lease_ms = LEASE_MS}, more)
end
-- The number of Begins that have begun to wait: each is one SCARD.
local function until_waiting(n) until_(function() return ran "scard" >= n end) end

-- promise I32: a double click from two processes runs once
-- Both clicks are sent before either is answered, each to its own server.
function case.a_double_click_runs_once()
  for i = 1, count(10, 200) do
    local clicks, answers, runs = {}, {}, 0
    for c = 1, 2 do use(c); clicks[c] = start(Idempotency.Begin, begin_request("k" .. i, "T" .. c, {wait_ms = WAIT_MS})) end
    for _ = 1, 2 do
      local c = until_(function() return clicks[1] and clicks[1].done() and 1 or clicks[2] and clicks[2].done() and 2 end)
      local got = clicks[c]()
      clicks[c] = nil
      if got.outcome == "EXECUTE" then
        runs = runs + 1
        use(c); complete("k" .. i .. " 200 receipt-" .. c) "STORED"
        answers[#answers + 1] = "receipt-" .. c
      else
        answers[#answers + 1] = got.result.body
      end
    end
    eq(runs, 1)
    eq(answers[1], answers[2])
  end
end

-- promise I33: a lost EXECUTE is found again, over connections and servers that die
function case.repeat_of_a_lost_execute_gets_the_same_attempt()
  local proxy = world.proxy(servers[1]:port(), "CUT_FIRST_REPLY")
  use(open(proxy:url()))
  begin "k T1" "EXECUTE 1" -- the client sends it again
  eq(proxy:hits(), 1)
  local first = fence()
  use(2); begin "k T1" "EXECUTE 1"
  eq(fence(), first)
  begin "k T2" "IN_PROGRESS 1" -- without its token it would wait until the lease ends
  use(1); complete "k 200 x" "STORED"
end

-- promise I33
function case.an_execute_outlives_its_server()
  use(either()); begin "k T1" "EXECUTE 1"
  local first = fence()
  servers[1]:kill()
  begin "k T1" "EXECUTE 1"
  eq(fence(), first)
  complete "k 200 x" "STORED"
end

-- promise I34: a frozen attempt that continues late overwrites nothing
function case.an_attempt_that_wakes_late_overwrites_nothing()
  use(1); begin("k T1", {lease_ms = 300}) "EXECUTE 1"
  local late = fence()
  use(2); begin("k T2", {wait_ms = WAIT_MS}) "EXECUTE 2" -- when the lease of the first is over
  local next_one = fence()
  use(1); complete("k 200 first", {fence = late}) "SUPERSEDED"
  use(2); complete("k 200 second", {fence = next_one}) "STORED"
  use(1); begin "k T3" "REPLAY 2 200 second"
end

-- promise I35: answered results survive the kill of the store and of the server
function case.stored_results_survive_a_kill_of_the_store()
  local own = server()
  begin "stored T1" "EXECUTE 1"
  complete "stored 200 paid" "STORED"
  begin "running T1" "EXECUTE 1"
  local first = fence()
  world.kill(own:redis_pid(), "KILL")
  own:kill()
  own:restart()
  begin "stored T2" "REPLAY 1 200 paid"
  begin "running T2" "IN_PROGRESS 1"
  begin "running T1" "EXECUTE 1"
  eq(fence(), first)
end

local function wait_all(n)
  local calls, channels = {}, {either()}
  for i = 1, n do
    use(channels[1 + i % 2])
    calls[i] = start(Idempotency.Begin, begin_request("k", nil, {wait_ms = WAIT_MS}))
  end
  return calls
end

-- promise I36
function case.five_hundred_get_the_same_bytes()
  local body = {}
  for i = 0, 2999 do body[i + 1] = string.char((i * 2654435761 >> 11) & 255) end
  body = table.concat(body)
  begin "k T1" "EXECUTE 1"
  local first = fence()
  local calls = wait_all(500)
  until_waiting(500)
  local told = ran "publish"
  Idempotency.Complete{scope = "s", key = "k", fence = first, code = 201, body = body,
    headers = {{key = "Set-Cookie", value = "b=2"}, {key = "Set-Cookie", value = "a=1"}}} "STORED"
  for _, call in ipairs(calls) do
    call {outcome = "REPLAY", result = {code = 201, body = body, headers = {{value = "b=2"}, {value = "a=1"}}}}
  end
  eq(ran "publish" - told, 2) -- one message a server
end

-- promise I36: 500 waiters over two servers get the same bytes; those of a dead server wait at another
function case.the_waiters_of_a_dead_server_wait_at_another()
  begin "k T1" "EXECUTE 1"
  local first, calls = fence(), wait_all(500)
  until_waiting(500)
  servers[2]:kill()
  until_waiting(750)
  use(1); complete("k 200 x", {fence = first}) "STORED"
  for _, call in ipairs(calls) do call "REPLAY 1 200 x" end
end

function case.one_of_many_consumers_wins()
  local ticket, calls, consumed, replays = issue(600000), {}, {}, 0
  for i = 1, 100 do -- each sends twice
    use(1 + i % 2)
    calls[i] = start(Idempotency.ConsumeTicket, {scope = "s", subject = "me", ticket = ticket,
      consumer_id = token_of("C" .. (i + 1) // 2)})
  end
  for i, call in ipairs(calls) do
    local got = call()
    if got.outcome == "CONSUMED" then
      consumed[#consumed + 1] = (i + 1) // 2
      replays = replays + (got.replayed and 1 or 0)
    else
      says(got.outcome, "ALREADY_CONSUMED")
    end
  end
  eq(#consumed, 2)
  eq(consumed[1], consumed[2])
  eq(replays, 1)
end
