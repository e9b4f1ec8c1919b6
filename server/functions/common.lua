-- Shared by all functions of the library: the sub-call protocol, errors, numbers. A function first checks everything,
-- then writes.
--
-- FCALL <name>_<digest> <n> <base>... { argc arg... }...   one {...} a sub-call
--   base   "ls:{namespace/group}:"; every key of a sub-call begins with it. One base: all sub-calls have it; several:
--          each sub-call has its own; none: it is the first argument of each (in Redis Cluster the keys of a command
--          must be in one slot, and the sub-calls are in many)
-- Reply: of one sub-call its reply; of several, a list of their replies, in order:
--   {OUTCOME, ...}                              what the handler returned; a list of one value may be that value alone,
--                                               for each list costs Redis 4,000 instructions
--   {'ELSEWHERE'}                               the node does not have all of the base's slot; nothing was done
--   {'ERR', code, applied, message, detail, reason}   code of google.rpc.Code,
--                                               applied 'NO' or 'MAYBE';
--                                               detail is for the server's log only;
--                                               reason of <lockstock/reason.h>, '' = implied by the code

local CODE = {
  INVALID_ARGUMENT = 3, NOT_FOUND = 5, ALREADY_EXISTS = 6, RESOURCE_EXHAUSTED = 8,
  FAILED_PRECONDITION = 9, ABORTED = 10, OUT_OF_RANGE = 11, INTERNAL = 13,
}
local MAX_INTEGER = 9007199254740991 -- 2^53 - 1
local DAY_MS = 86400000

-- Whether the running sub-call has written. If so, its errors are MAYBE.
local dirty = false

-- The parts of each service that guard.lua uses; the locals of a service are visible only in its own files.
local services = {}

-- The number of FCALLs so far: identifies data that is remembered for the running one.
local fcall = 0

-- The FCALL's time in microseconds, after its first use.
local moment
local function clock()
  moment = moment or clock_us()
  return moment
end

-- Ends a sub-call with a status, from any depth, before its first write.
local function fail(code, message, reason)
  error({lks_code = CODE[code], lks_message = message, lks_reason = reason or ''})
end

local FOREIGN = 'the store holds foreign data under this name'

local function foreign()
  fail('FAILED_PRECONDITION', FOREIGN, 'foreign_data')
end

-- Writes use this, or set `dirty` themselves. A command that fails changes nothing, so the first write of a function need
-- not check the type of its key.
local function write(...)
  local reply = redis.call(...)
  dirty = true
  return reply
end

-- A whole number as text, exact below 2^53 (tostring gives 1.79e+15).
local function int(n)
  return string.format('%d', n)
end

-- The same for the ms that a key is kept; mostly the same number as in the last call.
local kept_ms, kept_text
local function ms_text(ms)
  if ms ~= kept_ms then kept_ms, kept_text = ms, int(ms) end
  return kept_text
end

-- Returns 1 or more before the instant, 0 from then on.
local function ms_until(instant, now)
  return instant > now and math.ceil((instant - now) / 1000) or 0
end

local function check_version(expected, current)
  if expected ~= 0 and expected ~= current then
    fail('ABORTED', 'expected_version: the current one is ' .. int(current), 'version_mismatch')
  end
end

local function reply_of_error(e)
  local applied = dirty and 'MAYBE' or 'NO'
  if type(e) == 'table' and e.lks_code then
    return {'ERR', e.lks_code, applied, e.lks_message, '', e.lks_reason}
  end
  local text = type(e) == 'table' and e.err or tostring(e)
  -- Redis reports a wrong type; struct.unpack reports missing bytes.
  if not dirty and (string.find(text, 'WRONGTYPE', 1, true) or string.find(text, 'data string too short', 1, true)) then
    return {'ERR', CODE.FAILED_PRECONDITION, 'NO', FOREIGN, text, 'foreign_data'}
  end
  if not dirty and string.find(text, 'OOM', 1, true) then
    return {'ERR', CODE.RESOURCE_EXHAUSTED, 'NO', 'the store is out of memory', text, 'store_out_of_memory'}
  end
  return {'ERR', CODE.INTERNAL, applied, 'a store function failed', text, ''}
end

-- In Redis Cluster the id of this node, which never changes; otherwise ''. A server asks for it before it makes calls,
-- because the user may not be permitted to ask elsewhere.
local node_id
local function this_node()
  if not node_id then
    local id = redis.pcall('CLUSTER', 'MYID')
    node_id = type(id) == 'string' and id or ''
  end
  return node_id
end

