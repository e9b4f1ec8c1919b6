-- Workers that lose their leases, freeze, wake late and write, over a register of fences, in hours of leases, with a
-- clock that is set back and data that is lost. A new fence is always the highest, writes with an older one are
-- refused, and no fence has two owners.
require "lock"

local WORKERS, LEASE_SECONDS = 8, 60

function case.no_fence_goes_back()
  rounds(1, 1, function()
    local steps = os.getenv("LOCKSTOCK_SOAK") and 200000 or 3000
    local clock, latest, loss = 0, 0, 0 -- seconds; what the clock must not step back past: the last loss of data
    local granted, grants, late = 0, 0, 0 -- the highest fence given
    local fences, tokens = {}, {} -- what each believes to hold
    local highest, owner = 0, nil -- the register

    -- Whether the register takes the write.
    local function write(worker)
      local fence = fences[worker]
      if fence == highest and owner ~= worker then error("fence " .. fence .. " has two owners") end
      if fence > highest then highest, owner = fence, worker end
      return fence == highest
    end
    local function move_clock(seconds)
      pass(seconds)
      clock = clock + seconds
      latest = math.max(latest, clock)
    end
    local function try_to_lock(i)
      tokens[i] = "W" .. i .. "." .. grants
      local said = acquire(tokens[i] .. " hot", {lease_ms = 1000 * (1 + pick(LEASE_SECONDS))})
      if said.outcome ~= "ACQUIRED" then return end
      granted = eq(fence_of(said), above(granted))
      fences[i], grants = granted, grants + 1
      eq(write(i), true)
    end
    -- A worker that holds, or believes so, writes: accepted only if nobody held after it.
    local function try_to_write(i)
      local taken = eq(write(i), fences[i] == granted)
      if not taken then late = late + 1 end
    end
    local function lose_the_data()
      if clock < latest then move_clock(latest - clock) end
      loss = clock
      for _, key in ipairs(keys_like "ls:{default/*") do redis("DEL", key) end
    end
    for n = 1, steps do
      local i = pick(WORKERS)
      choose{15, function() move_clock(pick(40)) end, 3, function() move_clock(-math.min(pick(20), clock - loss)) end,
        1, lose_the_data, 81, function()
          if not fences[i] then return try_to_lock(i) end
          choose{61, function() try_to_write(i) end, 20, function()
            if pick(2) == 0 then release(tokens[i]) end -- else it simply goes away
            fences[i] = nil
          end}
        end}
      if n % 1000 == 0 then harness.forget() end
    end
    eq(grants, above(steps // 100)); eq(late, above(0)); eq(latest, above(3599))
  end)
end
