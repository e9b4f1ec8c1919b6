-- StockService. All is in the group "g" unless {group = ...} says otherwise; "-" is no buyer.
--
--   put "a 10"                              PutItem, which must not fail
--   stock "a" "8 2 0"                       GetItem: available, reserved, sold
--   deduct "o1 bob a:2 b:1" "DEDUCTED a:8 b:4"             the lines of the answer, with what is available
--   reserve "o1 bob 60000 a:2" "RESERVED a:8"              for 60,000 ms
--   confirm "o1" "CONFIRMED CONFIRMED bob a:2:0"           and its order: state, buyer, sku:quantity:returned
--   reacquire "o1"   extend "o1 60000"   cancel "o1 why"   take_back "r1 o1 a:1"
--   order "o1" "RESERVED bob a:2:0"
--   adjust "a 5 id" "15 0 0"   delete "a"
--   ledger() "PUT a 10, DEDUCTED a 2 o1"                   kind, sku, quantity, order

function item_text(item) return not item and "none" or ("%d %d %d"):format(item.available, item.reserved, item.sold) end

function order_text(o)
  if not o then return "none" end
  local text = o.state .. " " .. o.buyer_id
  for _, line in ipairs(o.lines) do text = ("%s %s:%d:%d"):format(text, line.sku, line.quantity, line.returned) end
  return text
end

function entries_text(entries)
  local list = {}
  for i, e in ipairs(entries) do
    list[i] = ("%s %s %d%s"):format(e.kind, e.sku, e.quantity, e.order_id ~= "" and " " .. e.order_id or "")
  end
  return table.concat(list, ", ")
end

local function with_lines(r)
  local text = line_of(r)
  for _, line in ipairs(r.lines) do text = text .. " " .. line.sku .. ":" .. line.available end
  return text
end
local function with_order(r) return line_of(r) .. " " .. order_text(r.order) end
lines["Stock.Deduct"], lines["Stock.Reserve"] = with_lines, with_lines
lines["Stock.Confirm"], lines["Stock.Cancel"], lines["Stock.Return"] = with_order, with_order, with_order
lines["Stock.GetOrder"] = function(r) return order_text(r.order) end
lines["Stock.GetItem"] = function(r) return item_text(r.item) end
lines["Stock.PutItem"] = lines["Stock.GetItem"]
lines["Stock.Adjust"] = function(r) return item_text(r.item) .. (r.replayed and " again" or "") end
lines["Stock.ReadLedger"] = function(r) return r.outcome == "OK" and entries_text(r.entries) or r.outcome end

local function number(text) return math.tointeger(tonumber(text)) end
local function buyer_of(text) return text ~= "-" and text or "" end
function lines_of(...)
  local list = {}
  for i, text in ipairs{...} do
    local sku, quantity = text:match("^(.*):(%-?%d+)$")
    list[i] = {sku = sku, quantity = number(quantity)}
  end
  return list
end

function put_request(sku, on_hand, more) return with({group = "g", sku = sku, on_hand = on_hand}, more) end
put = word(function(more, sku, on_hand)
  local done = Stock.PutItem(put_request(sku, number(on_hand), more))
  return done.response and done or error(tostring(done))
end)
stock = word(function(more, sku) return Stock.GetItem(with({group = "g", sku = sku}, more)) end)
function version(sku) return stock(sku).item.version end

function deduct_request(order, buyer, ...)
  return {group = "g", order_id = order, buyer_id = buyer_of(buyer), lines = lines_of(...)}
end
function reserve_request(order, buyer, hold_ms, ...)
  return with(deduct_request(order, buyer, ...), {hold_ms = number(hold_ms)})
