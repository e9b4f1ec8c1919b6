-- ListItems: a group in order, or a namespace.
-- promise S28
require "stock"

local function list(more) return Stock.ListItems(more) end
lines["Stock.ListItems"] = function(r)
  local names = {}
  for i, item in ipairs(r.items) do names[i] = item.group .. "/" .. item.sku end
  return table.concat(names, " ")
end
local function several(text, more)
  for sku in text:gmatch("[^,]+") do Stock.PutItem(put_request(sku, 1, more)) {item = any} end
end

-- All pages of a namespace, sorted, each item once; no page exceeds its size.
local function all_pages(prefix, size)
  local found, seen, token = {}, {}, ""
  repeat
    local page = list{prefix = prefix, page_size = size, page_token = token}
    eq(#page.items, within(0, size > 0 and size or 1000))
    for _, item in ipairs(page.items) do
      local text = ("%s/%s:%d"):format(item.group, item.sku, item.available)
      if not seen[text] then found[#found + 1] = text end
      seen[text] = true
    end
    token = page.next_page_token
  until token == ""
  table.sort(found)
  return table.concat(found, " ")
end

-- promise S19: ListItems of a group, in order, by pages and prefix
function case.a_group_in_the_order_of_its_skus()
  list{group = "g"} ""
  several("b,a,{,é,Z"); put("c 6", {group = "other"}); put "a 2"
  list{group = "g"} "g/Z g/a g/b g/{ g/é" {next_page_token = "", items = {{}, {available = 2}, {}, {}, {}}}
  delete "b" "OK"; list{group = "g"} "g/Z g/a g/{ g/é"
end

-- promise S19
function case.a_group_page_by_page()
  several("a,a b,a%,b")
  local page = list{group = "g", page_size = 2} "g/a g/a b"
  -- Items that come and go between pages do not disturb the others.
  Stock.DeleteItem{group = "g", sku = "a b"} "OK"
  several("a a,a c")
  page = list{group = "g", page_size = 2, page_token = page.next_page_token} "g/a c g/a%"
  list{group = "g", page_size = 2, page_token = page.next_page_token} "g/b" {next_page_token = ""}
  -- A page that ends with the last item is the last page.
  list{group = "g", page_size = 5} {items = {{}, {}, {}, {}, {}}, next_page_token = ""}
end

-- promise S19
function case.a_group_by_prefix()
  several("a,a*,a*b,ab,b"); list{group = "g", prefix = "a*"} "g/a* g/a*b"
  local page = list{group = "g", prefix = "a", page_size = 2} "g/a g/a*"
  list{group = "g", prefix = "a", page_size = 2, page_token = page.next_page_token} "g/a*b g/ab" {next_page_token = ""}
end

-- promise S20: ListItems of a namespace; bounded; no other namespace
function case.a_namespace_over_all_groups()
  put("a 1", {group = ""}); put "a 2"; put("a:b 3", {group = "g/x}"}); put "b 4"
  put("a? 5", {per_buyer_limit = 3}); deduct "order bob a?:1"; adjust "a 1 adj"
  for namespace, sku in pairs{["def*"] = "a", defaul = "t", other = "a"} do
    harness.namespace(namespace); put(sku .. " 7")
  end
  harness.namespace "default"
  for size = 0, 4 do
    all_pages("", size) "a/a:1 g/a:3 g/a?:4 g/b:4 g/x}/a:b:3"
    all_pages("a", size) "a/a:1 g/a:3 g/a?:4 g/x}/a:b:3"; all_pages("a?", size) "g/a?:4"; all_pages("*", size) ""
  end
  harness.namespace "def*"; all_pages("", 0) "g/a:7"
end

-- promise S20
function case.a_namespace_of_many_keys()
  local expected = {}
  for g = 0, 2 do
    for s = 0, 399 do
      put(("s%d %d"):format(s, s), {group = "g" .. g})
      expected[#expected + 1] = ("g%d/s%d:%d"):format(g, s, s)
    end
    harness.forget()
  end
  -- Many more keys than a call scans.
  eval "for i = 1, 30000 do redis.call('SET', 'ls:{default/g}:stock:o:' .. i, '') end"; table.sort(expected)
  expected = table.concat(expected, " ")
  all_pages("", 0)(expected); all_pages("", 7)(expected)
  -- A call that finds nothing still ends, with a token for more.
  list{prefix = "nothing"} {items = {}, next_page_token = function(token) if token == "" then return "more" end end}
end

function case.a_prefix_is_only_a_prefix()
  several("a,[a]b,x}:stock:i:ab"); deduct "o}:stock:i:ac - a:1" "DEDUCTED..."
  list{prefix = "[a]"} {items = {{sku = "[a]b"}}}; list{prefix = "a"} {items = {{sku = "a"}}}
  list{} {items = {{}, {}, {}}}
end

function case.foreign_data_is_not_listed()
  put "a 1"; redis "SET ls:{default/g}:stock:i:b x"; redis "HSET ls:{default/g}:stock:i:c x y"
  redis "HSET ls:{default/g}:other:i:d available 1"; all_pages("", 0) "g/a:1"
end

-- promise S20
function case.a_page_token_is_checked()
  put "a 1"
  for _, token in ipairs{"x", "G", "Ga b", "G%4", "G%41", "G%e9", "N0", "g"} do
    list{group = "g", page_token = token} "INVALID_ARGUMENT NO page_token:..."
  end
  for _, token in ipairs{"x", "X0", "N", "Nx", "N:", "N0:", "N0:g", "N0:/a", "N0:g/", "N0:g/a:", "N0:g/%41", "N0:g/a}",
    "N0:{x/g/a", "Ga", "N 0", "N-1", "N000000000000000000001", "N0:g/a/b"} do
    list{page_token = token} "INVALID_ARGUMENT NO page_token:..."
  end
  -- A made-up token does not lead out of the caller's namespace.
  harness.namespace "other"; put "b 1"; harness.namespace "default"; list{page_token = "N:g/b"} ""
  list{page_token = "N:g/a"} "g/a"
end

-- promise B3
-- A page of a thousand is made in steps; a page of a namespace is one step.
function case.a_large_page_is_made_in_steps()
  local all
  for i = 0, 1009 do put(("s%04d %d"):format(i, i)) end
  eq(commands_of("fcall", function() all = list{group = "g", page_size = 1000} end), 4)
  eq(#all.items, 1000)
  for i, item in ipairs(all.items) do eq(item.available, i - 1) end
  eq(#list{group = "g", page_size = 1000, page_token = all.next_page_token}.items, 10)
  eq(#list{group = "g", prefix = "s1", page_size = 1000}.items, 10)
  eq(#list{page_size = 1000}.items, within(1, 250))
end

-- promise B3
-- A made-up token of any length is bounded work.
function case.a_page_token_has_a_bounded_number_of_places()
  list{page_token = "N" .. (":g/a"):rep(501)} "INVALID_ARGUMENT NO page_token:..."
  list{page_token = "N" .. (":g/a"):rep(500)} {items = any}
end

-- A scan takes long, so it shares no FCALL.
function case.scans_travel_alone()
  eq(sharing("Stock.ListItems", {}), 1)
end
