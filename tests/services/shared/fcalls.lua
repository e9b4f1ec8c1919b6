-- Calls of several groups in one FCALL: each sees only its own group, and gets only its own error.
require "stock"

local GROUPS = {"a", "b", "c", "d"}

-- An order of `quantity` in each of the groups, in one FCALL.
local function deduct_in_each(order, quantity)
  local answers = Stock.Deduct.together(repeated(4, function(i)
    return {group = GROUPS[i], order_id = order, buyer_id = "me", lines = {{sku = "pear", quantity = quantity}}}
  end))
  for i, one in ipairs(answers) do answers[i] = line_of(one.response, one.error) end
  return table.concat(answers, ", ")
end

function case.each_call_sees_its_own_group_only()
  for _, group in ipairs(GROUPS) do put("pear " .. (group == "b" and 2 or 10), {group = group}) end
  deduct_in_each("o1", 3) "DEDUCTED, SOLD_OUT, DEDUCTED, DEDUCTED"
  deduct_in_each("o1", 3) "DEDUCTED again, SOLD_OUT, DEDUCTED again, DEDUCTED again"
  for _, group in ipairs(GROUPS) do stock("pear", {group = group}) {item = {available = group == "b" and 2 or 7}} end
end

function case.foreign_data_of_one_group_is_no_matter_to_the_others()
  for _, group in ipairs(GROUPS) do put("pear 10", {group = group}) end
  redis "DEL ls:{default/c}:stock:ledger"; redis "SADD ls:{default/c}:stock:ledger foreign"
  deduct_in_each("o1", 3)("DEDUCTED, DEDUCTED, " .. foreign .. ", DEDUCTED")
  redis "DEL ls:{default/c}:stock:ledger"
  deduct_in_each("o1", 3) "DEDUCTED again, DEDUCTED again, DEDUCTED, DEDUCTED again"
end

-- A function whose calls share nothing but the FCALL.
function case.a_lock_of_each_group_is_taken()
  for i, one in ipairs(Lock.Acquire.together(repeated(4, function(i)
    return {group = GROUPS[i], token = "token-of-sixteen", owner = "me", lease_ms = 60000, targets = {{name = "x"}}}
  end))) do
    one "ACQUIRED"; Lock.Inspect{group = GROUPS[i], name = "x"} {holders = {{}}}
  end
end

-- For any number of calls; a single call is answered without a list. As a node of a cluster is called: bases are
-- arguments.
function case.calls_of_groups_that_are_here_run()
  harness.alter("return this_node() == '' or", "return not string.find(base, 'away') and")
  for name, call in pairs{lock_promote = {"2 ls:{default/", "}: name"}, stock_expire = {"1 ls:{default/", "}:"}} do
    local function ask_node(...)
      local text = ""
      for _, where in ipairs{...} do text = text .. " " .. table.concat(call, where) end
      return redis("FCALL", name .. "_" .. harness.digest, "0", table.unpack(split(text)))
    end
    ask_node("here") "OK\n-1\n"; ask_node("away") "ELSEWHERE\n"
    ask_node("away", "here") "ELSEWHERE\n\nOK\n-1\n\n"; ask_node("away", "away") "ELSEWHERE\n\nELSEWHERE\n\n"
    ask_node("here", "away", "here") "OK\n-1\n\nELSEWHERE\n\nOK\n-1\n\n"
  end
end

-- promise T24
function case.one_server_of_all_begins_a_pass()
  hold_clock()
  local function may_begin(apart_ms) return (fcall("server_begin_pass", "ls:{meta}:", "2", "sweep", apart_ms):gsub("\n", " ")) end
  may_begin "1000" "OK 1 1000 "; may_begin "1000" "OK 0 1000 "; may_begin "10000" "OK 0 10000 "
  pass(0.6); may_begin "1000" "OK 0 400 "; may_begin "0" "OK 1 0 " -- the one that goes on says so
  pass(0.6); may_begin "1000" "OK 0 400 "
  pass(0.4); may_begin "1000" "OK 1 1000 "
  pass(-5); may_begin "1000" "OK 1 1000 " -- the clock stepped back
end