end
deduct = word(function(more, ...) return Stock.Deduct(with(deduct_request(...), more)) end)
reserve = word(function(more, ...) return Stock.Reserve(with(reserve_request(...), more)) end)
confirm = word(function(more, id) return Stock.Confirm(with({group = "g", order_id = id}, more)) end)
function reacquire(id) return confirm(id, {reacquire_if_expired = true}) end
extend = word(function(more, id, hold_ms)
  return Stock.ExtendHold(with({group = "g", order_id = id, hold_ms = number(hold_ms)}, more))
end)
cancel = word(function(more, id, ...)
  return Stock.Cancel(with({group = "g", order_id = id, reason = table.concat({...}, " ")}, more))
end)
take_back = word(function(more, id, order_id, ...)
  return Stock.Return(with({group = "g", return_id = id, order_id = order_id, lines = lines_of(...)}, more))
end)
order = word(function(more, id) return Stock.GetOrder(with({group = "g", order_id = id}, more)) end)
adjust = word(function(more, sku, delta, id)
  return Stock.Adjust(with({group = "g", sku = sku, delta = number(delta), adjustment_id = id}, more))
end)
delete = word(function(more, sku) return Stock.DeleteItem(with({group = "g", sku = sku}, more)) end)
function read(after, more) return Stock.ReadLedger(with({group = "g", after = after}, more)) end
-- The change of available, reserved and sold by a unit of an entry.
BY_KIND = {PUT = {1, 0, 0}, ADJUSTED = {1, 0, 0}, TRANSFERRED = {1, 0, 0}, DEDUCTED = {-1, 0, 1},
  RESERVED = {-1, 1, 0}, CONFIRMED = {0, -1, 1}, CANCELLED = {1, -1, 0}, EXPIRED = {1, -1, 0}, RETURNED = {1, 0, -1}}
function ledger(more) return read("", more) end
function trim(up_to, more) return Stock.TrimLedger(with({group = "g", up_to = up_to}, more)) end

-- The ms after which the last call asks for stock_expire as a lasting alarm; -1: it does not.
function alarm_ms()
  for _, a in ipairs(harness.alarms()) do
    if a.lasting and a["function"] == "stock_expire" then return a.in_ms end
  end
  return -1
end
-- Runs stock_expire of the group as a server's lasting alarm would; the ms it replies.
function ring(group) return harness.ring("stock_expire", "ls:{default/" .. (group or "g") .. "}:") end
-- One step of the sweep from a cursor: OK, the next cursor ("": the end), and the overdue groups and moves, one a line.
function overdue(cursor) return fcall("stock_find_overdue", "ls:{sweep}:", "1", cursor or "0") end

function key(text) return "ls:{default/g}:stock:" .. text end
function ttl(text) return redis_number("PTTL", key(text)) end
DAY = 86400000
function keeps(text, ms) eq(ttl(text), within(ms - 60000, ms)) end

-- Changes a number of an item in the store, as no function would. Places as in server/functions/stock_base.lua.
AVAILABLE, RESERVED = 1, 9
function change_item(sku, place, value)
  redis("EVAL", "local item = {struct.unpack('<Bdddddddddd', redis.call('GET', KEYS[1]))}\n"
    .. "item[1 + ARGV[1]] = ARGV[2]\n"
    .. "redis.call('SET', KEYS[1], struct.pack('<Bdddddddddd', unpack(item, 1, 11)))",
    "1", key("i:" .. sku), tostring(place), tostring(value))
end

function window(sku, opens_in_ms, closes_in_ms, on_hand)
  return put(sku .. " " .. (on_hand or 10), {opens_in_ms = opens_in_ms, closes_in_ms = closes_in_ms})
end
function ms(n) pass(n / 1000) end
function skus(n) return repeated(n, function(i) return "s" .. i - 1 end) end
function ones(n) return table.concat(skus(n), ":1 ") .. ":1" end
MOST = 9007199254740991 -- 2^53 - 1

-- ---- groups in buckets ----

N = 4 -- buckets of a group
function put_in(text, buckets, more) return Stock.PutItem(put_request(split(text)[1], number(split(text)[2]),
  with({buckets = buckets or N}, more))) end

-- Another order of that bucket with each call.
local orders = 0
function order_in(bucket)
  while true do
    local id, hash = "o" .. orders, -3750763034362895579 -- FNV-1a, as base/hash.h
    orders = orders + 1
    for i = 1, #id do hash = (hash ~ id:byte(i)) * 1099511628211 end
    if 1 + ((hash ~ (hash >> 32)) & (N - 1)) == bucket then return id end
  end
end

-- The units of a bucket, or of the pool (0): available, reserved, and sold or lent.
function bucket_key(bucket, text) return ("ls:{default/g/%d/%d}:stock:%s"):format(N, harness.bucket_name(bucket), text) end
function in_bucket(sku, bucket)
  return redis("EVAL", "local text = redis.call('GET', KEYS[1])\n"
    .. "if not text then return 'none' end\n"
    .. "local i = {struct.unpack('<Bdddddddddd', text)}\n"
    .. "return string.format('%d %d %d', i[2], i[10], i[3])", "1", bucket_key(bucket, "i:" .. sku))
end

-- While f runs, the part of the library with that text fails, as when a server dies before the call.
function losing(text, f)
  harness.alter(text, "fail('INTERNAL', 'lost') " .. text)
  f()
  harness.alter(text, text)
end
