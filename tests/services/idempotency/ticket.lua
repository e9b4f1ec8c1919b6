-- Tickets: consumed once, by one consumer, for one subject.
require "idempotency"

-- promise I29: consumed once, by one consumer; the same again CONSUMED, replayed
-- promise E10: a form's ticket: one order for a form however often it is sent, each tab its own; made up, another's,
-- too old: none
function case.one_consumer_uses_it_once()
  local ticket = issue(60000)
  consume(ticket, "C1") "CONSUMED"; consume(ticket, "C1") "CONSUMED again"
  consume(ticket, "C2") "ALREADY_CONSUMED"; consume(ticket, "C1") "CONSUMED again"
end

-- promise I30: never issued, of another subject or scope: UNKNOWN
function case.unknown_ticket_gives_no_reason()
  local ticket = issue(60000)
  consume(ticket, "C1", {subject = "you"}) "UNKNOWN"; consume(ticket, "C1", {scope = "t"}) "UNKNOWN"
  consume("never-issued", "C1") "UNKNOWN"
  consume(ticket, "C1") "CONSUMED" -- nothing was used up
  consume(ticket, "C1", {subject = "you"}) "UNKNOWN" -- also the consumed one
  harness.namespace "other"; consume(ticket, "C1") "UNKNOWN"
end

-- promise I31: a ticket is known until its ttl_ms are over, consumed or not
function case.a_ticket_ends()
  local ticket = issue(5000000)
  local of = "t:" .. ticket
  eq(ttl(of), about(5000000)); consume(ticket, "C1") "CONSUMED"
  eq(ttl(of), about(5000000)) -- known as consumed until then
  redis("PEXPIRE", key(of), "1")
  while ttl(of) >= 0 do end
  consume(ticket, "C1") "UNKNOWN"; consume(ticket, "C2") "UNKNOWN"; redis "KEYS ls:{*" ""
end

-- promise I28: tickets cannot be guessed
function case.tickets_are_random()
  local seen = {}
  for _ = 1, 1000 do
    local ticket = issue(60000)
    eq(ticket:match("^[0-9a-z]+$") and #ticket, 32); eq(seen[ticket], nil)
    seen[ticket] = true
  end
end

-- promise I26
function case.an_empty_consumer_is_made_up()
  local ticket = issue(60000)
  consume(ticket) "CONSUMED"
  consume(ticket) "ALREADY_CONSUMED" -- another one: not recognised
end

function case.foreign_data_is_not_changed()
  local ticket = issue(60000)
  redis("SET", key("t:" .. ticket), "x"); consume(ticket, "C1") (foreign); redis("GET", key("t:" .. ticket)) "x"
end
