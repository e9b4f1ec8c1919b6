-- Foreign data changes nothing, an error after a write is MAYBE, and stock comes back without memory.
-- promise T9: an unknown error may come after a write: INTERNAL, MAYBE; WRONGTYPE is reported by the function
require "stock"

local tries = {
  put = function() return Stock.PutItem(put_request("a", 20)) end,
  put_new = function() return Stock.PutItem(put_request("new", 20)) end,
  get = function() return stock "a" end,
  list = function() return Stock.ListItems{group = "g"} end,
  adjust = function() return adjust "a 1 adj" end,
  deduct = function() return deduct "o bob b:1 a:1" end,
  usual = function() return deduct "o bob c:1" end,
  two = function()
    return Stock.Deduct.together{deduct_request("o", "bob", "c:1"), deduct_request("p", "bob", "c:1")}[1]
  end,
  order = function() return order "o" end,
  read = function() return ledger() end,
  trim = function() return trim "9007199254740991-0" end,
  delete = function() return delete "a" end,
  reserve = function() return reserve "o bob 1000 b:1 a:1" end,
  confirm = function() return confirm "held" end,
  extend = function() return extend "held 1000" end,
  cancel = function() return cancel "held" end,
  cancel_unseen = function() return cancel "o" end,
  take_back = function() return take_back "r sold" end,
  held = function() return order "held" end,
}
local refused = "FAILED_PRECONDITION NO ..."

-- See refuses_foreign.
local rows = {
  {"SET ? x", key "i:a", "put get list adjust deduct delete"},
  {"HSET ? x y", key "i:new", "put_new"},
  {"HSET ? available 1", key "i:a", "put"},
  {"APPEND ? x", key "i:a", "put deduct"},
  {"SETRANGE ? 0 x", key "i:a", "deduct adjust"},
  {"SET ? x", key "b:a", "put deduct delete"},
  {"HSET ? bob many", key "b:a", "deduct"},
  {"LPUSH ? x", key "i:c", "usual two"},
  {"SET ? x", key "i:c", "usual two"},
  {"SETRANGE ? 0 x", key "i:c", "usual two"},
  {"SET ? x", key "r", "usual two"},
  {"LPUSH ? x", key "o:o", "deduct usual order"},
  {"SET ? x", key "o:o", "deduct usual order"},
  {"SET ? \x02", key "o:o", "deduct"},
  {"SET ? \x02\x01xxxxxxxxxxxxxxxx", key "o:o", "deduct"},
  {"SET ? \x02\xff", key "o:o", "deduct"},
  {"APPEND ? x", key "o:held", "held confirm"},
  {"SETRANGE ? 0 x", key "o:held", "held"},
  {"SETRANGE ? 2 \x09", key "o:held", "held"},
  {"SETRANGE ? 3 \x09", key "o:held", "held"},
  {"LPUSH ? x", key "a:adj", "adjust"},
  {"SET ? x", key "a:adj", "adjust"},
  {"SET ? \xc1", key "a:adj", "adjust"},
  {"SET ? x", key "skus", "put_new list trim delete"},
  {"SET ? x", key "ledger", "put put_new adjust deduct usual two read trim delete reserve confirm cancel take_back"},
  {"LPUSH ? x", key "v", "put_new"},
  {"SET ? x", key "v", "put_new delete"},
  {"SET ? x", key "i:b", "reserve confirm cancel take_back"},
  {"SETRANGE ? 0 x", key "i:b", "reserve confirm cancel take_back"},
  {"SET ? x", key "b:b", "reserve cancel take_back"},
  {"HSET ? bob many", key "b:b", "reserve cancel take_back"},
  {"LPUSH ? x", key "o:o", "reserve cancel_unseen"},
  {"SET ? x", key "o:o", "reserve cancel_unseen"},
  {"SET ? x", key "o:held", "confirm extend cancel held"},
  {"SET ? x", key "o:sold", "take_back"},
  {"LPUSH ? x", key "t:r", "take_back"},
  {"SET ? x", key "t:r", "take_back"},
  {"SET ? \x91\xaaadjustment", key "t:r", "take_back"},
  {"SET ? x", key "x", "put get list adjust deduct reserve confirm extend cancel held delete"},
  {"ZADD ? 9e15 other", key "x", "confirm extend cancel held"},
}

-- promise S3: counts, buyer counts, order and ledger change together
-- promise S32: foreign data: FAILED_PRECONDITION, no change
function case.foreign_data_changes_nothing()
  refuses_foreign(rows, tries, function()
    put("a 10", {per_buyer_limit = 5}); put("b 10", {per_buyer_limit = 5}); put "c 10"
    reserve "held bob 600000 b:1"; deduct "sold bob b:1 a:1"
  end)
