-- Readers of the ledger that wait, on two servers and one Redis: a sale through the other server answers them, and
-- nothing else does.
require "stock"

local WAIT = 600000

function setup() two_servers() end

local function wait_for_entry(after, wait_ms) return start(Stock.ReadLedger, {group = "g", after = after, wait_ms = wait_ms or WAIT}) end
local function last_id() local all = ledger().entries; return all[#all].id end
-- The number of readers parked so far, on any server.
local function until_parked(n) until_(function() return ran "sadd" >= n end) end
local function servers_with_readers() return redis("SCARD", key "r") end

-- promise SL1
function case.a_sale_elsewhere_answers_the_reader()
  local reader = wait_for_entry "" -- the group is not there yet
  until_parked(1)
  use(2); put "a 10"
  reader "PUT a 10"
  use(1); reader = wait_for_entry(last_id())
  until_parked(2)
  use(2); deduct "o1 - a:1" "DEDUCTED a:9"
  reader "DEDUCTED a 1 o1"
  eq(servers_with_readers(), 0)
end

-- promise SL5
function case.nothing_to_read_is_an_answer_too()
  put "a 10"
  wait_for_entry(last_id(), 50)() ""
end

-- promise SL13 Time itself is under test: a reader that polls would do so within a second. Each second a server
-- sends eleven commands, however many callers wait: three ask for the mark of the store, three probe it, five are
-- its note.
function case.waiting_readers_do_not_poll_the_store()
  local readers, commands = {}, function() return tonumber(redis("INFO", "stats"):match "total_commands_processed:(%d+)") end
  put "a 10"
  local last = last_id()
  for i = 1, 200 do use(1 + i % 2); readers[i] = wait_for_entry(last) end
  until_parked(200)
  eq(servers_with_readers(), 2)
  local before, begun = commands(), world.now_ms()
  until_(function() return world.now_ms() >= begun + 1000 end)
  eq(commands() - before, within(1, 1 + 11 * 2 * (1 + (world.now_ms() - begun) // 1000)))
  local told = ran "publish"
  deduct "o1 - a:1" "DEDUCTED a:9"
  for _, reader in ipairs(readers) do reader "DEDUCTED a 1 o1" end
  eq(ran "publish" - told, 2)
end

-- promise SL13
function case.readers_outlive_their_server()
  put "a 10"
  use(either())
  local reader = wait_for_entry(last_id())
  until_parked(1)
  servers[1]:kill()
  until_parked(2)
  use(2); deduct "o1 - a:1" "DEDUCTED a:9"
  reader "DEDUCTED a 1 o1"
  eq(servers_with_readers(), 0)
end

-- The client asks again for as long as the reader wanted to wait.
function case.stopping_server_releases_its_readers()
  local reader = wait_for_entry ""
  until_parked(1)
  servers[1]:stop()
  servers[1]:restart()
  use(2); put "a 10"
  reader "PUT a 10"
end

-- promise SL13: a reader keeps waiting when its server dies or misses a message; nobody polls
-- Redis forgets who reads and who listens: the server looks again by itself.
function case.missed_message_is_recovered()
  put "a 10"
  local reader = wait_for_entry(last_id())
  until_parked(1)
  redis("DEL", key "r")
  redis "CLIENT KILL TYPE pubsub"
  until_parked(2)
  use(2); deduct "o1 - a:1" "DEDUCTED a:9"
  reader "DEDUCTED a 1 o1"
end
