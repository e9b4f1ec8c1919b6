-- What every function of the library stands on: the sub-call protocol, errors,
-- numbers. A function of the library checks everything, then writes.
--
-- FCALL <name>_<digest> 1 <base> { argc arg... }...   one {...} a sub-call
--   base   "ls:{namespace/group}:"; every key of a sub-call begins with it
-- Reply: one element a sub-call, in order:
--   {OUTCOME, ...}                              what the handler returned
--   {'ERR', code, applied, message, detail}     code of google.rpc.Code,
--                                               applied 'NO' or 'MAYBE';
--                                               detail is for the server's log only

local CODE = {
  INVALID_ARGUMENT = 3, NOT_FOUND = 5, ALREADY_EXISTS = 6, RESOURCE_EXHAUSTED = 8,
  FAILED_PRECONDITION = 9, ABORTED = 10, OUT_OF_RANGE = 11, INTERNAL = 13,
}
local MAX_INTEGER = 9007199254740991 -- 2^53 - 1

-- Whether the running sub-call has written: an error from then on is MAYBE.
local dirty = false

-- How many FCALLs and how many sub-calls have begun: what is remembered for one of them
-- ends with it.
local fcall, sub_call = 0, 0

-- Ends a sub-call with a status, from any depth, before its first write.
local function fail(code, message)
  error({lks_code = CODE[code], lks_message = message})
end

-- Every write goes through here. A command that fails has changed nothing itself:
-- so the first write of a function needs no check of its key's type before it.
local function write(...)
  local reply = redis.call(...)
  dirty = true
  return reply
end

-- A whole number as text, exact below 2^53 (tostring gives 1.79e+15).
local function int(n)
  return string.format('%d', n)
end

local function reply_of_error(e)
  local applied = dirty and 'MAYBE' or 'NO'
  if type(e) == 'table' and e.lks_code then
    return {'ERR', e.lks_code, applied, e.lks_message, ''}
  end
  local text = type(e) == 'table' and e.err or tostring(e)
  if not dirty and string.find(text, 'WRONGTYPE', 1, true) then
    return {'ERR', CODE.FAILED_PRECONDITION, 'NO', 'the store holds foreign data under this name', text}
  end
  if not dirty and string.find(text, 'OOM', 1, true) then
    return {'ERR', CODE.RESOURCE_EXHAUSTED, 'NO', 'the store is out of memory', text}
  end
  return {'ERR', CODE.INTERNAL, applied, 'a store function failed', text}
end

-- Registers `handler(base, now_us, argument...)` -> reply array. Its arguments are named in
-- arguments.txt, and the build fails where the handler's differ; numbers are text. flags:
-- 'no-writes' for a reader; 'allow-oom' for what must work when memory is short (Renew, Release).
local function define(name, flags, handler)
  redis.register_function{
    function_name = name .. '_@DIGEST@',
    flags = flags,
    callback = function(keys, argv)
      local now, replies, i = clock_us(), {}, 1
      fcall = fcall + 1
      while i <= #argv do
        local last = i + tonumber(argv[i])
        dirty = false
        sub_call = sub_call + 1
        local ok, reply = pcall(handler, keys[1], now, unpack(argv, i + 1, last))
        i = last + 1
        replies[#replies + 1] = ok and reply or reply_of_error(reply)
      end
      return replies
    end,
  }
end
