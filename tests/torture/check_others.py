"""Rate limits and ids."""
import history as checks
from load import LIMITS

MARGIN_NS = 5_000_000  # between the store's clock and ours


def check_rates(report, history):
    keys = {}
    for call in history.of("Check"):
        keys.setdefault(call["r"]["rules"][0]["key"], []).append(call)
    for key, calls in keys.items():
        name = key.rstrip("0123456789")
        limit = LIMITS[name]
        charged = charges(calls)
        spans = sorted((begin, end, cost) for begin, end, cost in charged if end != checks.NEVER)
        check_bound(report, history, key, name, limit, spans)
        if name == "log":
            check_denials(report, history, key, limit, calls, charged)


def charges(calls):
    """(begin, end, cost) of each that was surely charged: once for an id, by any of its calls up to the first answer. An
    Enter is charged once for each attempt that its token makes."""
    of_id, found = {}, []
    for call in calls:
        name = call["r"].get("requestId")
        if name:
            of_id.setdefault(name, []).append(call)
        elif checks.outcome(call) == "ALLOWED":
            found.append((call["b"], call["e"], call["r"].get("cost", 1)))
    for same in of_id.values():
        ends = {}
        for call in same:
            if checks.outcome(call) == "ALLOWED":
                attempt = call["a"].get("attempt")
                ends[attempt] = min(call["e"], ends.get(attempt, checks.NEVER))
        for attempt, end in ends.items():
            begin = min(call["b"] for call in same if call["applied"] != "NO" and attempt_of(call) in (None, attempt))
            found.append((begin, end, same[0]["r"].get("cost", 1)))
    return found


def attempt_of(call):
    """None: unknown."""
    return call["a"].get("attempt") if checks.outcome(call) == "ALLOWED" else None


def allowed_in(name, limit, begin, end, wall_ns):
    """The most that may be charged in the span, and whether the limit applies to a span of that length."""
    period = limit["periodMs"] * 1_000_000
    if name == "bucket":
        return limit["burst"] + limit["limit"] * (end - begin + MARGIN_NS) / period
    if end - begin > period - MARGIN_NS:
        return None
    if name == "log":
        return limit["limit"]
    if name == "sliding":
        return limit["limit"] * (1 + (end - begin + MARGIN_NS) / period)
    same = (begin + wall_ns - MARGIN_NS) // period == (end + wall_ns + MARGIN_NS) // period
    return limit["limit"] if same else None


def check_bound(report, history, key, name, limit, spans):
    by_begin = sorted(spans)
    for i, (first, _, _) in enumerate(by_begin):
        inside = sorted((end, cost) for begin, end, cost in by_begin[i:i + 200] if end - first < 3_000_000_000)
        total = 0
        for end, cost in inside:
            total += cost
            most = allowed_in(name, limit, first, end, history.wall_ns)
            if most is None or history.is_stepped(first - 6_000_000_000, end):
                continue
            if history.steps and name == "window" and any(step < end for step in history.steps):
                continue  # where its windows begin is not known any more
            report.check("limits hold", total <= most,
                         lambda: f"{key}: {total} within {(end - first) / 1e6:.1f} ms, allowed {most}")


def check_denials(report, history, key, limit, calls, charged):
    """A refusal is true: with what may have been charged in the period before, there was no room."""
    period = limit["periodMs"] * 1_000_000
    unknown = [(call["b"], checks.NEVER, call["r"].get("cost", 1)) for call in calls
               if checks.outcome(call) is None and call["applied"] != "NO"]
    possible = charged + unknown
    for call in calls:
        if checks.outcome(call) != "DENIED" or history.is_stepped(call["b"] - 6_000_000_000, call["e"]) or \
                history.is_doubled(call["b"] - 6_000_000_000, call["e"]):  # a copy without an id is charged as well
            continue
        most = sum(cost for begin, end, cost in possible if end > call["b"] - period - 30_000_000 and begin < call["e"])
        report.check("a refusal is true", most + call["r"].get("cost", 1) > limit["limit"],
                     lambda: f"{key}: {call}; {most} were charged")


def check_ids(report, history):
    seen, sequences = {}, {}
    for call in history.of("Next"):
        if call["code"] != "OK":
            continue
        kind, name = call["r"]["kind"], call["r"].get("name", "")
        ids = [int(one) for one in call["a"].get("ids", [])] or call["a"]["uuids"]
        report.check("as many ids as asked for", len(ids) == call["r"]["count"], lambda: f"{call}")
        report.check("ids of an answer rise", all(a < b for a, b in zip(ids, ids[1:])), lambda: f"{kind} {name}: {ids}")
        for one in ids:
            report.check("numbers of a sequence are unique" if name else "ids are unique", (kind, name, one) not in seen,
                         lambda: f"{kind} {name}: {one} in {seen[kind, name, one]} and {call}")
            seen[kind, name, one] = call
        if kind == "ID_KIND_SEQUENCE":
            sequences.setdefault(name, []).append((call["b"], call["e"], ids[0], ids[-1]))
    for name, answers in sequences.items():
        checks.ordered(report, "sequences in real time", sorted(answers, key=lambda answer: answer[2]), name)
