-- Who may do what, on a real lockstockd: every right against every method, over each transport that tells who calls;
-- files that change; with which settings it starts; and nothing secret in its log.
-- promise K10
-- promise F8

-- What no log may have; SECRET is the end of every token.
local SECRET, PASSWORD, PAYLOAD = "-token-e07a", "store-password-5f1c", "payload-9b2e"
local DAY_S = 86400
local POLICY = [[
[ops]
* = READ, WRITE, ADMIN
[shop]
namespace = shop
certificate = shop.internal
StockService = READ, WRITE
[auditor]
certificate = auditor
* = READ
[nothing]
namespace = shop
[looks]
ServerReflection = READ
]]
local TOKENS = {"ops", "auditor", "nothing", "looks"} -- and two of "shop", which end

local dir, ours, others -- others: an authority that is not trusted
local s, tcp, urls

local function file(name) return dir .. "/" .. name end
local function output_of(command)
  local pipe = io.popen(command)
  local text = pipe:read "a"
  pipe:close()
  return text
end

local function token_line(name, principal, until_s)
  local digest = output_of(("printf %%s '%s' | sha256sum"):format(name .. SECRET)):match "^%x+"
  return ("%s %s %s\n"):format(digest, principal or name, until_s or "")
end
-- "name" is the token of the principal with that name; "name principal" that of another.
local function write_tokens(names, more)
  local text = more or ""
  for _, name in ipairs(names) do text = text .. token_line(table.unpack(split(name))) end
  write(file "tokens", text)
end
local function write_policy(more) write(file "policy", POLICY .. (more or "")) end
local function write_certificates(server_name)
  ours:write(file "ca")
  ours:write(file "client-ca")
  ours:sign(file "server", {common = server_name, dns = "localhost"})
end

function setup()
  dir, ours, others = world.dir(), world.authority "ours", world.authority "ours"
  ours:sign(file "shop", {common = "anybody", dns = "shop.internal"})
  ours:sign(file "auditor", {common = "auditor"})
  ours:sign(file "unknown", {common = "unknown"})
  ours:sign(file "expired", {dns = "shop.internal", from_s = -7200, until_s = -3600})
  others:sign(file "foreign", {dns = "shop.internal"})
  write_policy()
  write_tokens(TOKENS, token_line("shop", "shop", os.time() + DAY_S) .. token_line("shop-ended", "shop", os.time() - 1))
  write_certificates "first"
end

local function store_url(password) return (store:url():gsub("^unix://", "unix://:" .. password .. "@")) end

