-- The messages of lockstockd to a service manager. The script is the manager: it has the socket.
-- promise F7: a service manager is informed through `$NOTIFY_SOCKET`, a path or an abstract name: when the server is
--   ready, of each reload and its failure, why it is not ready, of its end, and that its loop runs; no child process has
--   the socket
-- promise CL6
require "stock"

local READY = "READY=1\nSTATUS=ready"
local dir, manager, environment, last, heard

local function listen_at(name)
  manager, environment, heard = world.manager(name), "NOTIFY_SOCKET=" .. name, {}
end

function setup()
  dir = world.dir()
  listen_at(dir .. "/notify")
end

local function hear()
  last = manager:hear()
  for _, word in ipairs{"READY=1\n", "RELOADING=1\n", "WATCHDOG=1", "STOPPING=1\n"} do
    heard[word] = heard[word] or last:find(word, 1, true) ~= nil
  end
  return last
end
-- Until a message contains the text.
local function hears(text) until_(function() return hear():find(text, 1, true) end) end
-- Until a message is the text.
local function hears_all(text) until_(function() return hear() == text end) end

local function start_server(options)
  options = options or {}
  options.env = {environment, table.unpack(options.env or {})}
  return world.server(options)
end
local function spawn(listen, store, ...)
  return world.process({world.program, "--listen", listen, "--store", store or "embedded:" .. dir .. "/data", ...},
    {environment})
end
local function ends(p)
  p:signal "TERM"
  p:ended(0)
end

