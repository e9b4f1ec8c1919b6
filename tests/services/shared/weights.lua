-- How many calls of each method an FCALL may carry, so that none keeps Redis for long. bench/fcall_time.py measures a
-- unit of weight.
-- promise B1: an FCALL carries at most 64 units of weight; a call's weight follows from the most that it may have to do

local TOKEN = "token-of-a-holder"
local function names(n) return repeated(n, function(i) return ("n%02d"):format(i) end) end
local function carries(n, method, request) eq(sharing(method, request), n) end

function case.weights_of_lock_calls()
  local function targets(n) return repeated(n, function(i) return {name = names(n)[i]} end) end
  for n, expected in pairs{[1] = 32, [16] = 6} do
    carries(expected, "Lock.Acquire", {group = "g", targets = targets(n), token = TOKEN, lease_ms = 1000})
  end
  for n, expected in pairs{[1] = 64, [16] = 32, [0] = 32} do
    carries(expected, "Lock.Renew", {leases = {{group = "g", names = names(n), token = TOKEN, lease_ms = 1000}}})
    carries(expected, "Lock.Release", {group = "g", names = names(n), token = TOKEN})
  end
  carries(1, "Lock.Inspect", {name = "name"}); carries(1, "Lock.ForceRelease", {name = "name"})
  carries(1, "Lock.List", {}); carries(64, "Lock.CheckFence", {resource = "name", fence = 1})
end

function case.weights_of_order_calls()
  local order = {group = "g", order_id = "o"}
  for n, expected in pairs{[1] = 64, [64] = 7} do
    local lines = repeated(n, function(i) return {sku = "n" .. i, quantity = 1} end)
    carries(expected, "Stock.Deduct", with(order, {lines = lines}))
    carries(expected, "Stock.Reserve", with(order, {lines = lines, hold_ms = 1000}))
  end
  carries(10, "Stock.Confirm", order); carries(10, "Stock.Cancel", order)
  carries(10, "Stock.Return", with(order, {return_id = "r"})); carries(64, "Stock.GetOrder", order)
end

function case.weights_of_item_and_ledger_calls()
  carries(64, "Stock.GetItem", {sku = "name"}); carries(12, "Stock.BatchGetItems", {group = "g", skus = names(64)})
  carries(64, "Stock.BatchGetItems", {skus = names(64)})
  carries(64, "Stock.ListItems", {group = "g", page_size = 10}); carries(9, "Stock.ListItems", {group = "g"})
  carries(4, "Stock.ListItems", {group = "g", page_size = 1000})
  carries(1, "Stock.ListItems", {page_size = 1000}); carries(64, "Stock.ReadLedger", {group = "g", limit = 1})
  carries(21, "Stock.ReadLedger", {group = "g"}); carries(3, "Stock.ReadLedger", {group = "g", limit = 1000})
  carries(3, "Stock.ReadLedger", {group = "g", limit = 1000, wait_ms = 1000})
  carries(1, "Stock.TrimLedger", {group = "g", up_to = "1-0"})
end

function case.weights_of_limit_calls()
  local function rules(n)
    return repeated(n, function(i) return {key = "n" .. i, limit = {algorithm = "FIXED_WINDOW", limit = 5, period_ms = 1000}} end)
  end
  carries(64, "RateLimit.Check", {group = "g", rules = rules(1)})
  carries(8, "RateLimit.Check", {group = "g", rules = rules(8)})
  carries(8, "RateLimit.Refund", {group = "g", request_id = "name"})
  carries(8, "RateLimit.Reset", {group = "g", key = "name"})
  carries(1, "RateLimit.ListPolicies", {page_size = 1000})
end

function case.weights_of_result_and_id_calls()
  carries(16, "Idempotency.Begin", {scope = "s", key = "name", attempt_token = TOKEN, lease_ms = 1000})
  carries(16, "Idempotency.Get", {scope = "s", key = "name"}); carries(2, "Id.Next", {kind = "SNOWFLAKE"})
end

function case.weights_of_guard_calls()
  local enter = {group = "g", token = TOKEN, lease_ms = 1000}
  carries(16, "Guard.Enter", with(enter, {once = {scope = "s", key = "k"}}))
  carries(21, "Guard.Enter", with(enter, {locks = {targets = {{name = "l"}}}}))
  carries(8, "Guard.Enter", with(enter, {once = {scope = "s", key = "k"}, locks = {targets = {{name = "l"}}},
    limits = {rules = {{key = "k", limit = {algorithm = "FIXED_WINDOW", limit = 5, period_ms = 1000}}}},
    stock = {order_id = "o", lines = {{sku = "a", quantity = 1}}}}))
  local parts = {group = "g", token = TOKEN, once = {scope = "s", key = "k"}, locks = {targets = {{name = "l"}}}}
  carries(8, "Guard.Renew", with(parts, {lease_ms = 1000})); carries(5, "Guard.Leave", with(parts, {kind = "COMPLETE"}))
end