end

-- Calls that meet the hold of such an order change nothing either.
function case.a_foreign_order_among_those_that_are_over()
  put "a 10"; put "b 10"; reserve "o1 - 100000 a:1"; reserve "o2 - 100000 a:1"
  ms(100000); redis("SET", key "o:o2", "x"); remember()
  for _, name in ipairs{"put", "get", "list", "adjust", "reserve", "delete"} do
    tries[name]() (refused)
    unchanged()
  end
end

-- promise S53: without memory calls that return, confirm or extend work; calls that take do not
function case.stock_comes_back_when_memory_is_short()
  local function try(name, args) return fcall(name, "ls:{default/g}:", table.unpack(split(args))) end
  put("a 10", {per_buyer_limit = 10}); put "b 10"
  for _, text in ipairs{"o1 bob 600000 a:1", "o2 bob 600000 a:1", "o3 bob 600000 a:1", "o4 bob 100000 a:1"} do
    reserve(text)
  end
  deduct "o5 bob a:3"; reserve "o6 bob 100000 a:1"; ms(100000); redis "CONFIG SET maxmemory 1"
  try("stock_reserve", "5 new bob 1000 a 1") "OOM ..."; try("stock_deduct", "5 new bob 0 a 1") "OOM ..."
  try("stock_put_item", "8 c 1 0 0 0 60000 0 0") "OOM ..."; try("stock_adjust", "5 a 1 adj why 0") "OOM ..."
  try("stock_cancel_unseen", "2 new why") "OOM ..."; try("stock_expire", "0") "OK\n..."
  confirm "o1" "CONFIRMED CONFIRMED bob a:1:0"; cancel "o2 why" "CANCELLED CANCELLED bob a:1:0"
  extend "o3 700000" "EXTENDED"; reacquire "o4" "CONFIRMED CONFIRMED bob a:1:0"
  take_back "r o5 a:2" "RETURNED CONFIRMED bob a:3:2"; order "o6" "EXPIRED bob a:1:0"
  delete "b" "OK"; stock "a" "6 1 3"
  redis "CONFIG SET maxmemory 0"; order "new" "NOT_FOUND..."
end

-- promise S33: an error after a write: INTERNAL, MAYBE
function case.an_error_after_a_write_is_maybe()
  put "a 10"; put "b 10"
  harness.alter("write('SET', key, texts[key], 'PX'", "write('NOSUCH', key, texts[key], 'PX'")
  deduct "o - a:1 b:1" "INTERNAL MAYBE..."
  harness.alter("run('SET', item_at", "run('NOSUCH', item_at"); deduct "o - a:1" "INTERNAL MAYBE..."
end

-- Expired holds are given back completely; after an error in the middle the result is unknown.
function case.an_error_while_giving_back_is_maybe()
  put "a 10"; reserve "o1 - 100000 a:1"; ms(100000); harness.alter("write('ZREM'", "write('NOSUCH'")
  reserve "o2 - 100000 a:1" "INTERNAL MAYBE..."
end

function case.an_error_before_a_write_is_no()
  put "a 10"; put "b 10"; remember()
  harness.alter("redis.call('GET', s.base .. 'stock:i:'", "redis.call('NOSUCH', s.base .. 'stock:i:'")
  deduct "o - a:1 b:1" "INTERNAL NO..."; unchanged()
  harness.alter("run('GET', item_at)", "run('NOSUCH', item_at)"); deduct "o - a:1" "INTERNAL NO..."; unchanged()
end

-- A reply of an unexpected shape neither crashes nor succeeds.
function case.a_reply_of_another_shape_is_an_error()
  put "a 10"; harness.alter("if not due then return {'MORE'} end", "if true then return {'OK', 'x'} end")
  stock "a" "INTERNAL..."
  for _, reply in ipairs{"{'DEDUCTED'}", "{left, 1}", "{'SOLD_OUT', 1, 1, 0}", "{}"} do
    harness.alter("local left = available - units\n  if left", "local left = 5 if true then return " .. reply .. " end if left")
    deduct "o - a:1" "INTERNAL MAYBE..."
  end
  harness.alter("reply = left", "if true then return {} end")
  reserve "o - 1000 a:1" "INTERNAL..."
  harness.alter("local reply, n = {state, hold_ms, order[BUYER]}, 3", "if true then return {state} end local reply, n")
  deduct "o - a:1"; order "o" "INTERNAL NO..."; confirm "o" "INTERNAL..."; take_back "r o" "INTERNAL MAYBE..."
end
