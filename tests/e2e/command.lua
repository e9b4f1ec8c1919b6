-- lockstockd as a command: flags, addresses, signals, one server a directory.
require "stock"

local LISTEN = "--listen tcp://127.0.0.1:0 "
local dir

function setup() dir = world.dir() end

local function spawn(flags, env)
  return world.process({world.program, table.unpack(split(flags))}, env)
end
-- Runs to its end: exits with the code and says each of the texts.
local function ends(flags, code, texts, env)
  local said = spawn(flags, env):ended(code)
  for _, text in ipairs(texts) do eq(said, containing(text)) end
end
local function serves(url) use(open(url, {timeout_ms = 20000})); put "apple 5" end
local function ready(flags, env)
  local p = spawn(flags, env)
  p:line "event=ready"
  return p
end
local function stop(p, signal)
  p:signal(signal or "TERM")
  return p:ended(0)
end

-- promise W15
function case.help_and_version()
  ends("--help", 0, {"--listen", "--store", "--fsync", "--config", "--log-level", "--help", "--version"})
  ends("-h", 0, {"usage: lockstockd"})
  ends("--version", 0, {"lockstockd " .. read_file(world.source .. "/rpc/include/lockstock/version.h"):match '"([%d.]+)"'})
end

function case.bad_flags_are_named()
  for flags, text in pairs{
    ["--colour red"] = "lockstockd: --colour: unknown flag; see --help",
    ["--lsten red"] = "unknown flag, did you mean --listen?", ["--check-confg"] = "unknown flag, did you mean --check-config?",
    ["--in-flight many"] = "in-flight", ["--in-flight 0"] = "in-flight", ["--log-level loud"] = "log-level",
    ["--config /nonexistent/lockstock.ini"] = "No such file", ["--store"] = "store"} do
    ends(flags, 2, {text})
  end
  ends(LISTEN, 2, {"LOCKSTOCK_STOER: no such setting, did you mean LOCKSTOCK_STORE?"}, {"LOCKSTOCK_STOER=redis"})
end

-- promise F4
-- As every other setting: by the flag, the variable, or the line of the file.
function case.a_store_that_is_wrong_is_named_by_where_it_is_given()
  local file = write(dir .. "/conf", "in-flight = 7\nstore = mysql://here\n")
  local plain = write(dir .. "/plain", "")
  ends("--store mysql://here", 2, {"lockstockd: --store: must be "})
  ends("--store=redis://u:secret@h:x", 2, {"lockstockd: --store: the port must be"})
  ends("--config " .. file, 2, {"lockstockd: " .. file .. ":2: store: must be "})
  ends("--config " .. file, 2, {"lockstockd: LOCKSTOCK_STORE: must be "}, {"LOCKSTOCK_STORE=mysql://here"})
  ends(LISTEN, 2, {"lockstockd: LOCKSTOCK_STORE: has no scheme"}, {"LOCKSTOCK_STORE=redis"})
  ends(LISTEN .. "--store embedded:" .. plain, 2, {"lockstockd: --store: cannot use ", plain})
end

function case.a_default_timeout_above_the_maximum_is_refused()
  ends("--check-config --timeout-ms 50000", 2, {"--timeout-ms: must be at most --timeout-max-ms, which is 30000"})
  ends("--check-config --timeout-max-ms 1000", 2, {"LOCKSTOCK_TIMEOUT_MS: must be at most"}, {"LOCKSTOCK_TIMEOUT_MS=1001"})
  ends("--check-config --timeout-max-ms 1000 --store redis://h", 0, {"are good"})
end

function case.settings_that_do_not_fit_the_store_are_refused()
  local why = "--wait-replicas needs a --store with replicas; an embedded store has none"
  ends("--check-config --wait-replicas 1", 2, {why})
  ends("--check-config --wait-replicas 1 --store embedded:/none", 2, {why})
  ends("--wait-replicas 1 --store embedded:/none/none", 2, {why})
  ends("--check-config --wait-replicas 1 --store redis://h", 0, {"are good"})
end

