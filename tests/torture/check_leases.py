"""Locks and idempotency: who surely had a lease when, by the callers' own clock."""
import history as checks
from load import POOL_PERMITS, SHORT_MS

FIFO_APART_NS = 1_000_000_000  # between two waiters whose order is certain
FREE_NS = 1_500_000_000        # a lock that is free for so long is granted to a waiter
CLOCK_NS = 3_000_000           # what two readings of one clock may differ by, and the rounding to ms


class Grant:
    """A token, from when it was surely granted to when it surely still had its lease."""

    def __init__(self, token, call, fences, targets):
        self.token, self.asked, self.answered = token, call["b"], call["e"]
        self.fences, self.targets = fences, targets
        self.until = 0
        self.ended = checks.NEVER
        self.possible_until = 0

    def lasts(self, call, lease_ms):
        self.until = max(self.until, call["b"] + lease_ms * 1_000_000 - CLOCK_NS)
        self.possible_until = max(self.possible_until, call["e"] + lease_ms * 1_000_000)


def grants_of(report, history):
    grants = {}
    for call in history.of("Acquire"):
        if checks.outcome(call) != "ACQUIRED":
            continue
        answer, token = call["a"], call["r"]["token"]
        fences = {fence["name"]: int(fence["fence"]) for fence in answer["fences"]}
        grant = grants.get(token)
        if not grant:
            grant = grants[token] = Grant(token, call, fences, call["r"]["targets"])
        report.check("a repeat is the same grant", grant.fences == fences, lambda: f"{token}: {grant.fences}, then {fences}")
        grant.answered = min(grant.answered, call["e"])
        grant.lasts(call, int(answer.get("leaseMs", 0)))
    for call in history.of("Acquire"):  # each of which may have been the granted one
        if call["r"]["token"] in grants and call["applied"] != "NO":
            grants[call["r"]["token"]].asked = min(grants[call["r"]["token"]].asked, call["b"])
    for call in history.of("Renew"):
        grant = grants.get(call["r"]["leases"][0]["token"])
        if grant and call["code"] == "OK" and call["a"]["results"][0]["outcome"] == "RENEW_OUTCOME_RENEWED":
            grant.lasts(call, int(call["a"]["results"][0].get("leaseMs", 0)))
    for call in history.of("Release"):
        grant = grants.get(call["r"]["token"])
        if grant:
            grant.ended = min(grant.ended, call["b"])
            if call["code"] == "OK":
                grant.possible_until = min(grant.possible_until, call["e"])
    return grants


def sure(history, asked, answered, until, ended=checks.NEVER):
    """The span in which it surely held; where the store's clock was put forward, the lease may have ended then."""
    end = min(until, ended, *(step for step in history.steps if asked <= step))
    return answered, end


def check_overlaps(report, kind, spans, bar):
    """spans: (begin, end, what)."""
    spans = sorted((span for span in spans if span[1] > span[0]), key=lambda span: span[:2])
    held = []
    for begin, end, what in spans:
        held = [other for other in held if other[1] > begin]
        report.check(kind, not bar([other[2] for other in held], what),
                     lambda: f"{what} from {begin} on, while {[(o[2], o[0], o[1]) for o in held]}")
        held.append((begin, end, what))


def bars(held, wanted):
    _, mode, permits = wanted
    if mode == "LOCK_MODE_PERMIT":
        return sum(p for _, _, p in held) + permits > POOL_PERMITS
    return any(mode == "LOCK_MODE_EXCLUSIVE" or other == "LOCK_MODE_EXCLUSIVE" for _, other, _ in held)