-- A server with all files, which listens on tcp and on all `urls`, and a caller over tcp.
local function start_server()
  store = world.redis()
  redis("CONFIG SET requirepass " .. PASSWORD)
  urls = {tls = "tls://127.0.0.1:0", wss = "wss://127.0.0.1:0/calls", grpcs = "grpcs://127.0.0.1:0", unix = "unix://" .. file "s"}
  local args = {"--policy", file "policy", "--tokens", file "tokens", "--tls-certificate", file "server", "--tls-key",
    file "server.key", "--tls-client-ca", file "client-ca", "--allow-unsafe-store", "--log-level=debug"}
  for _, url in pairs(urls) do args[#args + 1] = "--listen=" .. url end
  s = world.server{store = store_url(PASSWORD), args = args}
  for scheme in pairs(urls) do urls[scheme] = s:output():match("event=listening url=(" .. scheme .. "://%S+)") end
  tcp = world.caller(s:url())
end

-- nil when it is not let in.
local function secured(url, certificate)
  return world.caller(url, {ca = file "ca", certificate = certificate and file(certificate)})
end

local function reload(event)
  s:signal "HUP"
  s:line("event=" .. (event or "reloaded"))
end

local REFUSED = {UNAUTHENTICATED = "the caller is not known", PERMISSION_DENIED = "the caller may not do this"}

-- The code of an answer to a call with any token, or none. A refusal has no effect, one text, and nothing else in it.
local function code_of(c, method, request, token, ns)
  local got = c:ask(method, request, token, ns)
  if REFUSED[got.code] then
    eq(got, {applied = "NO", message = REFUSED[got.code], bare = true, says_when = false})
  end
  return got.code
end
local function asks(c, method, request, token, ns) return code_of(c, method, request, token and token .. SECRET, ns) end
local function gets(c, sku, token, ns) return asks(c, "Stock.GetItem", {sku = sku}, token, ns) end
local function puts(c, sku, token, ns) return asks(c, "Stock.PutItem", {sku = sku, on_hand = 5}, token, ns) end

-- ---- the matrix ----

-- Everyone who is known may ask who it is taken for.
local function needs_no_right(method) return method.name == "Admin.WhoAmI" end

-- promise A2: a right is an effect in a service; each right allows its methods and no other: PERMISSION_DENIED, NO
function case.each_right_allows_its_methods_and_no_other()
  local policy, principals, allowed = "", {}, 0
  for _, service in ipairs(split "Lock Stock Idempotency RateLimit Id Guard Admin") do
    for _, effect in ipairs(split "READ WRITE ADMIN") do
      principals[#principals + 1] = {name = service .. effect, service = service, effect = effect}
      policy = ("%s[%s%s]\n%sService = %s\n"):format(policy, service, effect, service, effect)
    end
  end
  write_policy(policy)
  local names = {}
  for i, p in ipairs(principals) do names[i] = p.name end
  write_tokens(names)
  start_server()
  for _, p in ipairs(principals) do
    for _, method in ipairs(world.methods()) do
      local may = method.service == p.service and method.effect == p.effect
      local code = asks(tcp, method.name, nil, p.name)
      eq({p.name, method.name, not REFUSED[code]}, {p.name, method.name, may or needs_no_right(method)})
      allowed = allowed + (may and 1 or 0)
    end
  end
  eq(allowed, #world.methods())
end

function case.who_am_i_returns_the_principal_and_its_rights()
  start_server()
  local function who(c, token) return c:ask("Admin.WhoAmI", nil, token and token .. SECRET).response end
  local function right(service, admin) return {service = service, read = true, write = true, admin = admin} end
  local now = world.now_us() // 1000
  local shop = {policy = true, principal = "shop", namespace = "shop", rights = {right("StockService", false)}}
  eq(who(tcp, "shop"), with(shop, {token_ends_at_ms = within(now, now + DAY_S * 1000)}))
  eq(who(secured(urls.tls, "shop")), with(shop, {token_ends_at_ms = 0}))
  eq(who(tcp, "ops"), {principal = "ops", namespace = "", rights = {right("*", true)}, token_ends_at_ms = 0})
  eq(who(tcp, "nothing"), {principal = "nothing", rights = {}})
end

-- promise A1: with a policy file an unknown caller may do nothing: UNAUTHENTICATED, NO
function case.unknown_caller_is_unauthenticated()
  start_server()
  local tokens = {"", "unknown", "shop-ended" .. SECRET, "ops", "OPS" .. SECRET}
  for _, c in ipairs{tcp, assert(secured(urls.tls)), assert(secured(urls.tls, "unknown")), assert(secured(urls.wss))} do
    for t = 0, #tokens do -- tokens[0]: none
      for _, method in ipairs(world.methods()) do code_of(c, method.name, nil, tokens[t]) "UNAUTHENTICATED" end
      code_of(c, "/lockstock.v1.StockService/NoSuchMethod", nil, tokens[t]) "UNAUTHENTICATED"
    end
  end
  for _, method in ipairs(world.methods()) do
    asks(tcp, method.name, nil, "nothing")(needs_no_right(method) and "OK" or "PERMISSION_DENIED")
  end
  asks(tcp, "/lockstock.v1.StockService/NoSuchMethod", nil, "nothing") "UNIMPLEMENTED"
end

-- Over TLS in plain and under WebSocket.
-- promise A4
-- promise A6: a client certificate is requested and must be valid now, signed by the authority, and meant for clients
function case.a_certificate_is_a_principal()
  start_server()
  for _, url in ipairs{urls.tls, urls.wss} do
    eq({secured(url, "foreign"), secured(url, "expired")}, {})
    local c = secured(url, "shop")
    puts(c, "by-certificate") "OK"
    gets(c, "by-certificate", nil, "shop") "OK"
    asks(c, "Lock.Inspect") "PERMISSION_DENIED"
    -- A token counts before it, for more and for less.
    gets(c, "by-certificate", "auditor") "NOT_FOUND"
    puts(c, "by-certificate", "auditor") "PERMISSION_DENIED"
    gets(c, "by-certificate", "wrong") "UNAUTHENTICATED"
  end
  local c = secured(urls.wss)
  puts(c, "by-token", "shop") "OK"
  puts(c, "by-token", "auditor") "PERMISSION_DENIED"
end

-- promise A4
function case.a_uid_is_a_principal()
  write_policy(("[box]\nuid = %d\nnamespace = box\nStockService = READ, WRITE\n"):format(output_of "id -u"))
  start_server()
  local c = world.caller(urls.unix)
  puts(c, "by-uid") "OK"
  gets(c, "by-uid", nil, "box") "OK"
  gets(c, "by-uid", nil, "shop") "PERMISSION_DENIED"
  gets(c, "by-uid", "shop") "NOT_FOUND"
  gets(c, "by-uid", "wrong") "UNAUTHENTICATED"
  gets(tcp, "by-uid") "UNAUTHENTICATED" -- which has no uid
  write_policy()
  reload()
  gets(c, "by-uid") "UNAUTHENTICATED"
end

-- promise A3: a principal stays in its namespace; a refusal does not show what exists
function case.a_principal_stays_in_its_namespace()
  start_server()
  puts(tcp, "apart", "shop") "OK"
  gets(tcp, "apart", "ops", "shop") "OK"
  gets(tcp, "apart", "ops") "NOT_FOUND"
  for _, elsewhere in ipairs{"default", "other", "sho", "shopx", "Shop", "shop "} do
    gets(tcp, "apart", "shop", elsewhere) "PERMISSION_DENIED"
    puts(tcp, "apart", "shop", elsewhere) "PERMISSION_DENIED"
  end
end

-- promise A3
-- The same for what is there and for what is not: code_of looks at all the rest.
function case.refusal_does_not_reveal_what_exists()
  start_server()
  for _, ns in ipairs{"shop", "other"} do
    puts(tcp, "there", "ops", ns) "OK"
    asks(tcp, "Lock.Acquire", {token = token_of "T", owner = "o", lease_ms = 60000, targets = {{name = "there"}}}, "ops", ns) "OK"
  end
  for _, who in ipairs{{}, {"unknown"}, {"shop-ended", "shop"}, {"nothing"}, {"shop", "other"}, {"looks", "shop"}} do
    local token, ns = who[1], who[2]
    for _, ask in ipairs{gets, puts, function(c, name) return asks(c, "Lock.Inspect", {name = name}, token, ns) end} do
      local code = ask(tcp, "there", token, ns)
      eq(REFUSED[code], any)
      ask(tcp, "missing", token, ns)(code)
    end
  end
  -- NO was true: nothing else is there.
  for _, ns in ipairs{"shop", "other", "default"} do gets(tcp, "missing", "ops", ns) "NOT_FOUND" end
end

-- The library, with its token, over what it dials.
-- promise A13
function case.client_library_sends_its_token()
  start_server()
  for token, said in pairs{["shop" .. SECRET] = "OK", ["auditor" .. SECRET] = "PERMISSION_DENIED NO...",
    wrong = "UNAUTHENTICATED NO...", [false] = "UNAUTHENTICATED NO..."} do
    use(open(s:url(), {token = token or nil}))
    Stock.PutItem{sku = "by-the-library", on_hand = 1}(said)
  end
  gets(tcp, "by-the-library", "ops", "shop") "OK"
end

-- gRPC over TLS, by its own client, with health and reflection.
-- promise A2
function case.grpc_applies_the_same_policy()
  start_server()
  world.process{"/usr/bin/python3", world.source .. "/tests/e2e/admission_grpc.py", urls.grpcs:sub(9), dir, SECRET}:ended(0)
end

-- ---- files that change ----

-- The old, both, the new: no moment without one that counts.
-- promise A10
function case.tokens_rotate()
  start_server()
  for _, step in ipairs{{{"old shop"}, "OK", "UNAUTHENTICATED"}, {{"old shop", "new shop"}, "OK", "OK"},
    {{"new shop"}, "UNAUTHENTICATED", "OK"}} do
    write_tokens(step[1])
    reload()
    puts(tcp, "rotated", "old")(step[2])
    puts(tcp, "rotated", "new")(step[3])
  end
end

-- promise A10: SIGHUP replaces tokens and certificates and keeps connections; one wrong file leaves everything
--   unchanged
function case.certificates_rotate()
  start_server()
  local old = secured(urls.tls, "shop")
  old:server_name() "first"
  write_certificates "second"
  others:write(file "client-ca") -- who signs clients changes too
  reload()
  local new = secured(urls.tls, "foreign") -- is not foreign any more
  new:server_name() "second"
  puts(new, "by-both") "OK"
  eq(secured(urls.tls, "shop"), nil)
  gets(old, "by-both") "OK" -- lives on
end

local function log_has_no_secret()
  for _, secret in ipairs{SECRET, PASSWORD, PAYLOAD, "PRIVATE KEY", "earer"} do eq(s:output():find(secret, 1, true), nil) end
end

-- One wrong file, and none of them counts.
-- promise A10
function case.a_wrong_file_leaves_all_as_it_was()
  start_server()
  local ca = read_file(file "ca")
  write_certificates "second"
  local good = {policy = POLICY .. "[new]\n* = READ\n", tokens = token_line("new", "shop")}
  for _, name in ipairs{"server", "server.key", "client-ca"} do good[name] = read_file(file(name)) end
  for wrong in pairs(good) do
    for _, text in ipairs{"nonsense " .. SECRET .. "\n", false} do -- false: it is gone
      for name, as_it_should_be in pairs(good) do write(file(name), as_it_should_be) end
      if text then write(file(wrong), text) else os.remove(file(wrong)) end
      reload "not-reloaded"
      write(file "ca", ca)
      local secure = secured(urls.tls, "shop")
      secure:server_name() "first"
      gets(secure, "x") "NOT_FOUND"
      gets(tcp, "x", "shop") "NOT_FOUND"
      gets(tcp, "x", "auditor") "NOT_FOUND"
      gets(tcp, "x", "new") "UNAUTHENTICATED"
    end
  end
  log_has_no_secret()
end

-- The policy is a pipe: whoever reads it waits for its writer. A second signal comes while the first reload waits.
function case.slow_policy_file_does_not_block_calls()
  start_server()
  os.execute(("cd %s && rm policy && mkfifo -m 600 policy"):format(dir))
  s:signal "HUP"
  for i = 1, 2 do
    local pipe = io.open(file "policy", "w") -- until it is read
    gets(tcp, "x", "shop") "NOT_FOUND"
    if i == 1 then s:signal "HUP" end
    gets(tcp, "x", "auditor") "NOT_FOUND"
    pipe:write(POLICY)
    pipe:close()
    s:line "event=reloaded"
  end
  gets(tcp, "x", "shop") "NOT_FOUND"
end

-- ---- starting ----

local TLS = "--tls-certificate server --tls-key server.key "

-- With an address and some of the files lockstockd does not start, and says why; it never comes to the store.
local function refused(url, flags, text, code)
  local argv = {world.program, "--listen", url, "--store", "unix://" .. file "no-redis"}
  for _, flag in ipairs(split(flags)) do argv[#argv + 1] = flag:match "^%-%-" and flag or file(flag) end
  eq(world.process(argv):ended(code or 2), containing(text))
end

-- 192.0.2.1 is nobody's (RFC 5737): past the rule it cannot be bound.
-- promise A11: addresses other than loopback need TLS and a policy, or --insecure; a setting without effect is refused
function case.beyond_this_machine_only_safe_or_insecure()
  for _, row in ipairs{
    {"tcp://192.0.2.1:7700"}, {"tcp://0.0.0.0:0"}, {"tcp://*:0"}, {"tcp://[::]:0"}, {"tcp://127.0.0.1.example:0"},
    {"ws://0.0.0.0:0"}, {"tcp://192.0.2.1:7700", "--policy policy"}, {"grpc://192.0.2.1:7700", "--policy policy"},
    {"nng+tcp://192.0.2.1:7700", "--policy policy"}, {"nng+ws://192.0.2.1:7700/x", "--policy policy"},
    {"ws://192.0.2.1:7700/x", "--policy policy"}, {"wss://192.0.2.1:7700/x", TLS}, {"tls://192.0.2.1:7700", TLS},
    {"grpcs://192.0.2.1:7700", TLS}, {"tls://192.0.2.1:7700", TLS .. "--tls-client-ca client-ca --tls-client-required"}} do
    refused(row[1], row[2] or "", "an address that other machines can reach", 78)
  end
  for _, row in ipairs{
    {"wss://192.0.2.1:7700/x", TLS .. "--policy policy"}, {"tls://192.0.2.1:7700", TLS .. "--policy policy"},
    {"grpcs://192.0.2.1:7700", TLS .. "--policy policy"}, {"tcp://192.0.2.1:7700", "--insecure"},
    {"tls://192.0.2.1:7700", TLS .. "--insecure"}, {"grpc://192.0.2.1:7700", "--insecure --policy policy"}} do
    refused(row[1], row[2], "not available", 1)
  end
end

-- promise WS8: origins that are none, or that no address would heed, are refused
-- promise A11
function case.settings_that_would_do_nothing_are_refused()
  local tcp_url, tls_url, ws_url = "tcp://127.0.0.1:0", "tls://127.0.0.1:0", "ws://127.0.0.1:0"
  refused(tls_url, "", "--tls-certificate and --tls-key", 78)
  refused("wss://127.0.0.1:0/x", "", "--tls-certificate and --tls-key", 78)
  refused(tcp_url, "--console", "needs an http:// or https:// address")
  refused(tcp_url, "--allow-origin=https://shop.example", "needs a ws:// or wss:// address")
  for _, origin in ipairs{"*", "null", "https://*.shop.example", "https://shop.example/"} do
    refused(ws_url, "--allow-origin=" .. origin, "must be scheme://host")
  end
  refused(ws_url .. "/a?b", "", "the path must begin with /")
  refused(tcp_url, "--tls-certificate server", "need each other")
  refused(tcp_url, "--tls-key server.key", "need each other")
  refused(tls_url, "--tls-certificate nowhere --tls-key server.key", "nowhere: No such file or directory")
  refused(tls_url, "--tls-certificate nowhere --tls-key server.key", ": --tls-certificate: /")
  refused(tls_url, "--tls-certificate server --tls-key nowhere", ": --tls-key: /")
  refused(tls_url, TLS .. "--tls-client-ca server.key", ": --tls-client-ca: /")
  refused(tcp_url, "--tls-client-ca client-ca", "needs --tls-certificate")
  refused(tcp_url, "--tls-client-required", "needs --tls-client-ca")
  refused(tls_url, TLS .. "--tls-client-required", "needs --tls-client-ca")
  refused(tcp_url, "--tokens tokens", "tokens need a policy")
  refused(tcp_url, "--policy nowhere", (": --policy: %s: cannot be read: No such file"):format(file "nowhere"))
  refused(tcp_url, "--policy policy --tokens nowhere",
    (": --tokens: %s: cannot be read: No such file"):format(file "nowhere"))
end

-- What the commands of docs/security.md make, in place of the test's own files.
function case.commands_of_the_page_make_files_that_the_server_accepts()
  start_server()
  local script = "set -e; umask 077; mkdir page; cd page\n"
  for commands in read_file(world.source .. "/docs/security.md"):gmatch "<!%-%- commands %-%->\n```sh\n(.-)```" do
    script = script .. commands
  end
  script = script .. "cp tokens ../tokens; cp lockstock.pem ../server; cp lockstock.key ../server.key; cp ca.pem ../client-ca\n"
    .. "mv ca.pem ../ca; mv shop.pem ../shop; mv shop.key ../shop.key; mv shop.token .."
  eq(os.execute("cd " .. dir .. "\n" .. script), true)
  reload()
  local c = secured(urls.tls, "shop")
  c:server_name() "lockstock"
  gets(c, "missing", nil, "shop") "NOT_FOUND"
  code_of(tcp, "Stock.GetItem", {sku = "missing"}, read_file(file "shop.token"):match "%x+") "NOT_FOUND"
end

-- ---- the log ----

-- Some lines a second are written of a kind: so a call is refused until its line is there.
local function refusal_is_logged(wire, refuse)
  local line = "method=/lockstock.v1.IdService/Decode wire=" .. wire .. " from=127.0.0.1"
  until_(function()
    refuse() "UNAUTHENTICATED"
    world.pause()
    return s:output():find(line, 1, true)
  end)
end

-- promise K12: a refused call is logged with transport, address, code and reason; an ADMIN call with caller, action
--   and outcome
-- promise A12: no token, payload or password in the log, at debug
function case.refused_calls_are_logged_and_no_secret_is()
  write_tokens({"ops", "nothing", "shop"}, token_line("shop-ended", "shop", os.time() - 1))
  start_server()
  for wire, c in pairs{tcp = tcp, tls = assert(secured(urls.tls)), wss = assert(secured(urls.wss))} do
    refusal_is_logged(wire, function() return asks(c, "Id.Decode", nil, "wrong") end)
  end
  write(file "empty", ("\0"):rep(5)) -- a message of gRPC
  refusal_is_logged("grpcs", function()
    local said
    until_(function() -- curl 7.88 may drop an answer that is followed by RST_STREAM
      said = output_of(("curl -sk --http2 -D - -H 'content-type: application/grpc' -H 'te: trailers' -H 'authorization: Bearer wrong%s'"
        .. " --data-binary @%s https://%s/lockstock.v1.IdService/Decode"):format(SECRET, file "empty", urls.grpcs:sub(9)))
      return said ~= ""
    end)
    return said:find("grpc-status: 16", 1, true) and "UNAUTHENTICATED" or said
  end)
  until_(function()
    asks(tcp, "Id.Decode", nil, "shop-ended") "UNAUTHENTICATED"
    world.pause()
    return s:output():find('principal=shop method=/lockstock%.v1%.IdService/Decode wire=tcp from=%S+ code=UNAUTHENTICATED reason="its token has ended"')
  end)
  asks(tcp, "Lock.Acquire", {token = PAYLOAD .. "-of-the-lock", owner = PAYLOAD, lease_ms = 60000, targets = {{name = PAYLOAD}}},
    "ops") "OK"
  puts(tcp, PAYLOAD, "shop") "OK"
  puts(tcp, PAYLOAD, "nothing") "PERMISSION_DENIED"
  write_tokens({}, "nonsense " .. SECRET .. "\n")
  reload "not-reloaded"
  for _, text in ipairs{"event=listening", 'code=UNAUTHENTICATED reason="the caller is not known"',
    'code=PERMISSION_DENIED reason="the caller may not do this"'} do
    eq(s:output(), containing(text))
  end
  log_has_no_secret()
end

-- Neither when the store refuses it, at once and later.
-- promise A12
function case.no_password_is_logged_when_the_store_refuses()
  start_server()
  local p = world.process{world.program, "--listen", "tcp://127.0.0.1:0", "--store", store_url("wrong-" .. PASSWORD),
    "--log-level", "debug"}
  p:line "event=not-ready"
  p:signal "TERM"
  eq(p:ended(0):find(PASSWORD, 1, true), nil)
end

-- Who did it, to what, and what became of it.
-- promise K12
function case.admin_calls_are_logged()
  start_server()
  local function force_release(token, ns)
    return asks(tcp, "Lock.ForceRelease", {name = "front-door", reason = 'it is "stuck" method=none'}, token, ns)
  end
  local line = "level=info event=audit principal=ops namespace=other method=/lockstock.v1.LockService/ForceRelease "
    .. 'group="" name=front-door outcome=OK removed=%s reason="it is \'stuck\' method=none" wire=tcp'
  asks(tcp, "Lock.Acquire", {token = token_of "T", owner = 'ann "at night"', lease_ms = 60000,
    targets = {{name = "front-door"}}}, "ops", "other") "OK"
  force_release("ops", "other") "OK"
  s:line(line:format "1 owner=\"ann 'at night'\"")
  force_release("ops", "other") "OK"
  s:line(line:format "0")
  force_release("shop", "shop") "PERMISSION_DENIED"
  s:line "level=warn event=refused principal=shop method=/lockstock.v1.LockService/ForceRelease"
end

-- Whatever --log-level says, and though nobody waits for the answer: the store stands still until the caller has left.
function case.admin_call_of_a_disconnected_caller_is_logged()
  store = world.redis()
  local url = "unix://" .. file "quiet"
  local p = world.process{world.program, "--listen", url, "--store", store:url(), "--allow-unsafe-store", "--log-level", "error"}
  local c = until_(function() world.pause(); return world.caller(url) end)
  until_(function() return c:ask("Lock.ForceRelease", {name = "first-door"}).code == "OK" end)
  world.kill(store:pid(), "STOP")
  c:send("Lock.ForceRelease", {name = "left-door"})
  c:ask("Id.Decode", {id = 1}) -- lockstockd has read the call before
  c:close()
  local line = p:line("event=audit principal=\"\" namespace=default method=/lockstock.v1.LockService/ForceRelease "
    .. 'group="" name=left-door')
  world.kill(store:pid(), "CONT")
  eq(line, containing " wire=unix from=uid:")
  eq(p:output():find "event=ready", nil)
end

function case.modes_that_are_too_open_are_warned_of()
  start_server()
  os.execute(("cd %s && chmod 644 server.key && chmod 622 tokens"):format(dir))
  reload()
  eq(s:output(), containing 'server.key mode=644 reason="other users can read it"')
  eq(s:output(), containing 'tokens mode=622 reason="other users can write it"')
end
