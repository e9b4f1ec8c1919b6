-- envoy.service.ratelimit.v3.RateLimitService: which policy matches a descriptor, and the answer.
require "ratelimit"

local UNITS = {SECOND = 1, MINUTE = 2, HOUR = 3, DAY = 4, MONTH = 5, YEAR = 6, WEEK = 7}
local CODES = {OK = "OK", OVER_LIMIT = "OVER"}

-- "OVER", and for each descriptor ": OK remaining reset limit/unit policy", without unset fields.
lines["RateLimit.ShouldRateLimit"] = function(r)
  local text = CODES[r.overall_code] or "UNKNOWN"
  for _, s in ipairs(r.statuses) do
    local reset, limit = s.duration_until_reset, s.current_limit
    text = text .. ": " .. (CODES[s.code] or "UNKNOWN")
      .. (reset and (" %d %d.%03d"):format(s.limit_remaining, reset.seconds, reset.nanos // 1000000) or "")
      .. (limit and (" %d/%d %s"):format(limit.requests_per_unit, UNITS[limit.unit] or 0, limit.name) or "")
  end
  return text
end

-- "path=/login remote=1.2.3.4; client=bob x3" has two descriptors, the second with a hits_addend of its own; "!5/2"
-- is a limit of its own, of 5 a minute.
local function ask(text, hits, domain)
  local descriptors = {}
  for part in text:gmatch("[^;]+") do
    local d = {entries = {}}
    for _, word in ipairs(split(part)) do
      local name, value = word:match("^(.-)=(.*)$")
      if name then
        d.entries[#d.entries + 1] = {key = name, value = value}
      elseif word:sub(1, 1) == "!" then
        local units, unit = word:match("(%d+)/(%d+)")
        d.limit = {requests_per_unit = math.tointeger(units), unit = math.tointeger(unit)}
      else
        d.hits_addend = {value = word == "x18446744073709551615" and -1 or math.tointeger(word:sub(2))}
      end
    end
    descriptors[#descriptors + 1] = d
  end
  return RateLimit.ShouldRateLimit{domain = domain or "web", hits_addend = hits or 0, descriptors = descriptors}
end

-- promise EV1: a descriptor without a policy is OK and is not counted
function case.a_descriptor_without_a_policy_is_unlimited()
  remember()
  for _ = 1, 3 do ask "client=bob;client=alice x1000000" "OK: OK: OK" end
  unchanged()
end

-- promise EV2: a policy is named by domain and entries; the whole descriptor; namespaces apart
-- promise EV8: duration_until_reset: the longer of reset and retry; remaining
function case.a_policy_is_named_by_domain_and_entries()
  put_policy("web/client", "FIXED 2/1000"); ask "client=bob" "OK: OK 1 1.000 2/1 web/client"
  ask "client=bob" "OK: OK 0 1.000 2/1 web/client"; ask "client=bob" "OVER: OVER 0 1.000 2/1 web/client"
  ask "client=alice" "OK: OK 1 1.000 2/1 web/client"; ask("client=bob", 0, "other") "OK: OK"
  ask "client=bob path=x" "OK: OK"
end

-- promise EV3: the most specific policy wins: value, prefix, key alone; the first entry counts most
function case.the_most_specific_policy_wins()
  put_policy("web/path/client", "FIXED 100/1000"); put_policy("web/path=login/client", "FIXED 50/1000")
  put_policy("web/path=login/client=bob", "FIXED 7/1000")
  ask "path=login client=bob;path=login client=eve;path=home client=bob" (
    "OK: OK 6 1.000 7/1 web/path=login/client=bob: OK 49 1.000 50/1 web/path=login/client: OK 99 1.000 100/1 web/path/client")
  delete_policy "web/path=login/client=bob"
  ask "path=login client=bob" "OK: OK 49 1.000 50/1 web/path=login/client"
end

-- promise EV4: percent-encoded: no value can select a policy other than its key's
function case.no_value_names_another_policy()
  put_policy("web/path=a/client", "FIXED 1/1000"); ask "path=a/client=bob" "OK: OK"
  put_policy("web/path=a%2Fb", "FIXED 5/1000"); ask "path=a/b" "OK: OK 4 1.000 5/1 web/path=a%2Fb"
end

-- promise EV5: each descriptor is decided by itself, in order; overall OVER_LIMIT if any is
function case.descriptors_are_judged_each_by_itself()
  put_policy("web/a", "FIXED 1/1000"); put_policy("web/b", "FIXED 10/1000")
  ask "a=1;b=1" "OK: OK 0 1.000 1/1 web/a: OK 9 1.000 10/1 web/b"
  ask "a=1;c=1;b=1" "OVER: OVER 0 1.000 1/1 web/a: OK: OK 8 1.000 10/1 web/b"
  ask "b=1;b=1" "OK: OK 7 1.000 10/1 web/b: OK 6 1.000 10/1 web/b"
end

-- promise EV6: hits_addend of the descriptor, else the request's, else 1; 0 in a descriptor is a peek
function case.hits_are_the_requests_or_the_descriptors()
  put_policy("web/a", "FIXED 100/1000"); ask("a=1", 10) "OK: OK 90 1.000 100/1 web/a"
  ask("a=1 x5;a=1", 10) "OK: OK 85 1.000 100/1 web/a: OK 75 1.000 100/1 web/a"
  ask "a=1 x76;a=1 x75" "OVER: OVER 75 1.000 100/1 web/a: OK 0 1.000 100/1 web/a"
end

-- promise EV6
-- With 0 hits the answer says whether one would pass.
function case.no_hits_are_a_look()
  put_policy("web/a", "FIXED 1/1000")
  for _ = 1, 3 do ask("a=1 x0", 10) "OK: OK 1 0.000 1/1 web/a" end
  ask "a=1" "OK: OK 0 1.000 1/1 web/a"; ask "a=1 x0" "OVER: OVER 0 1.000 1/1 web/a"
end

-- promise EV7: current_limit with Envoy's units, WEEK = 7; absent when the period is not a unit
function case.units_are_envoys()
  for limit, told in pairs{["9/1000"] = " 9/1 web/a", ["9/60000"] = " 9/2 web/a", ["9/3600000"] = " 9/3 web/a",
    ["9/86400000"] = " 9/4 web/a", ["9/2592000000"] = " 9/5 web/a", ["9/31536000000"] = " 9/6 web/a",
    ["9/604800000"] = " 9/7 web/a", ["9/2000"] = "", ["4294967296/1000"] = ""} do
    put_policy("web/a", "FIXED " .. limit); eq(tostring(ask "a=1 x0"):match("^OK: OK %d+ 0.000(.*)$"), told)
    delete_policy "web/a" "OK"
  end
end

-- promise EV9: a shadow policy is never OVER_LIMIT; a ban is
function case.a_shadow_is_never_over()
  put_policy("web/a", "FIXED 1/1000", {shadow = true}); ask "a=1" "OK: OK 0 1.000 1/1 web/a"
  ask "a=1" "OK: OK 0 1.000 1/1 web/a"
end

-- promise EV18: an unlimited policy is OK, precedes less specific ones, and counts nothing
function case.an_unlimited_policy_is_ok_and_not_counted()
  put_policy("web/client", "FIXED 1/1000"); put_policy("web/client=b*", "FIXED 1/1000")
  put_unlimited "web/client=bob"; ask "client=bob" "OK: OK"
  remember()
  for _ = 1, 3 do ask "client=bob x1000000;client=bob" "OK: OK: OK" end
  unchanged(); ask "client=bill" "OK: OK 0 1.000 1/1 web/client=b*"
  ask "client=bob;client=bill" "OVER: OK: OVER 0 1.000 1/1 web/client=b*"
  ask "client=bob !1/1" "OK: OK 0 1.000 1/1 " -- its own limit comes first
  put_unlimited "web/path=*/client=*"; put_policy("web/path/client", "FIXED 1/1000")
  ask "path=/x client=bob" "OK: OK"; delete_policy "web/client=bob" "OK"
  ask "client=bob" "OK: OK 0 1.000 1/1 web/client=b*"
end

-- promise EV8
-- promise EV9
function case.banned_key_stays_over_its_limit_until_the_ban_ends()
  put_policy("web/a", "FIXED 1/1000 after=1 ban=5000"); ask "a=1" "OK: OK 0 1.000 1/1 web/a"
  ask "a=1" "OVER: OVER 0 5.000 1/1 web/a"
  advance(4000); ask "a=1" "OVER: OVER 1 1.000 1/1 web/a"
  advance(1000); ask "a=1" "OK: OK 0 1.000 1/1 web/a"
end

-- promise EV4
-- promise EV10: the counter is Check's: group domain, key the entries, the policy
function case.the_counter_is_that_of_check()
  put_policy("g/a", "FIXED 10/1000"); ask("a=x/y", 4, "g") "OK: OK 6 1.000 10/1 g/a"
  check "a=x%2Fy @g/a" "ALLOWED: ALLOWED 10 5 0 1000 0"; reset "a=x%2Fy" "OK"
  ask("a=x/y", 0, "g") "OK: OK 9 1.000 10/1 g/a"
end

-- promise EV11: changes of policies take effect within a second, on the same server at once; an unchanged domain is
--   not read again
function case.another_servers_change_is_followed_within_a_second()
  put_policy("web/a", "FIXED 1/60000"); ask "a=1" "OK: OK 0 60.000 1/2 web/a"
  harness.server "other"; put_policy("web/a", "FIXED 5/60000"); put_policy("web/a=1", "FIXED 7/60000")
  harness.server "harness"; advance(1000); ask "a=1" "OK: OK 6 59.000 7/2 web/a=1"
end

-- promise EV2
function case.namespaces_have_policies_of_their_own()
  put_policy("web/a", "FIXED 1/1000"); ask "a=1" "OK: OK 0 1.000 1/1 web/a"
  for _, other in ipairs{"elsewhere", "defaulx"} do harness.namespace(other); ask "a=1" "OK: OK" end
end

-- promise EV13: a descriptor that fails hides no other descriptor, and no value makes the call fail
function case.descriptor_that_cannot_be_judged_hides_no_other()
  put_policy("web/a", "FIXED 1/1000"); ask "a=1;x1;b=1 =2;c=1" "OK: OK 0 1.000 1/1 web/a: UNKNOWN: UNKNOWN: OK"
  ask(("a=1 "):rep(17) .. ";a=1") "OVER: UNKNOWN: OVER 0 1.000 1/1 web/a"
  advance(1000); ask "a=1 x9007199254740992;b=1" "OVER: OVER 1 0.000 1/1 web/a: OK"
  ask "a=1 x18446744073709551615" "OVER: OVER 1 0.000 1/1 web/a"
end

-- promise EV14: a long value is hashed as a whole; its prefix still matches
function case.a_long_value_is_limited_like_any_other()
  put_policy("web/a", "FIXED 2/1000")
  for _, length in ipairs{129, 1024, 70000, 149997} do
    ask("a=" .. long(length)) "OK: OK 1 1.000 2/1 web/a"
    ask("a=" .. long(length), 2) "OVER: OVER 1 1.000 2/1 web/a"
    ask("a=" .. long(length - 1) .. "y", 2) "OK: OK 0 1.000 2/1 web/a"
  end
  put_policy("web/a=xx*", "FIXED 9/1000"); ask("a=" .. long(149996) .. "y") "OK: OK 8 1.000 9/1 web/a=xx*"
end

-- promise EV14
-- Its counter can be reset: SHA-256 of 200 times x.
function case.a_long_value_has_a_short_name()
  put_policy("g/a", "FIXED 5/1000"); ask("a=" .. long(200), 0, "g") "OK: OK 4 1.000 5/1 g/a"
  reset "a=$aa20c23e3201834050679e1d88941b9a6fed0557c9a705cb2c315e2e63fd486d" "OK"
  ask("a=" .. long(200), 0, "g") "OK: OK 4 1.000 5/1 g/a"
  ask("a=" .. long(128), 0, "g") "OK: OK 4 1.000 5/1 g/a" -- as it is
  put_policy("a=" .. long(128), "FIXED 5/1000") "INVALID_ARGUMENT NO name:..."
end

-- promise EV13
-- Bytes that are not UTF-8, and NUL, are ordinary values.
function case.values_are_bytes()
  local function of(value)
    return RateLimit.ShouldRateLimit{domain = "web", descriptors = {{entries = {{key = "a", value = value}}}}}
  end
  put_policy("web/a", "FIXED 2/1000"); put_policy("web/a=x%FF%FE%00y", "FIXED 5/1000")
  of "x\xff\xfe\0y" "OK: OK 4 1.000 5/1 web/a=x%FF%FE%00y"; of "x\xff\xfe\0z" "OK: OK 1 1.000 2/1 web/a"
end

-- promise EV15: a star at the end of a value matches any rest; any entry may have no value
function case.star_matches_the_rest_of_a_value()
  put_policy("web/path", "FIXED 100/1000"); put_policy("web/path=%2Fapi%2F*", "FIXED 50/1000")
  put_policy("web/path=%2Fapi%2Fv1*", "FIXED 20/1000"); put_policy("web/path=%2Fapi%2Fv1", "FIXED 5/1000")
  ask "path=/api/v1;path=/api/v1/x;path=/api/v2;path=/api" (
    "OK: OK 4 1.000 5/1 web/path=%2Fapi%2Fv1: OK 19 1.000 20/1 web/path=%2Fapi%2Fv1*"
    .. ": OK 49 1.000 50/1 web/path=%2Fapi%2F*: OK 99 1.000 100/1 web/path")
  put_policy("web/path=*", "FIXED 70/1000"); ask "path=/other" "OK: OK 69 1.000 70/1 web/path=*"
  ask "path=*" "OK: OK 69 1.000 70/1 web/path=*" -- no star of a request is one
  put_policy("web/path=*/client=b*", "FIXED 7/1000")
  ask "path=/api client=bob;path=/api client=eve" "OK: OK 6 1.000 7/1 web/path=*/client=b*: OK"
end

-- promise EV15
function case.any_entry_may_go_without_its_value()
  put_policy("web/path/client=bob", "FIXED 30/1000"); put_policy("web/path=login/client/agent=x", "FIXED 3/1000")
  ask "path=login client=bob;path=login client=eve" "OK: OK 29 1.000 30/1 web/path/client=bob: OK"
  put_policy("web/path=login/client", "FIXED 20/1000")
  ask "path=login client=bob" "OK: OK 19 1.000 20/1 web/path=login/client"
  ask "path=login client=bob agent=x;path=login client=bob agent=y"
    "OK: OK 2 1.000 3/1 web/path=login/client/agent=x: OK"
  ask "path=login;client=bob" "OK: OK: OK" -- whole descriptors only
end

-- promise EV16: a descriptor's own limit precedes policies and has one counter
function case.a_limit_that_comes_along_counts()
  put_policy("web/a", "FIXED 100/1000"); ask "a=1 !2/2" "OK: OK 1 60.000 2/2 "
  ask "a=1 !2/2;a=1" "OK: OK 0 60.000 2/2 : OK 99 1.000 100/1 web/a"
  ask "a=1 !2/2;a=2 !2/2" "OVER: OVER 0 60.000 2/2 : OK 1 60.000 2/2 "
  ask "a=1 !5/2" "OK: OK 2 60.000 5/2 " -- what was charged stays
  ask "a=3 !0/1" "OVER: OVER 0/1 "; ask "a=3 !7/0;a=3 !7/9" "OK: OK 99 1.000 100/1 web/a: OK 98 1.000 100/1 web/a"
end

-- promise EV17: a domain may have many policies, up to 10,000
-- More policies than a page holds, names with the same beginning, and one that is deleted.
function case.a_domain_may_have_many_policies()
  put_policy("web0/a", "FIXED 1/1000"); put_policy("web-/a", "FIXED 1/1000")
  for i = 0, 449 do put_policy("web/a=" .. i, "FIXED 9/1000") {policy = any} end
  for i = 0, 449, 7 do ask("a=" .. i)("OK: OK 8 1.000 9/1 web/a=" .. i) end
  ask "a=450;a=44x" "OK: OK: OK"; delete_policy "web/a=449" "OK"; ask "a=449" "OK: OK"
end

-- promise EV12: a request without a domain, or without or with too many descriptors, is INVALID_ARGUMENT and named
function case.invalid_request_is_named()
  ask("a=1", 0, "") "INVALID_ARGUMENT NO domain:..."; ask "" "INVALID_ARGUMENT NO descriptors:..."
  ask(("a=1;"):rep(17)) "INVALID_ARGUMENT NO descriptors:..."
end