def check_locks(report, history, witness):
    grants = grants_of(report, history)
    by_name = {}
    for grant in grants.values():
        for target in grant.targets:
            by_name.setdefault(target["name"], []).append((grant, target))
    for name, holders in by_name.items():
        check_overlaps(report, "no two holders inside a lease",
                       [(*sure(history, grant.asked, grant.answered, grant.until, grant.ended),
                         (grant.token, target["mode"], target.get("permits", 1))) for grant, target in holders], bars)
        fences = sorted(((grant.fences[name], grant) for grant, _ in holders), key=lambda fence: fence[0])
        checks.ordered(report, "fences rise",
                       [(grant.asked, grant.answered, fence, grant.token) for fence, grant in fences], name)
        report.check("a fence is one grant's", len({fence for fence, _ in fences}) == len(fences),
                     f"{name}: a fence was given twice")
    check_tokens(report, history)
    check_kept(report, history, grants)
    check_turns(report, history, grants)
    for lock in witness["locks"]:
        left = lock["is"].get("holders", []), int(lock["is"].get("waiters", 0))
        report.check("all locks are free in the end", left == ([], 0), lambda: f"{lock['name']}: {left}")
        given = max((grant.fences[lock["name"]] for grant, _ in by_name.get(lock["name"], [])), default=0)
        report.check("the last fence is known", int(lock["is"].get("lastFence", 0)) >= given,
                     lambda: f"{lock}: {given} was given")


def check_tokens(report, history):
    spent = {}
    for call in history.of("Release"):
        if call["code"] == "OK":
            spent[call["r"]["token"]] = min(call["e"], spent.get(call["r"]["token"], checks.NEVER))
    released = {}
    for call in history.of("Release"):
        if checks.outcome(call) == "RELEASED" and not call["a"].get("replayed"):
            released.setdefault(call["r"]["token"], []).append(call)
    for token, calls in released.items():
        report.check("released once", len(calls) == 1, lambda: f"{token}: {calls[:2]}")
    for call in history.of("Acquire"):
        if checks.outcome(call) == "TIMED_OUT":
            spent[call["r"]["token"]] = min(call["e"], spent.get(call["r"]["token"], checks.NEVER))
            report.check("waits last", call["e"] - call["b"] >= call["r"]["waitMs"] * 1_000_000 - CLOCK_NS or
                         history.is_stepped(call["b"], call["e"]) or
                         not history.is_quiet(call["b"], call["e"]), lambda: f"TIMED_OUT too early: {call}")
    for call in history.of("Acquire"):
        if checks.outcome(call) == "ACQUIRED":
            report.check("a spent token gets nothing", call["b"] <= spent.get(call["r"]["token"], checks.NEVER),
                         lambda: f"granted after it was over: {call}")


def check_kept(report, history, grants):
    """A granted lock is held until the lease ends."""
    for call in history.of("Release", "Renew"):
        token = call["r"].get("token") or call["r"]["leases"][0]["token"]
        grant = grants.get(token)
        if call["code"] != "OK" or not grant or call["e"] >= grant.until or call["b"] < grant.answered or \
                history.is_stepped(grant.asked, call["e"]):
            continue
        if call["m"] == "Release":
            report.check("a grant stays", checks.outcome(call) == "RELEASED", lambda: f"{token}: {call}")
        elif grant.ended > call["e"]:
            outcome = call["a"]["results"][0]["outcome"]
            report.check("a grant stays", outcome == "RENEW_OUTCOME_RENEWED", lambda: f"{token}: {call}")


def check_turns(report, history, grants):
    """Without faults: no waiter is overtaken by a later one, and a free lock is granted to a waiter."""
    waits = [call for call in history.of("Acquire") if call["r"]["waitMs"] > 0 and call["r"]["group"].startswith("door") and
             checks.outcome(call) in ("ACQUIRED", "TIMED_OUT") and call["e"] - call["b"] > FIFO_APART_NS]
    unknown = {}
    for call in history.of("Acquire"):
        if checks.outcome(call) is None and call["applied"] != "NO":
            last = call["b"] + (SHORT_MS + call["r"]["waitMs"] + call["r"]["leaseMs"]) * 1_000_000
            unknown.setdefault(call["r"]["group"], []).append((call["b"], last))
    for wait in waits:
        name = wait["r"]["group"]
        mine = grants.get(wait["r"]["token"])
        others = [grant for grant in grants.values() if name in grant.fences and grant is not mine]
        for other in others:
            if not (wait["b"] + FIFO_APART_NS < other.asked and other.answered < wait["e"] and
                    history.is_quiet(wait["b"], other.answered)):
                continue
            report.check("turns", mine and mine.fences[name] < other.fences[name],
                         lambda: f"{name}: {other.token}, asked for at {other.asked}, overtook {wait}")
        if not history.is_quiet(wait["b"], wait["e"]):
            continue
        free, latest = 0, wait["b"] + FIFO_APART_NS
        # Also those whose state is unknown.
        held = [(grant.asked, grant.possible_until) for grant in others] + unknown.get(name, [])
        for begin, end in sorted(held):
            if end > latest:
                free = max(free, min(begin, wait["e"]) - latest)
                latest = max(latest, end)
        free = max(free, wait["e"] - latest)
        report.check("a free lock is given", free < FREE_NS, lambda: f"{name} was free for {free} ns while this waited: {wait}")


