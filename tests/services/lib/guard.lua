-- GuardService, all in the group "g" and the scope "s". "T1" is a token and the owner of what it holds. A request is
-- its token and words; limits are token buckets of 10,000 s.
--
--   enter "T1 once=k limit=bob/2 order=o1/a:2 hold=60000 lock=a,b:S" "ENTERED 1 a:8"
--         also "LIMITED", "REPLAY 1 200 body", "IN_PROGRESS 1", "BUSY a held by T1", "OUT_OF_STOCK SOLD_OUT a:1"
--   renew "T1 once=k lock=a" "RENEWED"
--   complete "T1 once=k lock=a body" "LEFT RELEASED"     and " again", " CONFIRMED": the outcomes of locks and hold
--   retry "T1 once=k lock=a why"   finally "T1 once=k why"
--   wait "S1 T2 once=k" "WAITS"                           an Enter at S1 that may wait
--   deliver() "S1 T2 ENTERED 1"                           wakes the calls of all messages, until there are none

require "lock"
require "stock"
require "servers"

function setup() servers_reset() end

-- ---- requests ----

local function bucket(k, limit)
  return {key = k, limit = {algorithm = "TOKEN_BUCKET", limit = math.tointeger(limit), period_ms = 10000000}}
end

local function parts_of(words)
  local r, rest = {group = "g"}, {}
  for _, text in ipairs(words) do
    local name, value = text:match("^(%l+)=(.*)$")
    if name == "once" then
      r.once = {scope = "s", key = value}
    elseif name == "limit" then
      r.limits = r.limits or {rules = {}}
      table.insert(r.limits.rules, bucket(value:match("^(.*)/(%d+)$")))
    elseif name == "order" then
      local id, list = value:match("^([^/]*)/?(.*)$")
      r.stock = {order_id = id, lines = lines_of(table.unpack(split((list:gsub(",", " ")))))}
    elseif name == "hold" then
      r.stock.hold_ms = math.tointeger(value)
    elseif name == "lock" then
      r.locks = {targets = {}}
      for one in value:gmatch("[^,]+") do table.insert(r.locks.targets, target(one)) end
    else
      rest[#rest + 1] = text
    end
  end
  return r, table.concat(rest, " ")
end

function enter_request(token, ...)
  local r = parts_of{...}
  return with(r, {token = token_of(token), owner = token, lease_ms = LEASE})
end
local function of_token(token, ...)
  local r, rest = parts_of{...}
  r.token = token_of(token)
  return r, rest
end

local function available(r)
  local text = ""
  for _, line in ipairs(r.lines) do text = text .. " " .. line.sku .. ":" .. line.available end
  return text
end

-- Fields of other outcomes are not set.
lines["Guard.Enter"] = function(r)
  local text = r.outcome
  eq(r.result ~= nil, r.outcome == "REPLAY")
  eq(r.holder ~= nil, r.outcome == "BUSY" or r.outcome == "TIMED_OUT")
  eq(r.stock_outcome ~= "UNSPECIFIED", r.outcome == "OUT_OF_STOCK")
  eq(r.attempt_fence ~= 0, r.outcome == "ENTERED" and r.attempt > 0)
  if r.attempt > 0 then text = text .. " " .. r.attempt end
  if r.result then text = text .. " " .. r.result.code .. (r.result.body ~= "" and " " .. r.result.body or "") end
  if r.stock_outcome ~= "UNSPECIFIED" then text = text .. " " .. r.stock_outcome end
  if r.holder and r.holder.name ~= "" then text = text .. " " .. r.holder.name .. " held by " .. r.holder.owner end
  return text .. available(r) .. (r.replayed and " again" or "")
end
lines["Guard.Leave"] = function(r)
  return r.outcome .. (r.locks ~= "UNSPECIFIED" and " " .. r.locks or "")
    .. (r.stock ~= "UNSPECIFIED" and " " .. r.stock or "") .. (r.replayed and " again" or "")
end

enter = word(function(more, ...) return Guard.Enter(with(enter_request(...), more)) end)
renew_guard = word(function(more, ...) return Guard.Renew(with(with((of_token(...)), {lease_ms = LEASE}), more)) end)
local function leave(kind)
  return word(function(more, ...)
    local r, rest = of_token(...)
    local text = kind == "COMPLETE" and {code = 200, body = r.once and rest or ""} or {detail = rest}
    return Guard.Leave(with(with(with(r, {kind = kind}), text), more))
  end)
end
complete, retry, finally = leave "COMPLETE", leave "RETRYABLE", leave "FINAL"

record = word(function(_, k)
  local got = Idempotency.Get{scope = "s", key = k, group = "g"}
  if got.error.code == "NOT_FOUND" then got.text = "NONE" else got.text = got.record.state .. " " .. got.record.attempt end
  return got
end)
-- The remaining units of a limit.
remaining = word(function(_, k, limit)
  return RateLimit.Check{group = "g", peek = true, rules = {bucket(k, limit)}}.rules[1].remaining
end)

-- ---- waiting ----

local alarms
function on_parked(call) alarms = harness.alarms(call.number) end

-- Makes the calls of the last waiting call's alarms.
function ring()
  for _, a in ipairs(alarms) do harness.ring(a["function"], a.base, a.argument) end
end

wait = word(function(more, server, token, ...)
  return park(server, "", token, "Guard.Enter", with(with(enter_request(token, ...), {wait_ms = WAIT}), more))
end)

-- Messages for calls as "S1:T2"; alarms are left out.
local function read_messages()
  local list = {}
  for _, m in ipairs(harness.messages()) do
    local token = m[2]:match("^W .*:([^:.]+)%.+$")
    if token then list[#list + 1] = m[1] .. ":" .. token end
  end
  return list
end
function messages() return table.concat(read_messages(), " ") end
function deliver() return wake_all(read_messages, function(call) return call.token end) end
