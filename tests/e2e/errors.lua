-- The details of an error besides its code, from a server through the client: the reason, and the invalid field.
require "stock"

function setup() server() end

local function fails(got, code, reason, field)
  eq(got.error, {code = code, applied = "NO", reason = reason, field = field})
end

-- promise W19
function case.reasons()
  put "a 10"
  deduct "o1 - a:1" "DEDUCTED a:9"
  fails(deduct "o1 - a:2", "ALREADY_EXISTS", "id_reused", "order_id")
  fails(Stock.PutItem(put_request("a", 10, {expected_version = 7})), "ABORTED", "version_mismatch", "expected_version")
  fails(Stock.PutItem(put_request("a", 10, {must_be_new = true})), "ALREADY_EXISTS", "already_exists", "sku")
  fails(stock "none", "NOT_FOUND", "not_found", "sku")
  fails(adjust "a -100 j1", "FAILED_PRECONDITION", "wrong_state", "delta")
  fails(put_in("a -1", 0), "INVALID_ARGUMENT", "invalid_field", "on_hand")
  fails(deduct "o2 - a:0", "INVALID_ARGUMENT", "invalid_field", "lines[0].quantity")
  stock "a" "9 0 1" -- nothing else has changed
end