function case.server_reports_its_states_to_the_manager()
  -- A redis-server that writes down its environment first: the real one overwrites it.
  write(dir .. "/redis-server",
    ('#!/bin/sh\nenv >%s/environment\nPATH=${PATH#*:} exec redis-server "$@"\n'):format(dir))
  os.execute("chmod 700 " .. dir .. "/redis-server")
  local s = start_server{args = {"--drain-ms", 123456},
    env = {"WATCHDOG_USEC=60000000", "WATCHDOG_PID=0", "PATH=" .. dir .. ":" .. os.getenv "PATH"}}
  hears_all "STATUS=starting"
  eq(heard["READY=1\n"], false)
  hears_all(READY)
  local seen = read_file(dir .. "/environment")
  eq(seen, containing "PATH=")
  for _, name in ipairs{"NOTIFY_SOCKET=", "WATCHDOG_USEC=", "WATCHDOG_PID="} do eq(seen:find(name), nil) end
  local before = world.now_ms()
  s:signal "HUP"
  hears "RELOADING=1\n"
  eq(tonumber(last:match "\nMONOTONIC_USEC=(%d+)") // 1000, within(before, world.now_ms()))
  hears_all(READY)
  s:stop()
  hears "STOPPING=1\nEXTEND_TIMEOUT_USEC="
  eq(tonumber(last:match "USEC=(%d+)"), above(123456000))
  eq(last, containing "\nSTATUS=draining")
end

function case.the_watchdog_is_fed_at_a_name_without_a_file()
  listen_at("@lockstock-test" .. dir)
  local s = start_server{env = {"WATCHDOG_USEC=4000"}}
  hears "READY=1\n"
  hears_all "WATCHDOG=1"
  hears_all "WATCHDOG=1"
  s:signal "TERM"
  until_(function() return heard["STOPPING=1\n"] or not hear() end)
  s:ended(0)
end

function case.the_watchdog_of_another_process_is_not_fed()
  start_server{env = {"WATCHDOG_USEC=4000", "WATCHDOG_PID=1"}}:stop()
  hears "STOPPING=1\n"
  eq(heard["READY=1\n"], true)
  eq(heard["WATCHDOG=1"], false)
end

function case.a_reload_that_fails_is_in_the_status_until_one_succeeds()
  local policy = write(dir .. "/the\npolicy", "[dashboard]\n* = READ\n") -- a status is one line
  local s = start_server{args = {"--policy", policy}}
  hears_all(READY)
  write(policy, "nonsense\n")
  s:signal "HUP"
  hears(READY .. "; the last reload failed: ")
  eq(last, containing(dir .. "/the policy"))
  eq(heard["RELOADING=1\n"], true)
  write(policy, "[dashboard]\n* = READ\n")
  s:signal "HUP"
  hears_all(READY)
  s:stop()
end

-- promise F8: the reason why the store or a sentinel is unreachable is in the log and in the manager's status, once
--   for each reason; an unreadable file is named with its setting; a % that is no escape with its correction
function case.a_store_that_is_away_is_in_the_status()
  local broke, unreachable = "the connection to the store broke: ", "the store cannot be reached: "
  store = world.redis{append_only = true}
  local s = start_server{store = store:url()}
  hears_all(READY)
  store:kill()
  hears("READY=1\nSTATUS=not ready: " .. broke)
  hears("READY=1\nSTATUS=not ready: " .. unreachable)
  store:restart()
  hears_all(READY)
  -- The log has the same, in this order, and says when the store is back.
  s:line('event=not-ready reason="' .. broke)
  s:line('event=not-ready reason="' .. unreachable)
  s:line "event=ready "
  s:stop()
end

-- ---- certificates ----

local function certify(until_s) world.certify(dir .. "/server.pem", dir .. "/server.key", until_s) end
-- Serves TLS, and what else is listened at.
local function serve_tls(...)
  return spawn("tls://127.0.0.1:0", nil, "--tls-certificate", dir .. "/server.pem", "--tls-key", dir .. "/server.key", ...)
end

function case.expiring_certificate_is_reported_and_expired_one_not_served()
  certify(13 * 86400)
  local p = serve_tls()
  hears(READY .. ", but the certificate of --tls-certificate ends at ")
  certify(-1)
  p:signal "HUP"
  hears "STATUS=not ready: the certificate of --tls-certificate ended at "
  certify(60 * 86400)
  p:signal "HUP"
  hears_all(READY)
  for _, line in ipairs{"event=ready ", 'event=not-ready reason="the certificate of ', "event=certificate-good",
    "event=ready "} do p:line(line) end
  eq(p:output(), containing "event=certificate-ends ")
  ends(p)
end

function case.a_certificate_that_ends_while_it_is_served_is_noticed()
  certify(2)
  local p = serve_tls()
  hears "STATUS=not ready: the certificate of --tls-certificate ended at "
  ends(p)
end

function case.plain_listener_keeps_the_server_ready_without_a_certificate()
  certify(-1)
  local p = serve_tls("--listen", "unix://" .. dir .. "/s")
  hears(READY .. ", but the certificate of --tls-certificate ended at ")
  ends(p)
end

-- ---- servers that are never ready, and managers that do not receive ----

function case.server_that_was_never_ready_stays_not_ready()
  local p = spawn("tcp://127.0.0.1:0", "unix://" .. dir .. "/none")
  hears "STATUS=not ready: "
  p:signal "HUP"
  p:line "event=reloaded"
  ends(p)
  hears "STATUS=draining"
  eq(heard["READY=1\n"] or heard["RELOADING=1\n"], false)
end

function case.why_a_server_cannot_start_is_in_the_status()
  local taken = "unix://" .. dir .. "/no/such/directory"
  local p = spawn(taken, "unix://" .. dir .. "/none")
  hears "\nSTATUS=stopped: --listen "
  eq(last:find "STOPPING=1\n", 1)
  eq(last, containing(taken))
  p:ended(2)
end

function case.full_manager_socket_is_notified_later()
  manager:fill()
  local s = start_server()
  eq(s:output(), containing "event=notify-failed")
  hears_all(READY)
  s:stop()
end

function case.missing_manager_socket_is_logged()
  for _, wrong in ipairs{"relative", "/nonexistent/notify"} do
    environment = "NOTIFY_SOCKET=" .. wrong
    local s = start_server()
    eq(s:output(), containing "event=notify-failed")
    s:stop()
  end
end