-- promise F3: an unusable setting, a duplicate key or a NUL in a file is reported with file and line before Redis is
--   started or its directory created; errors that no restart fixes have an exit code of their own
-- is started or its directory made, with file and line; what no further start repairs has an exit code of its own
function case.settings_are_checked_and_printed_without_a_start()
  local store = "--store embedded:" .. dir .. "/made "
  ends("--check-config " .. store, 0, {"the settings are good"})
  ends("--check-config " .. store .. "--listen tcp://0.0.0.0:1", 78, {"needs TLS"})
  ends("--check-config --store redis://u:a/b@h", 2, {"write %2F"})
  ends("--check-config " .. store .. "--policy /none", 2, {"/none"})
  ends("--print-config --store redis://u:secret@h/1 --in-flight=7", 0,
    {"# flag\nstore = redis://u:***@h/1\n", "# flag\nin-flight = 7\n", "# default\nfsync = always\n"})
  ends(store .. "--listen ftp://127.0.0.1:1", 2, {"ftp://127.0.0.1:1"})
  eq(os.execute("test -e " .. dir .. "/made"), nil)
end

-- Port 0 is any port, and each address is printed.
function case.several_addresses_of_any_port()
  local any_port = "--listen nng+tcp://127.0.0.1:0 "
  local p = spawn(any_port .. any_port .. "--fsync everysec --store embedded:" .. dir .. "/data")
  local urls = {}
  for i = 1, 2 do urls[i] = p:line "event=listening":match "url=(%S+)" end
  eq(urls[1] ~= urls[2], true)
  p:line "event=ready"
  for _, url in ipairs(urls) do serves(url) end
  stop(p, "INT")
end

-- promise F3
-- Nothing is made or started before the addresses are known to be good.
function case.bad_addresses_come_first()
  local file, s = write(dir .. "/precious", "precious"), server()
  local store = " --store embedded:" .. dir .. "/data"
  for _, row in ipairs{
    {"127.0.0.1:0", 2, "must begin with tcp://"}, {"127.0.0.1:7700", 2, "wss+fd"}, -- the whole list
    {"tpc://127.0.0.1:0", 2, "must begin with tcp://"},
    {"tcp://127.0.0.1", 2, "must be host:port"}, {"nng+ws://127.0.0.1/path", 2, "must be host:port"},
    {"unix://x", 2, "absolute path"}, {"tls://127.0.0.1:0", 78, "needs --tls-certificate"},
    {"tcp://0.0.0.0:0", 78, "an address that other machines can reach"}, {"unix://" .. file, 78, "not a socket"},
    {s:url(), 1, "address already in use"}} do
    ends(LISTEN .. "--listen " .. row[1] .. store, row[2], {row[3]})
    eq(os.execute("test -e " .. dir .. "/data"), nil)
  end
  local socket = "unix://" .. dir .. "/socket"
  for a, b in pairs{["tcp://127.0.0.1:7"] = "ws://127.0.0.1:7/path", [socket] = socket} do
    ends("--check-config --listen " .. a .. " --listen " .. b .. store, 2, {"another address has the same"})
  end
  ends("--check-config --listen tcp://127.0.0.1:0,ws://127.0.0.1:0" .. store, 0, {"are good"})
  -- An address in use is no fault of the settings: they are checked before a restart.
  ends("--check-config --listen " .. s:url() .. store, 0, {"are good"})
  eq(read_file(file), "precious")
end

-- promise F6: RLIMIT_NOFILE is raised at start; if it does not suffice the log says so, and fewer connections are
--   accepted
function case.descriptors_are_counted_at_start()
  local function under(ulimit, connections)
    return world.process{"sh", "-c", ulimit .. '; exec "$@"', "sh", world.program, "--listen", "tcp://127.0.0.1:0",
      "--store", "embedded:" .. dir .. "/data", "--connections", connections}
  end
  local p = under("ulimit -Sn 200; ulimit -Hn 3000", 2900)
  p:line "event=ready"
  eq(read_file("/proc/" .. p:pid() .. "/limits"):match "Max open files%s+(%d+)", "3000")
  eq(stop(p):find "few%-descriptors", nil)
  p = under("ulimit -n 3000", 2901)
  eq(p:line "event=few-descriptors", containing "limit=3000 wanted=2901 connections=2900")
  p:line "event=ready"
  stop(p)
  eq(under("ulimit -n 100", 1):ended(78), containing "descriptors: the limit of this process is 100")
end

