-- Results of any content and size are replayed byte for byte; and the cost of a record.
-- promise I16: byte-identical replay: zero bytes, code, headers in order, 256 KiB
require "idempotency"

-- Completes the key; Begin and Get return it then.
local function keeps(k, result)
  result = with({code = 200, body = "", headers = {}}, result)
  begin(k .. " T1"); Idempotency.Complete(with({scope = "s", key = k, fence = fence()}, result)) "STORED"
  begin(k .. " T2") {outcome = "REPLAY", result = result}
  pass(2000); get(k) {record = {result = result}}
end

function case.every_byte_comes_back()
  local bytes = {}
  for i = 0, 255 do bytes[#bytes + 1] = string.char(i) end -- zero bytes, no UTF-8, "\r\n"
  keeps("k", {body = table.concat(bytes)})
end

function case.headers_keep_their_order()
  keeps("k", {code = 201, headers = {{key = "Set-Cookie", value = "b=2"}, {key = "Location", value = "/orders/7"},
    {key = "Set-Cookie", value = "a=1"}, {key = "set-cookie", value = ""}, {key = "x", value = "\u{e4} \r\n \x01"}}})
end

function case.codes_are_the_callers()
  for i, code in ipairs{0, 1, -1, 200, 503, 2147483647, -2147483648} do keeps("k" .. i, {code = code, body = "x"}) end
end

function case.the_largest_result()
  local words = {}
  for i = 1, 32768 do words[i] = string.pack("<I8", i * 2654435761 << 13 | i) end
  keeps("k", {body = table.concat(words), headers = repeated(32, function(i)
    local letter = string.char(97 + i % 26)
    return {key = letter:rep(128), value = letter:rep(4096)}
  end)})
end

-- The figures of docs/idempotency.md.
function case.what_a_record_costs()
  local function bytes_of(name) return redis_number("MEMORY", "USAGE", key(name), "SAMPLES", "0") end
  local k, print16 = "order-0123456789", {fingerprint = "0123456789abcdef"}
  begin(k .. " 0123456789abcdef0123456789abcdef", print16); wait("S1 " .. k .. " T2", print16) "WAITS"
  redis("SADD", key("w:" .. k), "0123456789abcdefghijklmnopqrstuv") -- a real id
  eq(bytes_of("r:" .. k), within(1, 350)); eq(bytes_of("w:" .. k), within(1, 350))
  complete(k .. " 200 " .. long(30)) "STORED"; eq(bytes_of("r:" .. k), within(1, 400))
  forget(k); begin(k .. " 0123456789abcdef0123456789abcdef")
  complete(k .. " 200 " .. long(1000), {headers = {{key = "Location", value = "/orders/7"}}}) "STORED"
  eq(bytes_of("r:" .. k), within(1, 2100))
  local ticket = issue(60000, "user-0123456789")
  consume(ticket, nil, {subject = "user-0123456789", consumer_id = "0123456789abcdef0123456789abcdef"}) "CONSUMED"
  eq(bytes_of("t:" .. ticket), within(1, 250))
end
