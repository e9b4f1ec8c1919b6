-- A Redis Cluster of packaging/redis-set.sh, for the case that starts it. A node is its port.
local SCRIPT = world.source .. "/packaging/redis-set.sh"
local dir

-- Runs one of the script's commands to its end. Returns its output.
local function run(command, ...) return world.process{SCRIPT, command, dir, ...}:ended(0) end

-- Starts it, and gives its URL.
function cluster(...)
  dir = world.dir() .. "/set"
  local set = world.process({SCRIPT, "cluster", dir, ...}, nil, true)
  local url = set:line "url=":sub(#"url=" + 1)
  set:line "ready"
  return url
end

function primaries()
  local list = {}
  for port in run "nodes":gmatch "(%d+) redis %d+ master\n" do list[#list + 1] = port end
  return list
end
function ask_node(port, command) return run("cli", port, table.unpack(split(command))) end
function kill_node(port) run("kill", port) end
function start_node(port) run("start", port); run "wait" end
-- Another node takes its place; its port.
function failover(port) return run("failover", port):match "%d+" end
function all_agree() run "wait" end
-- Begins to move slots; the process.
function move_slots(first, last, port) return world.process{SCRIPT, "move", dir, first, last, port} end
-- Begins a failover; the process.
function begin_failover(port) return world.process{SCRIPT, "failover", dir, port} end

-- The primary that has the key.
function primary_with(key)
  for _, port in ipairs(primaries()) do if ask_node(port, "EXISTS " .. key):match "^1" then return port end end
  error("no primary has " .. key)
end
