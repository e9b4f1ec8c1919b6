"""Shared by all checks: the recorded calls, and the list of faults."""
from collections import Counter

import entries

NEVER = float("inf")
TOLD_EACH = 5  # of one kind
SLOW_NS = 400_000_000  # of a call that does not wait: then a server may not take an offer in its time, which is 0.5 s


# Checks that hold even on a store that lost answered writes.
HOLDS_ANYWAY = {"a position is taken", "all holds ended", "all locks are free in the end", "as many ids as asked for",
                "end of a server", "fences rise", "ids of an answer rise", "items are the sum of the ledger",
                "ledger ids", "lines as asked for", "no call is INTERNAL", "nobody else's effects", "stock equation"}


class Report:
    def __init__(self):
        self.wrong, self.checked, self.lost = [], Counter(), Counter()
        self.notes = []  # observations that are not faults

    def forgive_losses(self):
        """The store may lose answered writes, and did: what follows from that is counted only."""
        self.lost = Counter(kind for kind, _ in self.wrong if kind not in HOLDS_ANYWAY)
        self.wrong = [(kind, text) for kind, text in self.wrong if kind in HOLDS_ANYWAY]

    def fail(self, kind, text):
        self.wrong.append((kind, text))

    def check(self, kind, good, text):
        """text: the fault, or a function that returns it."""
        self.checked[kind] += 1
        if not good:
            self.fail(kind, text() if callable(text) else text)

    def text(self):
        kinds = Counter(kind for kind, _ in self.wrong)
        lines = ["checked: " + ", ".join(f"{n} {kind}" for kind, n in sorted(self.checked.items()))]
        for kind, n in sorted(kinds.items()):
            lines.append(f"WRONG, {n} times: {kind}")
            lines += ["  " + text for which, text in self.wrong if which == kind][:TOLD_EACH]
        lines += ["note: " + text for text in self.notes]
        if self.lost:
            lines.append("lost at failovers: " + ", ".join(f"{n} {kind}" for kind, n in sorted(self.lost.items())))
        return "\n".join(lines if kinds else lines + ["nothing is wrong"])


class History:
    """The calls by method, and when what was broken."""

    def __init__(self, record):
        history = record["history"]
        self.calls, self.faults = {}, [entry for entry in history if "fault" in entry]
        for entry in history:
            if "m" in entry and entry["e"] is None:
                entry["e"] = NEVER  # it may still come to pass
        for entry in history + entries.parts_of(history):
            if "m" in entry:
                self.calls.setdefault(entry["m"], []).append(entry)
        self.steps = sorted(fault["b"] for fault in self.faults if fault["fault"] == "clock_stepped")
        self.doubled = [fault for fault in self.faults if fault["fault"] == "messages_doubled"]
        self.slow = [(entry["b"], entry["e"]) for entry in self.of(*self.calls)
                     if not entry["r"].get("waitMs") and entry["e"] - entry["b"] > SLOW_NS]
        self.wall_ns = record["wall_ns"]
        self.may_lose = record["may_lose"]

    def of(self, *methods):
        return [entry for method in methods for entry in self.calls.get(method, [])]

    def is_quiet(self, begin, end, after_ns=2_500_000_000):
        """Nothing was broken then, what was broken before has had time to recover, and the machine kept up."""
        return all(fault["b"] > end or (fault["e"] or NEVER) + after_ns < begin for fault in self.faults) and \
            all(b > end or e < begin for b, e in self.slow)

    def is_doubled(self, begin, end):
        """Whether clients' messages may have been duplicated at that time."""
        return any(fault["b"] < end and begin < (fault["e"] or NEVER) for fault in self.doubled)

    def is_stepped(self, begin, end):
        return any(begin <= step <= end for step in self.steps)


def outcome(entry):
    """"DEDUCTED" of DEDUCT_OUTCOME_DEDUCTED; None where there was no answer."""
    text = entry.get("a", {}).get("outcome") if entry["code"] == "OK" else None
    return text.partition("_OUTCOME_")[2] if text else None


def ordered(report, kind, entries, text):
    """entries: events in the server's own order, each with its (earliest, latest) possible time. None
    may have ended before an earlier one began."""
    begun, before = -NEVER, None
    for entry in entries:
        earliest, latest = entry[0], entry[1]
        report.check(kind, latest >= begun, lambda entry=entry, before=before: f"{text}: {before[2:]} before {entry[2:]}")
        if earliest > begun:
            begun, before = earliest, entry
