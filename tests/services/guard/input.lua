-- Invalid requests of GuardService: each field of each part is named.
require "guard"

local good = {group = "g", token = token_of "T1", lease_ms = LEASE, once = {scope = "s", key = "k"},
  limits = {rules = {{key = "bob", limit = {algorithm = "FIXED_WINDOW", limit = 1, period_ms = 1000}}}},
  stock = {order_id = "o", lines = {{sku = "a", quantity = 1}}}, locks = {targets = {{name = "l"}}}}
local ms = 86400000

-- promise GS23: bad input is refused by the field's name, and changes nothing
function case.enter()
  put "a 10"
  refuses(Guard.Enter, good) {
    {"group", group = long(129)}, {"token", token = "short"}, {"token", token = long(65)}, {"token", token = "a b" .. long(16)},
    {"owner", owner = long(129)}, {"lease_ms", lease_ms = 9}, {"lease_ms", lease_ms = ms + 1},
    {"wait_ms", wait_ms = -1}, {"wait_ms", wait_ms = ms + 1},
    {"once.group", once = {group = long(129)}}, {"once.scope", once = {scope = ""}}, {"once.scope", once = {scope = long(129)}},
    {"once.key", once = {key = ""}}, {"once.key", once = {key = long(256)}},
    {"once.fingerprint", once = {fingerprint = long(65)}}, {"once.retain_ms", once = {retain_ms = 999}},
    {"limits.group", limits = {group = long(129)}}, {"limits.rules", limits = {rules = {}}},
    {"limits.rules[0].key", limits = {rules = {{key = ""}}}}, {"limits.rules[0].limit.limit", limits = {rules = {{limit = {limit = 0}}}}},
    {"limits.cost", limits = {cost = -1}},
    {"stock.group", stock = {group = long(129)}}, {"stock.order_id", stock = {order_id = ""}},
    {"stock.buyer_id", stock = {buyer_id = long(129)}}, {"stock.lines", stock = {lines = {}}},
    {"stock.lines[0].sku", stock = {lines = {{sku = ""}}}}, {"stock.lines[0].quantity", stock = {lines = {{quantity = 0}}}},
    {"stock.hold_ms", stock = {hold_ms = 9}}, {"stock.hold_ms", stock = {hold_ms = 30 * ms + 1}},
    {"locks.group", locks = {group = long(129)}}, {"locks.targets", locks = {targets = {}}},
    {"locks.targets[0].name", locks = {targets = {{name = ""}}}}, {"locks.targets[0].permits", locks = {targets = {{permits = 1}}}}}
  refuses(Guard.Enter, {token = token_of "T1", lease_ms = LEASE}) {
    {"once"}, {"limits.group", limits = {rules = repeated(2, function(i) return with(good.limits.rules[1], {key = "k" .. i}) end)}},
    {"stock.group", stock = {order_id = "o", lines = {{sku = "a", quantity = 1}, {sku = "b", quantity = 1}}}},
    {"locks.group", locks = {targets = {{name = "a"}, {name = "b"}}}}}
end

-- promise GS23
function case.renew_and_leave()
  enter("T1 once=k lock=l")
  local parts = {group = "g", token = token_of "T1", once = {scope = "s", key = "k"}, locks = {targets = {{name = "l"}}},
    stock = {order_id = "o", hold_ms = 1000}}
  local rows = {{"token", token = ""}, {"group", group = long(129)}, {"once.scope", once = {scope = ""}},
    {"stock.order_id", stock = {order_id = ""}}, {"stock.hold_ms", stock = {hold_ms = 9}}, {"locks.group", locks = {group = long(129)}}}
  refuses(Guard.Renew, with(parts, {lease_ms = LEASE}))(rows)
  refuses(Guard.Renew, parts) {{"lease_ms", lease_ms = 9}}
  refuses(Guard.Leave, with(parts, {kind = "COMPLETE"}))(rows)
  refuses(Guard.Leave, parts) {{"kind"}, {"detail", kind = "FINAL", detail = long(1025)}}
  refuses(Guard.Leave, with(parts, {kind = "COMPLETE"})) {{"body", body = long(262145)}, {"headers[0].key", headers = {{key = ""}}}}
  refuses(Guard.Leave, {token = token_of "T1", kind = "COMPLETE"}) {{"once"}, {"once", stock = {order_id = "o"}}}
end

-- promise GS24: foreign data under a name of any part refuses the call, and nothing is changed
function case.foreign_data()
  one_store_only "the names of locks are not in Redis"
  local base = "ls:{default/g}:"
  refuses_foreign({
    {"SADD ? x", base .. "s/k:idem:r", "enter_k leave renew"}, {"SADD ? x", base .. "rate:k:bob", "enter"},
    {"SADD ? x", base .. "stock:i:a", "enter"}, {"SET ? x", base .. "stock:ledger", "alone"},
    {"SADD ? x", base .. "lock:n:l", "enter renew leave"}, {"SADD ? x", base .. "lock:t:" .. token_of "T1", "leave"}},
    {enter = function() return enter "T2 once=j limit=bob/5 order=o2/a:1 lock=l" end,
      enter_k = function() return enter "T2 once=k" end,
      alone = function() return enter "T2 limit=bob/5 order=o2/a:1" end,
      renew = function() return renew_guard "T1 once=k lock=l" end,
      leave = function() return complete "T1 once=k lock=l" end},
    function() put "a 10"; enter "T1 once=k lock=l" end)
end
