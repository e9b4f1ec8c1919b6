-- Inspect, List, ForceRelease.
require "lock"

-- promise L23: Inspect: mode, capacity, holders, last_fence
function case.inspect_shows_each_holder()
  inspect "a" "FREE" {last_fence = 0, capacity = 0, group = "g", name = "a"}
  local first = fence_of(acquire "T1 a:P2/5")
  pass(300)
  local second = fence_of(acquire "T2 a:P1/5")
  inspect "a" "PERMIT/5 T1=2 T2=1" {waiters = 0, last_fence = second, holders = {
    {fence = first, lease_ms = about(LEASE - 300000), held_ms = within(300000, 390000)},
    {fence = second, lease_ms = about(LEASE)}}}
  remember(); pass(700); inspect "a" "PERMIT/5 T2=1"
  pass(300); inspect "a" "FREE"; unchanged()
end

-- promise L25: ForceRelease: removes all holders and reports them; they hold nothing
function case.a_forced_release_removes_every_holder()
  acquire "T1 a:S b"; acquire("T2 a:S", {lease_ms = 10}); acquire "T3 a:S"; pass(500)
  force_release "a" "T1 T3"; inspect "a" "FREE"
  inspect "b" "EXCLUSIVE T1"; force_release "a" ""; force_release "never" ""
end

-- promise L23
function case.a_clock_that_stepped_back_gives_no_negative_times()
  acquire "T1 a" "ACQUIRED"
  pass(-3600); inspect "a" "EXCLUSIVE T1" {holders = {{held_ms = 0, lease_ms = about(LEASE + 3600000)}}}
  acquire "T2 a" "BUSY a held by T1"
end

-- promise L25
-- The lock becomes free before a holder's record is read.
function case.forced_release_reports_a_holder_with_a_foreign_record()
  acquire "T1 a:S"; acquire "T2 a:S"; redis("DEL", key "t:T1"); redis("ZADD", key "t:T1", "1", "foreign")
  inspect "a" "SHARED  T2"; force_release "a" " T2"; inspect "a" "FREE"
  acquire "T3 a"; redis("SET", key "t:T3", "foreign"); force_release "a" ""; inspect "a" "FREE"
end

-- ---- List ----

-- Gives each page to `see` and its number; between(pages) runs before the next.
local function pages_of(prefix, size, see, between)
  local token, pages = "", 0
  repeat
    local page = Lock.List{prefix = prefix, page_size = size, page_token = token} {locks = any}
    pages, token = pages + 1, page.next_page_token
    see(page)
    if between and token ~= "" then between(pages) end
    eq(pages, within(1, 10000))
  until token == ""
  return pages
end