def check_results(report, history, witness):
    keys = {}
    for call in history.of("Begin", "Complete", "Fail", "Extend"):
        keys.setdefault(call["r"]["key"], []).append(call)
    for key, calls in keys.items():
        check_key(report, history, key, calls, witness["results"][key].get("record"))


def stored(result):
    return (int(result.get("code", 0)), result.get("body", ""), str(result.get("headers", [])))


def check_key(report, history, key, calls, record):
    begins = [call for call in calls if call["m"] == "Begin"]
    completes = [call for call in calls if call["m"] == "Complete"]
    replays = [stored(call["a"]["result"]) for call in begins if checks.outcome(call) == "REPLAY"]
    first = [call for call in completes if checks.outcome(call) == "STORED"]
    possible = [stored(call["r"]) for call in completes if call["applied"] != "NO" and checks.outcome(call) != "SUPERSEDED"]
    report.check("replays are equal", len(set(replays)) <= 1, lambda: f"{key}: {set(replays)}")
    for replay in set(replays):
        report.check("a replay is what was stored", replay in possible, lambda: f"{key}: {replay}")
    report.check("one result a key", len({stored(call["r"]) for call in first}) <= 1, lambda: f"{key}: {first[:2]}")
    report.check("one result a key", sum(not call["a"].get("replayed") for call in first) <= 1, lambda: f"{key}: {first}")
    if first:
        report.check("an answered result stays", record and record["state"] == "RECORD_STATE_COMPLETED" and
                     stored(record["result"]) == stored(first[0]["r"]), lambda: f"{key}: {record}, told {first[0]}")
        told = min(call["e"] for call in first)
        for call in begins:
            report.check("nobody executes what is done", call["b"] < told or checks.outcome(call) in (None, "REPLAY"),
                         lambda: f"{key}: stored at {told}, then {call}")
    begun = {}
    for call in begins:
        if call["applied"] != "NO":
            begun[call["r"]["attemptToken"]] = min(call["b"], begun.get(call["r"]["attemptToken"], call["b"]))
    executes = {}
    for call in begins:
        if checks.outcome(call) == "EXECUTE":
            executes.setdefault(int(call["a"]["fence"]), []).append(call)
    attempts = []
    for fence, same in sorted(executes.items()):
        report.check("an attempt is one token's", len({call["r"]["attemptToken"] for call in same}) == 1,
                     lambda: f"{key}: {same}")
        ends = [call["b"] for call in calls if call["m"] in ("Complete", "Fail") and int(call["r"]["fence"]) == fence]
        # A repeated call has the lease of the first one.
        until = begun[same[0]["r"]["attemptToken"]] + same[0]["r"]["leaseMs"] * 1_000_000 - CLOCK_NS
        asked, begin = max((call["b"], call["e"]) for call in same)
        for call in completes:
            if int(call["r"]["fence"]) == fence and call["code"] == "OK" and call["e"] < until and \
                    not history.is_stepped(asked, call["e"]):
                report.check("an attempt stays", checks.outcome(call) != "SUPERSEDED", lambda: f"{key}: {call}")
        attempts.append((*sure(history, asked, begin, until, min(ends, default=checks.NEVER)), fence))
    check_overlaps(report, "no two attempts inside a lease", attempts, lambda held, wanted: held)
    checks.ordered(report, "attempts rise", [(begun[same[0]["r"]["attemptToken"]], min(c["e"] for c in same), fence)
                                             for fence, same in sorted(executes.items())], key)
