-- StockService: per-buyer limits of a group in buckets. A buyer's orders may be in any bucket, so they are counted in
-- the bucket of the buyer's id: an order claims its units there first. A claim does not prove an order: the order may
-- have been refused, cancelled or returned since, or may never come. When a buyer's claims exceed the limit, the server
-- replaces them by the units of their orders (stock_settle_claims).
--
-- An order may be made for CLAIM_US after its claim. If there is none after CLAIM_GONE_US, none will come, provided
-- that the clocks of two nodes differ by less than the difference of the two times.
--
-- In a bucket:
--   stock:b:<sku>  hash  buyer -> MessagePack of the buyer's claims: order_id, units, when (us)...
local CLAIM_US, CLAIM_GONE_US = 5000000, 15000000
local CLAIM = 3 -- words of a claim

-- The key of a buyer's claims; in groups that are not in buckets it has the counts of buyers.
local function claims_key(s, sku)
  return s.base .. 'stock:b:' .. encode(sku)
end

local function claims_of(s, sku, buyer)
  local text = field_of(s, claims_key(s, sku), buyer)
  if not text then return {} end
  local ok, claims = pcall(cmsgpack.unpack, text)
  if not ok or type(claims) ~= 'table' then foreign() end
  return claims
end

local function put_claims(s, sku, buyer, claims)
  put_field(s, claims_key(s, sku), buyer, #claims > 0 and cmsgpack.pack(claims))
end

-- Returns the place of an order's claim; nil: none.
local function claim_at(claims, id)
  for c = 1, #claims, CLAIM do
    if claims[c] == id then return c end
  end
  return nil
end

local function remove_claim(claims, c)
  for _ = 1, CLAIM do table.remove(claims, c) end
end

-- -> {'CLAIMED', when, 1 if there was a claim already}, {'NO_ITEM'}: the bucket lacks an item
--    {'OVER', {place from 0, available here, then order_id, when of each other claim}...}: nothing was claimed
define_pass('stock_claim', {}, function(s, id, buyer, ...)
  local lines, over, claimed, again = {...}, {'OVER'}, {}, 0
  for i = 1, #lines, 2 do
    local item, quantity = item_of(s, lines[i]), tonumber(lines[i + 1])
    if not item then return {'NO_ITEM'} end
    local claims = item[LIMIT] < 0 and claims_of(s, lines[i], buyer) or {}
    local c = claim_at(claims, id)
    if c then again = 1 else c = #claims + 1 end
    claims[c], claims[c + 1], claims[c + 2] = id, quantity, clock()
    local sum, others = 0, {(i - 1) / 2, item[AVAILABLE]}
    for n = 1, #claims, CLAIM do
      sum = sum + claims[n + 1]
      if n ~= c then others[#others + 1], others[#others + 2] = claims[n], claims[n + 2] end
    end
    if item[LIMIT] < 0 then
      claimed[lines[i]] = claims
      if sum > -item[LIMIT] then over[#over + 1] = others end
    end
  end
  if over[2] then return over end
  for sku, claims in pairs(claimed) do put_claims(s, sku, buyer, claims) end
  return {'CLAIMED', clock(), again}
end, SHARED)

-- units: the units of a claim's order; -1: no such order. -> {'OK'}
define_pass('stock_settle_claims', {'allow-oom'}, function(s, buyer, ...)
  local settled = {...}
  for i = 1, #settled, 4 do
    local sku, at, units = settled[i], tonumber(settled[i + 2]), tonumber(settled[i + 3])
    local claims = claims_of(s, sku, buyer)
    local c = claim_at(claims, settled[i + 1])
    if c and claims[c + 2] == at and (units >= 0 or clock() > at + CLAIM_GONE_US) then
      if units > 0 then claims[c + 1] = units else remove_claim(claims, c) end
      put_claims(s, sku, buyer, claims)
    end
  end
  return {'OK'}
end, SHARED)

-- For an order that was refused. -> {'OK'}
define_pass('stock_unclaim', {'allow-oom'}, function(s, id, buyer, at, ...)
  for _, sku in ipairs({...}) do
    local claims = claims_of(s, sku, buyer)
    local c = claim_at(claims, id)
    if c and claims[c + 2] == tonumber(at) then
      remove_claim(claims, c)
      put_claims(s, sku, buyer, claims)
    end
  end
  return {'OK'}
end, SHARED)