-- "group/name:MODE:holders" of all, each once and in the order of their names; the most on a page; the pages.
local function list_all(prefix, size, between)
  local seen, found, most = {}, {}, 0
  local pages = pages_of(prefix, size, function(page)
    most = math.max(most, #page.locks)
    for _, lock in ipairs(page.locks) do
      local text = ("%s/%s:%s:%d"):format(lock.group, lock.name, lock.mode, lock.holders)
      if not seen[text] then found[#found + 1] = text end
      seen[text] = true
      eq(lock.lease_ms, above(0))
    end
  end, between)
  table.sort(found)
  return table.concat(found, " "), #found, most, pages
end

local function listed(prefix, size) return (list_all(prefix, size)) end
local function count(prefix) return select(2, list_all(prefix, 10)) end

local function take_many(n)
  for i = 0, n - 1 do acquire("T" .. i .. " n" .. i) "ACQUIRED" end
end

-- promise L24: List: all that is held, by pages and prefix; no other namespace; bounded
function case.list_shows_held_locks()
  acquire "T1 a"; acquire "T2 b:S"; acquire("T3 b:S", {lease_ms = 3000000}); acquire "T4 c:P2/5"
  acquire "T5 gone"; acquire("T6 over", {lease_ms = 10}); release "T5"; pass(500)
  listed("", 0) "g/a:EXCLUSIVE:1 g/b:SHARED:2 g/c:PERMIT:1"
  for _, lock in ipairs(Lock.List{} {next_page_token = "", locks = {{}, {}, {}}}.locks) do
    eq(lock.lease_ms, about(lock.name == "b" and 2500000 or LEASE - 500000))
  end
  pass(500); listed("", 0) "g/b:SHARED:1"
end

-- promise L24
-- promise L29
function case.list_keeps_to_its_prefix_and_namespace()
  acquire "T1 job/1 job/2 jo job% other"; harness.namespace "other"; acquire "T1 job/other"
  harness.namespace "default"
  for prefix, n in pairs{[""] = 5, jo = 4, ["job/"] = 2, ["job%"] = 1, ["*"] = 0, ["jo?"] = 0, ["[j]o"] = 0, x = 0} do
    eq(count(prefix), n)
  end
  listed("job%", 10) "g/job%:EXCLUSIVE:1"
  harness.namespace "defaul*"; eq(count "", 0)
  harness.namespace "other"; listed("", 10) "g/job/other:EXCLUSIVE:1"
end

-- promise L24
function case.list_finds_all_by_pages_of_any_size()
  take_many(200)
  for _, size in ipairs{1, 2, 3, 7, 10, 50, 199, 200, 1000} do
    local _, n, most = list_all("n", size)
    eq(n, 200); eq(most, within(1, size))
  end
end

-- promise L24
-- Keys of others come and go, so that Redis' table grows and shrinks meanwhile.
function case.list_misses_nothing_that_stays_while_much_changes()
  take_many(50)
  for size = 1, 7, 3 do
    local _, n = list_all("n", size, function(pages)
      redis("EVAL", "for i = 1, 400 do redis.call(" .. (pages % 8 < 4 and "'SET', KEYS[1] .. i, ''" or "'DEL', KEYS[1] .. i")
        .. ") end", "1", "ls:{default/g}:x" .. pages % 4 .. ".")
    end)
    eq(n, 50)
  end
end

-- promise L24
-- promise B3: a page of List or ListItems ends after a bounded amount of work, whatever its page token contains
function case.a_page_does_a_bounded_amount_of_work()
  acquire "T1 a"; redis("EVAL", "for i = 1, 20000 do redis.call('HSET', KEYS[1] .. i, 'f', '1') end", "1", "ls:{default/g}:x")
  eq(commands_of("scan", function()
    Lock.List{page_size = 1000} {next_page_token = function(token) if token == "" then return "a token" end end}
  end), within(1, 50))
  listed("", 1000) "g/a:EXCLUSIVE:1"
end

-- promise B3
-- Holders count as well: a page may end within a step, and every lock is on some page.
function case.a_page_reads_few_large_locks()
  local n, holders = 20, 600
  for i = 0, n * holders - 1 do
    acquire("T" .. i .. " n" .. i % n .. ":S") "ACQUIRED"
    if i % 100 == 0 then harness.forget() end
  end
  redis("EVAL", "for i = 0, ARGV[1] do redis.call('DEL', KEYS[1] .. i .. string.rep('.', 15 - #tostring(i))) end", "1",
    "ls:{default/g}:lock:t:T", tostring(n * holders - 1))
  for size = 1, 1000, 333 do
    local seen, before = {}, harness.commands "hgetall"
    pages_of("n", size, function(page)
      local now = harness.commands "hgetall"
      eq(now - before, within(0, 1))
      before = now
      for _, lock in ipairs(page.locks) do seen[lock.name] = true end
    end)
    for i = 0, n - 1 do eq(seen["n" .. i], true) end
  end
end

function case.foreign_data_does_not_stop_a_listing()
  acquire "T1 a"; redis("SET", key "n:x", "foreign"); redis("HSET", key "n:y", "some", "thing")
  listed("", 0) "g/a:EXCLUSIVE:1"
end