-- In Redis Cluster the line of CLUSTER NODES for this node; otherwise nil.
local function myself()
  return this_node() ~= '' and string.match(redis.call('CLUSTER', 'NODES'), '[^\n]*myself[^\n]*') or nil
end

-- In Redis Cluster the id of this primary and the epoch of its slots, which changes with each failover; otherwise ''.
local function this_primary()
  local mine = myself()
  return mine and this_node() .. '/' .. string.match(mine, '^' .. string.rep('%S+ ', 6) .. '(%d+)') or ''
end

-- The slots that this node serves, as "0-5460,7,!93"; ! marks slots that are being moved away. '' without a cluster.
local function served_slots()
  local mine, slots = myself(), {}
  if not mine then return '' end
  for word in string.gmatch(string.match(mine, '^' .. string.rep('%S+ ', 7) .. '%S+(.*)$') or '', '%S+') do
    local leaving = string.match(word, '^%[(%d+)%->%-')
    if leaving then slots[#slots + 1] = '!' .. leaving elseif string.find(word, '^%d') then slots[#slots + 1] = word end
  end
  return table.concat(slots, ',')
end

-- Whether this node has all of the group now. No key has the name of the base; for a missing key, a node that has only
-- a part of the slot replies that the key is elsewhere.
local function has_group(base)
  return this_node() == '' or type(redis.pcall('EXISTS', base)) == 'number'
end

-- Whether a slot is in such a text.
local function slots_among(text)
  local ranges = {}
  for from, to in string.gmatch(text, '(%d+)%-?(%d*)') do
    ranges[#ranges + 1] = {tonumber(from), tonumber(to ~= '' and to or from)}
  end
  return function(slot)
    for _, range in ipairs(ranges) do
      if slot >= range[1] and slot <= range[2] then return true end
    end
    return false
  end
end

-- For a list over all nodes that continues an earlier page: the page's cursor, if it is from this node; and a function
-- that tells whether a key is in a slot that was listed completely before.
local function resume(cursor, node, listed)
  local among = listed ~= '' and slots_among(listed)
  return node == this_node() and cursor or nil, function(key)
    return among and among(redis.call('CLUSTER', 'KEYSLOT', key)) or false
  end
end

-- A server listens to each node of a cluster on a separate channel, because PUBLISH reaches all nodes, and PUBSUB
-- NUMSUB counts the subscribers of this node.
local EVERY_SERVER = 'all'
local function channel_of(server)
  local id = this_node()
  return id == '' and 'ls:wake:' .. server or 'ls:wake:' .. server .. ':' .. id
end

-- Runs an FCALL whose sub-calls have their bases as arguments: only those whose group is on this node.
local function run_those_here(run, words, is_part)
  local bases, mine, place, replies, n, i = {}, {}, {}, {}, 0, 1
  local known, here
  while i <= #words do
    local base, last = words[i + 1], i + words[i]
    n = n + 1
    if base ~= known then known, here = base, is_part or has_group(base) end
    if here then
      bases[#bases + 1], place[#place + 1], mine[#mine + 1] = base, n, int(words[i] - 1)
      for k = i + 2, last do mine[#mine + 1] = words[k] end
    else
      replies[n] = {'ELSEWHERE'}
    end
    i = last + 1
  end
  local ran = bases[1] and run(bases, mine)
  if n == 1 then return ran or replies[1] end
  if #place == 1 then ran = {ran} end
  for k, at in ipairs(place) do replies[at] = ran[k] end
  return replies
end

-- Registers the function that runs an FCALL, run(bases, words) -> its reply. flags: 'no-writes' for a reader;
-- 'allow-oom' for functions that must work when memory is short (Renew, Release); OF_PART for functions that read
-- everything on a node; for these the base only names the call.
local OF_PART = 'allow-cross-slot-keys' -- every function needs it: calls of several slots share an FCALL
local function register(name, flags, run)
  local is_part = flags[#flags] == OF_PART
  if not is_part then flags[#flags + 1] = OF_PART end
  redis.register_function{
    function_name = name .. '_@DIGEST@',
    flags = flags,
    callback = function(bases, words)
      fcall, moment = fcall + 1, nil
      if bases[1] then return run(bases, words) end
      return run_those_here(run, words, is_part)
    end,
  }
end

-- Runs a sub-call, whose arguments are words[first..last].
local function call(handler, base, now, words, first, last)
  dirty = false
  local ok, reply = pcall(handler, base, now, unpack(words, first, last))
  if ok then return reply end
  return reply_of_error(reply)
end

-- Registers `handler(base, now, argument...)` -> reply array; each sub-call reads and writes separately. arguments.txt
-- names the arguments, which are text; the build fails if the handler's arguments differ.
local function define(name, flags, handler)
  register(name, flags, function(bases, words)
    local last, n_words, now = 1 + words[1], #words, clock()
    if last == n_words then return call(handler, bases[1], now, words, 2, last) end
    local replies, n, i = {}, 0, 1
    while i <= n_words do
      n, last = n + 1, i + words[i]
      replies[n] = call(handler, bases[n] or bases[1], now, words, i + 1, last)
      i = last + 1
    end
    return replies
  end)
end

-- Notes that the running sub-call changes `s`: an error when `s` is written is an error of this call.
local function touch(s)
  if s.touched then s.touched[s.at] = true else s.touched = {[s.at] = true} end
end

-- Runs the n-th sub-call, whose arguments are words[first..last].
local function call_on(s, handler, n, words, first, last)
  s.at, dirty = n, false
  local ok, reply = pcall(handler, s, unpack(words, first, last))
  return ok and reply or reply_of_error(reply)
end

-- Writes the changes; returns nil or the error.
local function close_on(s, shared)
  dirty = false
  local ok, e = pcall(shared.close, s)
  return not ok and reply_of_error(e) or nil
end

-- Registers `handler(s, argument...)` -> reply array; the sub-calls of one base share the state `s`, which is read once
-- and written once.
--   shared.open(base) -> s    before the first; reads nothing. The pass uses the fields `touched` (false) and `at` (0)
--   handler                   checks, then touches s and changes only s
--   shared.close(s)           after the last, if s was touched: writes the changes. Its error goes to each sub-call
--                             that touched s
-- Two functions may be nil. Otherwise they run first, for usual cases: the same reply and writes, with less work:
--   alone(base, nil, argument...)  if the other sub-calls of the base, if any, were run; nil: another case, and nothing
--                             was written
--   many(base, words, starts, replies)  if several sub-calls have the base; the arguments of the k-th are after
--                             words[starts[k]]. Replies to the first ones, or to none, before it writes;
--                             an error after its first write becomes the reply of each of these
local function define_pass(name, flags, handler, shared, alone, many)
  -- Returns where each sub-call begins in the words.
  local function starts_of(words) -- in here, because Lua allows the library 200 locals
    local starts, n, i, text, size = {}, 0, 1, nil, nil
    while i <= #words do
      if words[i] ~= text then text, size = words[i], words[i] + 1 end -- usually all have equally many arguments
      n = n + 1
      starts[n], i = i, i + size
    end
    return starts
  end

  -- Runs `many` with the sub-calls from n on that have this base.
  local function run_many(base, n, bases, words, starts, replies)
    local places, its_starts, its_replies = nil, starts, replies
    if bases[2] then
      places, its_starts, its_replies = {}, {}, {}
      for k = n, #starts do
        if bases[k] == base then places[#places + 1], its_starts[#places + 1] = k, starts[k] end
      end
    end
    dirty = false
    local ok, e = pcall(many, base, words, its_starts, its_replies)
    for k = 1, #its_starts do
      -- After an error without a write the handler runs, and meets the error again.
      if not ok and its_replies[k] then its_replies[k] = dirty and reply_of_error(e) or nil end
      if places then replies[places[k]] = its_replies[k] end
    end
  end

  register(name, flags, function(bases, words)
    local last, n_words = 1 + words[1], #words
    if last == n_words then -- a single sub-call, the usual case: a table would cost more than the rest
      local reply = alone and call(alone, bases[1], nil, words, 2, last)
      if reply then return reply end
      local s = shared.open(bases[1])
      reply = call_on(s, handler, 1, words, 2, last)
      return s.touched and close_on(s, shared) or reply
    end
    local replies, states, final, starts, n, i = {}, {}, {}, nil, 0, 1
    for k = 1, #bases do final[bases[k]] = k end -- if each has a separate base: the last sub-call of each
    while i <= n_words do
      n, last = n + 1, i + words[i]
      local base = bases[n] or bases[1]
      local s, is_last = states[base], n == final[base] and bases[2]
      if is_last and alone and not s and not replies[n] then
        replies[n] = call(alone, base, nil, words, i + 1, last)
      elseif many and not is_last and not s and not replies[n] and (n == 1 or bases[2]) then
        starts = starts or starts_of(words)
        run_many(base, n, bases, words, starts, replies)
      end
      if not replies[n] then
        s = s or shared.open(base)
        replies[n] = call_on(s, handler, n, words, i + 1, last)
        if last == n_words or is_last then
          local wrong = s.touched and close_on(s, shared)
          for k in pairs(wrong and s.touched or {}) do replies[k] = wrong end
        else
          states[base] = s
        end
      end
      i = last + 1
    end
    return replies
  end)
end
