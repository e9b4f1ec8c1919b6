-- Bad input: INVALID_ARGUMENT, the field's name first, nothing changed.
-- promise S27
-- promise S29
-- promise S30: bad input: INVALID_ARGUMENT, field named, no change
-- promise SL12: wait_ms: 0..86,400,000
require "stock"

local LONGEST, LONG, TEXT = long(128), long(129), long(257)
local CENTURY = 36500 * DAY

function setup() put "a 10" end -- which every good request would change

-- Rows of a field that may not have any of these values.
local function not_any(field, ...)
  local rows = {}
  for i, value in ipairs{...} do rows[i] = {field, [field] = value} end
  return rows
end
local function refuse(method, good, ...)
  for _, rows in ipairs{...} do refuses(method, good)(rows) end
end

function case.put_item_names_the_invalid_field()
  refuse(Stock.PutItem, put_request("a", 20), not_any("sku", "", LONG), not_any("group", LONG),
    not_any("on_hand", -1, MOST + 1, math.mininteger), not_any("per_buyer_limit", -1, math.maxinteger),
    not_any("opens_in_ms", -1, math.maxinteger), not_any("closes_in_ms", -1, math.maxinteger),
    not_any("order_retain_ms", 59999, -1, math.maxinteger), not_any("expected_version", -1, MOST + 1),
    {{"closes_in_ms", opens_in_ms = 1000, closes_in_ms = 1000}})
  -- The largest and smallest valid values.
  local ends = {group = LONGEST, sku = LONGEST, on_hand = MOST, per_buyer_limit = MOST, opens_in_ms = CENTURY - 1,
    closes_in_ms = CENTURY, order_retain_ms = 60000}
  Stock.PutItem(ends) {item = {available = MOST, per_buyer_limit = MOST, opens_in_ms = CENTURY - 1, closes_in_ms = CENTURY}}
  Stock.PutItem(with(ends, {order_retain_ms = CENTURY})) {item = any}
end

function case.get_item_names_the_invalid_field()
  refuse(Stock.GetItem, {sku = "a"}, not_any("sku", "", LONG), not_any("group", LONG))
end

function case.batch_get_items_names_the_invalid_field()
  refuses(Stock.BatchGetItems, {}) {
    {"skus"}, {"skus", skus = skus(65)}, {"group", skus = skus(64), group = LONG}, {"skus[2]", skus = {"a", "b", "a"}},
    {"skus[1]", skus = {"a", ""}}, {"skus[0]", skus = {LONG}},
  }
  Stock.BatchGetItems{skus = skus(64)} "OK"
end

function case.list_items_names_the_invalid_field()
  refuse(Stock.ListItems, {}, not_any("page_size", -1, 1001), not_any("prefix", LONG), not_any("group", LONG),
    not_any("page_token", "garbage"))
  refuse(Stock.ListItems, {group = "g"}, not_any("page_size", 1001), not_any("prefix", LONG),
    not_any("page_token", "garbage"))
end

function case.adjust_names_the_invalid_field()
  local good = {group = "g", sku = "a", delta = 1, adjustment_id = "adj"}
  refuse(Stock.Adjust, good, not_any("sku", "", LONG), not_any("group", LONG),
    not_any("delta", 0, MOST + 1, -MOST - 1, math.mininteger), not_any("adjustment_id", "", LONG), not_any("reason", TEXT),
    not_any("expected_version", -1))
  Stock.Adjust(with(good, {reason = long(256), adjustment_id = LONGEST})) {item = any}
end

-- Rows of lines that are invalid in an order, or a return.
local function bad_lines(...)
  local rows = {}
  for i, row in ipairs{...} do rows[i] = {row[1], lines = lines_of(table.unpack(split(row[2])))} end
  return rows
end
local all_bad_lines = bad_lines({"lines[0].sku", ":1"}, {"lines[1].sku", "a:1 :1"}, {"lines[0].quantity", "a:0"},
  {"lines[1].quantity", "a:1 b:-1"}, {"lines[0].quantity", "a:9007199254740992"},
  {"lines[0].quantity", "a:9223372036854775807 b:1"}, {"lines[1].quantity", "a:9007199254740991 b:1"},
  {"lines[2].sku", "a:1 b:1 a:1"}, {"lines[0].sku", LONG .. ":1"}, {"lines", ones(65)})
local two_lines = {{"group", group = "", lines = lines_of("a:1", "b:1")}}

