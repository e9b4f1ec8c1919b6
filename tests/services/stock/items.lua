-- Items: PutItem, GetItem, BatchGetItems, Adjust, DeleteItem.
-- promise S2
require "stock"

-- promise S18: GetItem NOT_FOUND; BatchGetItems: those that exist, in order
function case.put_creates_an_item()
  local item = put("a 10", {per_buyer_limit = 3}) {item = {group = "g", sku = "a", available = 10, reserved = 0,
    sold = 0, per_buyer_limit = 3, state = "OPEN", opens_in_ms = 0, closes_in_ms = 0, version = above(0)}}.item
  stock "a" {item = {version = item.version, available = 10}}
  change_item("a", RESERVED, 3); stock "a" "10 3 0"; stock "b" "NOT_FOUND NO sku:..."
  stock("a", {group = "other"}) "NOT_FOUND NO sku:..."
end

-- promise S14: PutItem: must_be_new, expected_version, not below reserved + sold
-- promise S15: PutItem: the difference is a ledger entry
function case.put_over_an_item_changes_on_hand()
  put "a 10"; deduct "o1 - a:4"
  local before = version "a"
  put "a 7"; stock "a" "3 0 4"
  put "a 7" -- no difference: no ledger entry
  put "a 4"; stock "a" "0 0 4"; eq(version "a", before + 3)
  ledger() "PUT a 10, DEDUCTED a 4 o1, PUT a -3, PUT a -3"
  remember(); Stock.PutItem(put_request("a", 3)) "FAILED_PRECONDITION NO on_hand:..."; unchanged()
  change_item("a", RESERVED, 1); Stock.PutItem(put_request("a", 4)) "FAILED_PRECONDITION NO on_hand:..."
end

-- promise S14
function case.put_keeps_to_its_conditions()
  local function try(more) return Stock.PutItem(put_request("a", 10, more)) end
  try{expected_version = 1} "ABORTED NO expected_version:..."
  local first = try{must_be_new = true}.item.version
  remember(); try{must_be_new = true} "ALREADY_EXISTS NO sku:..."
  try{expected_version = first + 1} "ABORTED NO expected_version:..."
  eq(last_error.message, containing(" " .. first)); unchanged()
  try{expected_version = first} {item = {version = first + 1}}
end

-- promise S16
function case.item_shows_its_sale_window()
  window("a", 100000, 200000) {item = {state = "NOT_OPEN", opens_in_ms = 100000, closes_in_ms = 200000}}; ms(40000)
  stock "a" {item = {state = "NOT_OPEN", opens_in_ms = within(1, 60000), closes_in_ms = within(100000, 160000)}}
  ms(60000); stock "a" {item = {state = "OPEN", opens_in_ms = 0, closes_in_ms = within(1, 100000)}}
  ms(100000); stock "a" {item = {state = "CLOSED", closes_in_ms = 0}}
end

-- promise S17: version changes with every change, never used twice
function case.every_change_has_a_version_of_its_own()
  local last = put "a 10".item.version
  deduct "o1 - a:1"
  last = eq(version "a", above(last))
  last = eq(adjust "a 5 adj".item.version, above(last))
  -- Neither a refusal nor a repeat is a change.
  deduct "o1 - a:1"; deduct "o2 - a:999"; adjust "a 5 adj"; eq(version "a", last)
  put "a 15" {item = {version = last + 1}}
end

-- promise S18
function case.a_batch_gives_those_that_exist_in_the_asked_order()
  put "a 1"; put "b 2"; put "c 3"; put("a 11", {group = ""}); put("c 13", {group = ""})
  local asked = {"c", "nowhere", "a", "b"}
  Stock.BatchGetItems{group = "g", skus = asked} {items = {{sku = "c"}, {sku = "a"}, {available = 2, group = "g"}}}
  -- Without a group each is its own.
  Stock.BatchGetItems{skus = asked} {items = {{available = 13, group = "c"}, {available = 11, group = "a"}}}
end

-- promise S21: Adjust: never below zero, not over 2^53-1
function case.adjust_adds_and_takes()
  put "a 10"; deduct "o1 - a:4"; adjust "a 5 more" "11 0 4" {item = {group = "g"}}; adjust "a -11 less" "0 0 4"
  remember(); adjust "a -1 below" "FAILED_PRECONDITION NO delta:..."
  adjust "b 1 nowhere" "NOT_FOUND NO sku:..."; unchanged()
  ledger() "PUT a 10, DEDUCTED a 4 o1, ADJUSTED a 5 more, ADJUSTED a -11 less"
end

