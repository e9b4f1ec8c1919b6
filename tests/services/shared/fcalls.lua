-- Calls of several groups in one FCALL.
require "stock"

function case.foreign_data_of_one_group_does_not_affect_others()
  local groups, orders = {"a", "b", "c"}, {}
  for i, group in ipairs(groups) do
    put("pear 10", {group = group})
    orders[i] = with(deduct_request("o1", "me", "pear:3"), {group = group})
  end
  redis "DEL ls:{default/b}:stock:ledger"; redis "SADD ls:{default/b}:stock:ledger foreign"
  texts(Stock.Deduct.together(orders))("DEDUCTED pear:7, " .. foreign .. ", DEDUCTED pear:7")
  redis "DEL ls:{default/b}:stock:ledger"
  texts(Stock.Deduct.together(orders)) "DEDUCTED again pear:7, DEDUCTED pear:7, DEDUCTED again pear:7"
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
