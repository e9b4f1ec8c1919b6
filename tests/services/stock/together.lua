-- Calls that share an FCALL: random batches of one function have the replies and stored data of the same calls made one
-- by one in another namespace. And which calls get the error of a failed write.
require "stock"

local GROUPS, SKUS, BATCH = 3, 4, 64

-- ---- one sub-call ----

local function sku() return "s" .. pick(SKUS) end
local function order_id() return "o" .. pick(24) end
local function buyer() return "buyer" .. pick(3) end
local function hold() return 1000 * (1 + pick(5)) end
-- 1 to SKUS different skus.
local function some_lines(most)
  local first, words = pick(SKUS), {}
  for i = 0, pick(3) // 2 * pick(SKUS) do words[#words + 1] = ("s%d %d"):format((first + i) % SKUS, 1 + pick(most)) end
  return table.concat(words, " ")
end
local function maybe(of, value) return pick(of) == 0 and value or 0 end
local function args(...) return table.concat({...}, " ") end
local function cancelled() return args(order_id(), "why") end

-- How often each function is called, its name and its arguments.
local functions = {
  6, "stock_deduct", function() return args(order_id(), buyer(), some_lines(3)) end,
  8, "stock_reserve", function() return args(order_id(), buyer(), hold(), some_lines(3)) end,
  4, "stock_confirm", function() return args(order_id(), pick(2)) end,
  2, "stock_cancel", cancelled,
  1, "stock_cancel_unseen", cancelled,
  2, "stock_extend_hold", function() return args(order_id(), hold()) end,
  3, "stock_return", function() return args("r" .. pick(8), order_id(), maybe(2, true) and some_lines(2) or "") end,
  3, "stock_put_item", function()
    return args(sku(), pick(40), maybe(3, 1 + pick(6)), maybe(6, 1000), maybe(6, 3000), 60000 * (1 + pick(3)), maybe(4, 1), 0)
  end,
  3, "stock_adjust", function() return args(sku(), pick(2) == 0 and 5 or -2, "a" .. pick(8), "why", 0) end,
  1, "stock_delete_item", function() return args(sku(), 0) end,
  1, "stock_get_items", function()
    local words = {}
    for i = pick(SKUS), 0, -1 do words[#words + 1] = "s" .. i end
    return table.concat(words, " ")
  end,
  1, "stock_get_order", order_id,
  1, "stock_expire", function() return "" end,
}

-- ---- both ways of sending them ----

-- One FCALL of calls {group, arguments}, as the server sends it: one base when all calls have the same; `apart`: in a
-- cluster, each with its base as first argument.
local function send(namespace, name, calls, apart)
  local bases, same = {}, true
  for i, call in ipairs(calls) do
    bases[i] = ("ls:{%s/g%d}:"):format(namespace, call[1])
    same = same and bases[i] == bases[1]
  end
  local sent = apart and {} or same and {bases[1]} or bases
  local words = {"FCALL", name .. "_" .. harness.digest, tostring(#sent), table.unpack(sent)}
  for i, call in ipairs(calls) do
    local list = split(call[2])
    if apart then table.insert(list, 1, bases[i]) end
    words[#words + 1] = tostring(#list)
    table.move(list, 1, #list, #words + 1, words)
  end
  return harness.redis(table.unpack(words))
end

local function expect_same_replies(name, calls)
  local together, alone = send("A", name, calls, pick(4) == 0), {}
  for i, call in ipairs(calls) do alone[i] = send("B", name, {call}) end
  if #calls > 1 then alone[#alone + 1] = "" end -- each of several ends its line
  alone = table.concat(alone, #calls > 1 and "\n" or "")
  if together ~= alone then
    error(("%s, %d calls, alone:\n%stogether:\n%s"):format(name, #calls, alone, together))
  end
end

-- All keys of a namespace with their contents; of a ledger its entries, however they are packed.
local held_by = [[
local out = {}
for _, key in ipairs(redis.call('KEYS', 'ls:{' .. ARGV[1] .. '/*')) do
  local kind, value = redis.call('TYPE', key).ok, {}
  if kind == 'string' then value = {redis.call('GET', key)}
  elseif kind == 'hash' then
    local names = redis.call('HKEYS', key)
    table.sort(names)
    for i, n in ipairs(names) do value[i] = n .. '=' .. redis.call('HGET', key, n) end
  elseif kind == 'zset' then value = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  elseif kind == 'stream' then
    for i, e in ipairs(redis.call('XRANGE', key, '-', '+')) do value[i] = e[2][2] end
  end
  local text = table.concat(value, '\0')
  text = string.gsub(text, '[^ -~]', function(c) return '\\' .. string.byte(c) end)
  local ends = redis.call('PTTL', key) > 0 and ' ends ' or ' '
  out[#out + 1] = string.sub(key, 6 + #ARGV[1]) .. ends .. text
end
table.sort(out)
return out]]

-- promise S12: combined calls behave like separate ones
-- promise S57: calls of an FCALL do the same as one by one: each sees the changes of those before it
function case.batch_equals_its_calls_one_by_one()
  rounds(6, 200, function() -- of 100 batches
    local now_us = 1800000000000000
    for i = 1, 100 do
      now_us = now_us + pick(1500000)
      redis("SET ls:test:clock_still_us " .. now_us)
      local n, name, make = pick(3) == 0 and 1 + pick(BATCH) or 1 + pick(6), nil, nil
      local things = {}
      for k = 1, #functions, 3 do
        things[#things + 1], things[#things + 2] = functions[k], function() name, make = functions[k + 1], functions[k + 2] end
      end
      choose(things)
      expect_same_replies(name, repeated(n, function() return {pick(GROUPS), make()} end))
      if i % 20 == 0 then eq(eval(held_by, "A"), eval(held_by, "B")) end
      -- As if all records with an end had ended.
      if i == 50 then
        eval("for _, key in ipairs(redis.call('KEYS', 'ls:{*stock:[oat]:*')) do\n"
          .. "  if redis.call('PTTL', key) > 0 then redis.call('DEL', key) end\nend")
      end
      harness.forget()
    end
  end)
end

-- promise S57
-- Most are usual: new orders of one line in one group, which may run without a state.
function case.batch_of_simple_orders_equals_its_calls_one_by_one()
  local made = 0
  local function order()
    made = made + 1
    local id = "n" .. made - maybe(20, pick(5))
    return args(id, buyer(), pick(30) == 0 and some_lines(2) or args(sku(), 1 + pick(2)))
  end
  rounds(20, 400, function()
    redis "SET ls:test:clock_still_us 1800000000000000"
    for k = 1, SKUS - maybe(3, 1) do
      expect_same_replies("stock_put_item", {{0, args("s" .. k % SKUS, pick(50), maybe(4, 2), maybe(8, 1000),
        maybe(8, 1500), 60000 * k, 0, 0)}})
    end
    if pick(4) == 0 then expect_same_replies("stock_reserve", {{0, args("r", buyer(), 1000, sku(), 1)}}) end
    redis "SET ls:test:clock_still_us 1800000002000000"
    for _ = 1, 8 do expect_same_replies("stock_deduct", repeated(2 + pick(20), function() return {0, order()} end)) end
    eq(eval(held_by, "A"), eval(held_by, "B"))
    harness.reset()
  end)
end

-- ---- whom an error in writing concerns ----

-- The answers of these Deducts in one FCALL.
local function replies_together()
  local answers = Stock.Deduct.together{deduct_request("new", "bob", "a:2"), deduct_request("old", "bob", "b:1"),
    deduct_request("other", "bob", "nothing:1"), deduct_request("new", "bob", "a:2"), deduct_request("late", "bob", "a:2"),
    deduct_request("many", "bob", "b:9")}
  for i, one in ipairs(answers) do answers[i] = one.response and line_of(one.response) or one.error.applied end
  return table.concat(answers, ", ")
end

local function two_items()
  put "a 3"; put "b 3"; deduct "old bob b:1"
end

-- promise S58: a write error belongs to the calls that changed something and to those that read the change
function case.an_error_in_writing_is_of_the_calls_that_it_concerns()
  two_items(); replies_together() "DEDUCTED, DEDUCTED again, UNKNOWN_SKU, DEDUCTED again, SOLD_OUT, SOLD_OUT"
  harness.reset(); two_items(); redis("DEL", key "ledger"); redis("SET", key "ledger", "foreign")
  remember(); replies_together() "NO, DEDUCTED again, UNKNOWN_SKU, NO, NO, SOLD_OUT"; unchanged()
  harness.reset(); two_items()
  harness.alter("write('SET', key .. sku, pack_item(item))", "write('NOSUCH', key .. sku, pack_item(item))")
  replies_together() "MAYBE, DEDUCTED again, UNKNOWN_SKU, MAYBE, MAYBE, SOLD_OUT"
  -- Usual orders run without a state: the error goes to all of them.
  harness.reset(); two_items(); harness.alter("run('SET', keys[k]", "run('NOSUCH', keys[k]")
  local answers = Stock.Deduct.together{deduct_request("new", "bob", "a:1"), deduct_request("late", "bob", "a:3"),
    deduct_request("other", "bob", "nothing:1")}
  for i, one in ipairs(answers) do answers[i] = one.response and line_of(one.response) or one.error.applied end
  eq(table.concat(answers, ", "), "MAYBE, MAYBE, UNKNOWN_SKU")
end

-- An item is read once, and written once if it has changed, for all calls.
function case.a_batch_reads_and_writes_an_item_once()
  two_items(); redis "CONFIG RESETSTAT"
  texts(Stock.Deduct.together{deduct_request("new", "bob", "a:2"), deduct_request("late", "ann", "a:2"),
    deduct_request("other", "bob", "a:1"), deduct_request("more", "bob", "b:1")})
    "DEDUCTED a:1, SOLD_OUT a:1, DEDUCTED a:0, DEDUCTED b:1"
  eq(harness.commands "set", 5); eq(harness.commands "get", 2) -- "a", "b"; three orders
  eq(harness.commands "xadd", 1); eq(harness.commands "exists", 2) -- an order, a reader of the ledger
  -- As in a cluster, where an FCALL is for several groups.
  local orders = repeated(6, function(i) return {i % 2, ("n%d bob a 1"):format(i)} end)
  for g = 0, 1 do send("A", "stock_put_item", {{g, "a 5 0 0 0 60000 0 0"}}) end
  eq(commands_of("get", function() send("A", "stock_deduct", orders, true) end), 2)
  -- With a repeated order, which is looked for first, in a batch.
  harness.reset()
  two_items(); redis "CONFIG RESETSTAT"; replies_together()
  eq(harness.commands "set", 2) -- "a", the order "new"
  -- "a" twice, "b", "nothing", and of that whether the group is in buckets; "new", "old", "other", "late", "many"
  eq(harness.commands "get", 10); eq(harness.commands "xadd", 1); eq(harness.commands "exists", 2)
end

-- promise S59: expired holds are looked for once in an FCALL for each group
function case.a_batch_looks_once_for_holds_that_are_over()
  two_items(); reserve "over bob 1000 a:2"; ms(1000)
  eq(commands_of("zrangebyscore", function()
    local answers = Stock.Reserve.together(repeated(3, function(i) return reserve_request("o" .. i, "-", "60000", "a:2") end))
    texts(answers) "RESERVED a:1, SOLD_OUT a:1, SOLD_OUT a:1"
  end), 1)
end

function case.a_batch_keeps_each_order_as_long_as_its_item_says()
  put("a 3", {order_retain_ms = 60000}); put("b 3", {order_retain_ms = 600000})
  Stock.Deduct.together{deduct_request("a", "-", "a:1"), deduct_request("b", "-", "b:1")}
  eq(ttl "o:a", within(1, 60000)); eq(ttl "o:b", within(60001, 600000))
end