function case.deduct_names_the_invalid_field()
  local good = deduct_request("o", "bob", "a:1")
  refuse(Stock.Deduct, good, not_any("order_id", "", LONG), not_any("buyer_id", LONG), not_any("group", LONG), two_lines,
    bad_lines{"lines", ""}, all_bad_lines)
  Stock.Deduct(with(good, {order_id = LONGEST, buyer_id = LONGEST})) "DEDUCTED..."
end

function case.reserve_names_the_invalid_field()
  local good = reserve_request("o", "bob", "1000", "a:1")
  refuse(Stock.Reserve, good, not_any("order_id", "", LONG), not_any("buyer_id", LONG), not_any("group", LONG), two_lines,
    bad_lines{"lines", ""}, all_bad_lines, not_any("hold_ms", 9, 0, -1, 2592000001, math.maxinteger))
  reserve "o1 bob 10 a:1" "RESERVED..."
  Stock.Reserve(with(good, {order_id = LONGEST, buyer_id = LONGEST, hold_ms = 2592000000})) "RESERVED..."
end

local of_an_order = {{"group", group = ""}, {"group", group = LONG}, {"order_id", order_id = ""}, {"order_id", order_id = LONG}}

function case.confirm_names_the_invalid_field()
  refuses(Stock.Confirm, {group = "g", order_id = "o"})(of_an_order)
end

function case.extend_hold_names_the_invalid_field()
  local good = {group = "g", order_id = "o", hold_ms = 10}
  refuse(Stock.ExtendHold, good, of_an_order, not_any("hold_ms", 9, math.mininteger, 2592000001))
  Stock.ExtendHold(good) "UNKNOWN_ORDER"; Stock.ExtendHold(with(good, {hold_ms = 2592000000})) "UNKNOWN_ORDER"
end

function case.cancel_names_the_invalid_field()
  local good = {group = "g", order_id = "o"}
  refuse(Stock.Cancel, good, of_an_order, not_any("reason", TEXT))
  Stock.Cancel(with(good, {reason = long(256)})) "UNKNOWN_ORDER none"
end

function case.return_names_the_invalid_field()
  local good = {group = "g", return_id = "r", order_id = "o"}
  refuse(Stock.Return, good, not_any("return_id", "", LONG), not_any("order_id", "", LONG), not_any("group", LONG),
    {{"group", group = ""}}, two_lines, all_bad_lines)
  Stock.Return(with(good, {return_id = LONGEST, order_id = LONGEST})) "UNKNOWN_ORDER none"; unchanged()
end

function case.get_order_names_the_invalid_field()
  refuses(Stock.GetOrder, {group = "g", order_id = "o"})(of_an_order)
end

function case.ledger_calls_name_the_invalid_field()
  for _, id in ipairs{"x", "1", "-", "1-", "-1", "1-1-1", "1-x", " 1-1", "+", "$", "01-1", "1-01", "(1-1",
    "9007199254740992-0", "1-9007199254740992", "99999999999999999999999999-0", "1-1 "} do
    refuses(Stock.ReadLedger, {group = "g"}) {{"after", after = id}}
    refuses(Stock.TrimLedger, {group = "g"}) {{"up_to", up_to = id}}
  end
  refuses(Stock.TrimLedger, {group = "g", up_to = "1-1"}) {{"up_to", up_to = ""}, {"group", group = ""}}
  refuse(Stock.ReadLedger, {group = "g"}, not_any("group", ""), not_any("limit", -1, 1001),
    not_any("wait_ms", -1, 86400001))
  read "0-0" "PUT a 10"
end

function case.delete_item_names_the_invalid_field()
  refuse(Stock.DeleteItem, {group = "g", sku = "a"}, not_any("sku", "", LONG), not_any("group", LONG),
    not_any("expected_version", -1))
end

-- promise S31: malformed, truncated, not UTF-8, NUL; unknown fields ignored
function case.bytes_that_are_no_request()
  local good = "\x0a\x01g\x12\x01a\x18\x14" -- PutItem of g/a with 20 on hand
  refuses_bytes(Stock.PutItem, {
    {good .. "\x12\x03b\xffc", "sku"}, -- not UTF-8
    {good .. "\x12\x03b\0c", "sku"}, -- a NUL
    {good .. "\x0a\x04\xed\xa0\x80x", "group"}, -- a surrogate
    {good .. "\x12\x09b", "sku"}, -- cut off
    {good .. "\x18", "on_hand"},
    {good .. "\x1a\x01x", "on_hand"}, -- another wire type
    {good .. ("\xff"):rep(10) .. "\x01", ""},
  })
  Stock.PutItem.bytes(good .. "\xa2\x06\x01x") "20 0 0" -- an unknown field: ignored
end