-- promise S13
-- promise S22: Adjust: once for an adjustment_id; recorded in the ledger with its reason
function case.adjust_once_an_id()
  put "a 10"; put "b 10"
  local first = adjust "a 5 adj"
  deduct "o1 - a:15"; put("a 99", {per_buyer_limit = 7}); remember()
  adjust "a 5 adj" "15 0 0 again" {item = {per_buyer_limit = 0, version = first.item.version}}
  adjust "a 6 adj" "ALREADY_EXISTS NO adjustment_id:..."; adjust "b 5 adj" "ALREADY_EXISTS NO adjustment_id:..."
  unchanged()
  keeps("a:adj", 30 * DAY)
end

function case.adjust_keeps_to_its_conditions()
  local now = put "a 10".item.version
  local function try(expected)
    return adjust("a 1 adj", {reason = "found behind the shelf", expected_version = expected})
  end
  remember(); try(now - 1) "ABORTED NO expected_version:..."; unchanged(); try(now) "11 0 0"
  ledger() {entries = {{reason = ""}, {reason = "found behind the shelf"}}}
  -- A repeat is recognised before the version is checked, which its effect has changed.
  try(now) "11 0 0 again"
end

-- promise S21
function case.on_hand_has_an_upper_end()
  put "a 9007199254740990"; deduct "o1 - a:2"; adjust "a 1 last" "9007199254740989 0 2"
  remember(); adjust "a 1 over" "INVALID_ARGUMENT NO delta:..."
  adjust "a 9007199254740991 far_over" "INVALID_ARGUMENT NO delta:..."; unchanged()
end

-- promise S17
-- promise S23: DeleteItem: with buyer counts; not while reserved; expected_version
function case.delete_forgets_all_but_the_ledger_and_versions()
  put("a 10", {per_buyer_limit = 5}); deduct "o1 bob a:4"
  local before = version "a"
  delete "a" "OK"; stock "a" "NOT_FOUND NO sku:..."
  ledger() "PUT a 10, DEDUCTED a 4 o1, DELETED a 6"; redis("EXISTS", key "b:a", key "skus") "0"
  delete "a" "NOT_FOUND NO sku:..."
  -- Not even when the clock is set back.
  pass(-3600)
  local later = eq(put("a 10", {per_buyer_limit = 5}).item.version, above(before))
  delete "a" "OK"
  pass(-3600); eq(put "b 1".item.version, above(later))
  put("a 10", {per_buyer_limit = 5}); deduct "o2 bob a:5" "DEDUCTED a:5"; eq(ttl "v", within(DAY, DAY + 7200000))
end

-- promise S23
function case.delete_keeps_to_its_conditions()
  local now = put "a 10".item.version
  remember(); delete("a", {expected_version = now + 1}) "ABORTED NO expected_version:..."; unchanged()
  change_item("a", RESERVED, 1); remember(); delete "a" "FAILED_PRECONDITION NO sku:..."; unchanged()
  change_item("a", RESERVED, 0); delete("a", {expected_version = now}) "OK"
end

-- promise S28: names cannot move a key or reach another namespace
function case.names_are_only_names()
  local names = {"a", "a}", "{a}", "a:b", "a/b", "a%2Fb", "a%", "%41", "a b", "a*", "a?", "[a]", "\\a", "\n", "é",
    "e\u{301}", "日本", "\u{1F512}", "-", "0"}
  local function each_namespace(of_group, of_sku)
    for g, name in ipairs(names) do
      harness.namespace(name); of_group(g, name, names[g % #names + 1])
      for s, sku in ipairs(names) do of_sku(sku, 1000 * g + s) end
    end
  end
  each_namespace(function(g, group, sku) Stock.PutItem{group = group, sku = sku, on_hand = 100 + g} {item = any} end,
    function(sku, n) Stock.PutItem{group = "g", sku = sku, on_hand = n + 1, per_buyer_limit = 1} {item = any} end)
  each_namespace(function(g, group, sku) Stock.GetItem{group = group, sku = sku}(("%d 0 0"):format(100 + g)) end,
    function(sku, n)
      Stock.Deduct{group = "g", order_id = sku, buyer_id = sku, lines = {{sku = sku, quantity = 1}}}
        {outcome = "DEDUCTED", replayed = false, lines = {{sku = sku}}}
      Stock.GetOrder{group = "g", order_id = sku} {order = {buyer_id = sku}}
      Stock.GetItem{group = "g", sku = sku}(("%d 0 1"):format(n))
    end)
  -- The first braces of a key, which place it, hold namespace and group. There are no others.
  for line in eval("local keys = redis.call('KEYS', 'ls:{*')\nfor i, key in ipairs(keys) do\n"
    .. "  keys[i] = redis.call('TYPE', key).ok .. ' ' .. string.gsub(key, '\\n', '_')\nend return keys"):gmatch("[^\n]+") do
    local kind, rest = line:match("^(%a+) ls:{[^{}]*}:stock:(.*)$")
    eq(kind, any)
    if kind == "hash" then eq(rest:find("}", 1, true), nil) end
  end
end