function case.a_second_server_on_one_directory_is_refused()
  local s = server()
  local redis_pid = s:redis_pid()
  ends("--listen nng+tcp://127.0.0.1:0 --store embedded:" .. s:dir() .. "/data", 1, {s:dir() .. "/data", "another"})
  eq(s:redis_pid(), redis_pid)
  put "a 1"
  -- A server after the first has ended is not.
  s:stop()
  world.gone(redis_pid)
  s:restart()
  put "a 1"
end

-- promise F3
-- promise T16
-- systemd does not try again what no further start repairs, whether it is found at the first start or later.
function case.a_store_that_is_broken_has_an_exit_code_of_its_own()
  local data = dir .. "/data"
  local flags = LISTEN .. "--store embedded:" .. data
  local p = ready(flags)
  os.rename(data .. "/appendonlydir", dir .. "/moved")
  os.execute("kill -9 $(pgrep -P " .. p:pid() .. " redis-server)")
  eq(p:ended(78), containing "manifest is missing")
  for _ = 1, 2 do ends(flags, 78, {"manifest is missing", data}) end -- a refusal does not make it a new store
  os.rename(dir .. "/moved", data .. "/appendonlydir")
  write(data .. "/appendonlydir/appendonly.aof.1.incr.aof", "*1\r\n$9999\r\nMULTI\r\n*1\r\n$4\r\nEXEC\r\n")
  ends(flags, 78, {"is damaged at byte 0,", data})
end

-- promise T18: a removed socket is created again; its path may be long; a large file is repaired beside the loop, with
--   progress, and can be stopped, also at the first start
-- is told how far, and can be stopped, at the first start too
-- A file of 64 GiB, all of it a hole, takes minutes to read before anything is served.
function case.a_start_that_takes_long_can_be_stopped()
  local aof = dir .. "/data/appendonlydir/appendonly.aof"
  os.execute("mkdir -p -m 0700 " .. dir .. "/data/appendonlydir")
  write(aof .. ".manifest", "file appendonly.aof.1.incr.aof seq 1 type i\n")
  write(aof .. ".1.incr.aof", "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$68719476736\r\n")
  os.execute("truncate -s $((68719476736 + 4096)) " .. aof .. ".1.incr.aof && printf '\\r\\n' >>" .. aof .. ".1.incr.aof")
  local p = spawn(LISTEN .. "--store embedded:" .. dir .. "/data")
  p:line "event=store-mending"
  eq(stop(p), containing "event=stopped")
end

function case.a_store_of_somebody_else_stays_when_the_server_ends()
  two_servers({append_only = true}, {}, 1)
  put "a 1"
  eq(servers[1]:redis_pid(), 0)
  servers[1]:stop()
  eq(store:pid(), above(0))
end

-- A store that forgets by design is refused, unless it is wanted.
function case.a_store_that_forgets_is_refused()
  for _, options in ipairs{{}, {append_only = true, args = {"--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"}}} do
    store = world.redis(options)
    ends("--listen nng+tcp://127.0.0.1:0 --store " .. store:url(), 1, {"allow-unsafe-store"})
    server{store = store:url(), args = UNSAFE}
    put "a 1"
  end
end

function case.settings_come_from_file_and_environment()
  local file = write(dir .. "/lockstock.ini",
    ("listen = nng+tcp://127.0.0.1:0\nstore = embedded:%s/data\nfsync = everysec\n"):format(dir))
  stop(ready("--config " .. file, {"LOCKSTOCK_LOG_LEVEL=debug"}))
end

-- SIGTERM with calls under way: each is done or has no effect, the server exits with 0, and the effects are stored.
function case.sigterm_drains()
  local calls, done, s = {}, 0, server({}, {no_retry = true, timeout_ms = 20000})
  put "warm 5"
  for i = 1, 500 do calls[i] = start(Stock.PutItem, put_request("sku-" .. i, 5)) end
  until_(function() return calls[1].done() end)
  s:signal "TERM"
  s:ended(0)
  for _, call in ipairs(calls) do
    local got = call()
    if got.response then done = done + 1 else says(got.error.code, "UNAVAILABLE") end
  end
  eq(done, above(0))
  s:restart()
  use(open(s:url()))
  local found = 0
  for i = 1, 500 do found = found + (stock("sku-" .. i).response and 1 or 0) end
  eq(found, within(done, 500)) -- an answer may be lost
end
