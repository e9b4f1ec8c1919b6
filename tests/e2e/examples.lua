-- Each example runs once against a server and prints what its page says. Code in README and docs/ is a file of
-- examples/, or a part of one, to the letter.

-- The program, the page that shows it, and its output.
local examples = {
  {"quickstart", "README.md", "locked\nDEDUCTED\ncharging order-1\npaid\ngo on\n"},
  {"async", "docs/client.md", "3 sold\n"},
  {"cart", "docs/stock.md", "order-1: sold\norder-1: sold before\norder-2: enough of phone\n"},
  {"mutex", "docs/client.md", "written\n"},
  {"once", "docs/client.md", "charging card 1234\norder-1: paid with card 1234\norder-1: paid with card 1234, before\n"
    .. "order-1: not with another card\norder-2: no card\norder-2: no card, before\n"},
  {"limiter", "docs/client.md", "alice: go on, 2 left\nalice: go on, 1 left\nalice: go on, 0 left\n"
    .. "alice: too often, rule 0; try again in a while\nbob: go on, 2 left\nalice: not within a second\n"},
  {"reservation", "docs/client.md", "alice: not paid\nbob: sold\ncarol: sold out: seat, of which 1 are available\n"},
  {"enter", "docs/enter.md", "sold: receipt of order-1\nsold before: receipt of order-1\nthe stock cannot be sold\n"},
  {"loop_epoll", "docs/client.md", "3 ids\n3 ids\n"},
  {"ids", "docs/id.md", "10 ids, increasing\na UUID of version 7\nticket 1\n"},
  {"ratelimit", "docs/ratelimit.md", "message-1: sent, 2 left\nmessage-2: sent, 1 left\nmessage-3: sent, 0 left\n"
    .. "message-4: not before many minutes\nmessage-3: given back\nmessage-5: sent, 0 left\n"},
  {"fenced_row", "docs/fencing.md", "by the second: written\nby the first: too late\n"},
}

-- Blocks under "<!-- FILE -->" are the file, and under "<!-- from FILE -->" a part of it; how many there are.
local function expect_shown(page, file)
  local n, source = 0, read_file(world.source .. "/" .. file)
  for from, block in read_file(world.source .. "/" .. page):gmatch("<!%-%- (f?r?o?m? ?)" .. file:gsub("%p", "%%%0")
    .. " %-%->\n```%a+\n(.-)```\n") do
    if from == "" then eq(block, source) else eq(source, containing(block)) end
    n = n + 1
  end
  if n == 0 then error(page .. " has no block of " .. file) end
end

function case.pages_show_the_files()
  for _, e in ipairs(examples) do expect_shown(e[2], "examples/" .. e[1] .. ".c") end
  expect_shown("docs/locks.md", "examples/fenced_row.c"); expect_shown("docs/idempotency.md", "examples/once.c")
  expect_shown("README.md", "examples/quickstart.py"); expect_shown("README.md", "examples/quickstart.mjs")
  for file in read_file(world.source .. "/docs/ledger.md"):gmatch "<!%-%- from (examples/ledger/%S+) %-%->" do
    expect_shown("docs/ledger.md", file)
  end
end

function case.they_run()
  local s = server()
  local function run(program, ...) return world.process{world.binary .. "/examples/" .. program, ...}:ended(0) end
  for _, e in ipairs(examples) do
    if exists(world.binary .. "/examples/" .. e[1]) then -- fenced_row needs libsqlite3-dev
      eq({e[1], run(e[1], s:url())}, {e[1], e[3]})
    end
  end
  eq(run("loop_host"), "hello, loop\n1 served\n")
  eq(run("quickstart", s:url()), "locked\nDEDUCTED\npaid\ngo on\n") -- the same order again
  -- A sale of each kind: it exits with 0 when no item is sold twice and all are sold.
  eq(run("seckill/seckill", s:url(), count(200, 1000), count(100, 500)), containing "scene b")
  s:stop()
end
