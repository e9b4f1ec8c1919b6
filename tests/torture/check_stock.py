"""Stock: the ledger is the evidence. It must be consistent, and have each answered change once, in an order that
fits the times of the calls; every read must match a moment of it."""
import bisect

import history as checks
from load import BUYER_LIMIT, GROUPS, LIMITED, SPLIT

REMEMBERED_NS = 30_000_000  # a refusal may be of so long ago: 20 ms, and the resolution of clocks
IDS_OF_BUCKETS = 128         # an entry of bucket k has an id that leaves k (docs/ledger.md)
LATE_NS = 400_000_000        # a client sends an unanswered call to another server after this time at the earliest
EFFECT = {  # on available, reserved, sold
    "PUT": (1, 0, 0), "ADJUSTED": (1, 0, 0), "DEDUCTED": (-1, 0, 1), "RESERVED": (-1, 1, 0), "CONFIRMED": (0, -1, 1),
    "CANCELLED": (1, -1, 0), "EXPIRED": (1, -1, 0), "RETURNED": (1, 0, -1),
    "TRANSFERRED": (1, 0, 0)}
MAKES = {"Deduct": ("DEDUCTED",), "Reserve": ("RESERVED",), "Confirm": ("CONFIRMED", "DEDUCTED"),
         "Cancel": ("CANCELLED",), "Return": ("RETURNED",), "Adjust": ("ADJUSTED",)}
DONE = {"Deduct": "DEDUCTED", "Reserve": "RESERVED", "Confirm": "CONFIRMED", "Cancel": "CANCELLED", "Return": "RETURNED"}
IDS = {"Return": "returnId", "Adjust": "adjustmentId"}
LIVES = [["DEDUCTED"], ["RESERVED"], ["RESERVED", "CONFIRMED"], ["RESERVED", "CANCELLED"], ["RESERVED", "EXPIRED"],
         ["RESERVED", "EXPIRED", "DEDUCTED"], ["RETURNED"], ["ADJUSTED"]]
STATES = {"DEDUCTED": "CONFIRMED", "CONFIRMED": "CONFIRMED", "RESERVED": "RESERVED", "CANCELLED": "CANCELLED",
          "EXPIRED": "EXPIRED"}


def is_life(kinds):
    """An Enter takes again what an earlier attempt had until it expired."""
    while kinds[:3] == ["RESERVED", "EXPIRED", "RESERVED"]:
        kinds = kinds[2:]
    return kinds in LIVES


def said_done(call):
    if call["m"] == "Adjust":
        return call["code"] == "OK"
    return checks.outcome(call) == DONE[call["m"]]


def surely_not_done(call):
    """It answered that it has no effect."""
    if call["code"] == "OK":
        return not said_done(call)
    return call["applied"] == "NO"


class Group:
    """The state of a group by its ledger."""

    def __init__(self, report, group, entries):
        self.group, self.entries = group, []
        self.of_id = {}
        counts = {sku: [0, 0, 0] for sku in GROUPS[group]}
        self.counts = {sku: [(0, 0, 0)] for sku in GROUPS[group]}  # after so many entries
        last = (0, 0)
        for at, entry in enumerate(entries):
            kind = entry["kind"].removeprefix("LEDGER_KIND_")
            sku, quantity, name = entry["sku"], int(entry["quantity"]), entry.get("orderId", "")
            id_ = tuple(int(part) for part in entry["id"].split("-"))
            report.check("ledger ids", id_ > last, f"{group}: {entry['id']} after {last}")
            last = id_
            for i, effect in enumerate(EFFECT[kind]):
                counts[sku][i] += effect * quantity
            # In a group in buckets: not between two entries of different buckets.
            report.check("stock equation", min(counts[sku]) >= 0 or group == SPLIT,
                         f"{group}/{sku}: {counts[sku]} after {entry}")
            for each, values in self.counts.items():
                values.append(tuple(counts[each]))
            self.entries.append((kind, sku, quantity, name))
            if name and kind != "TRANSFERRED":
                self.of_id.setdefault(name, []).append(at)

    def life(self, name):
        """The kinds of the entries of an id, each once where its lines follow one another; and the lines of each."""
        kinds, lines = [], []
        for at in self.of_id.get(name, []):
            kind, sku, quantity, _ = self.entries[at]
            if not kinds or kinds[-1] != kind or sku in lines[-1]:
                kinds.append(kind)
                lines.append({})
            lines[-1][sku] = quantity
        return kinds, lines


def was_followed(read, there, by_bucket):
    """Whether the entries read are the first ones: of all, or, if the clock stepped back, of each bucket."""
    if not by_bucket:
        return read == there[:len(read)]
    parts = [[[entry for entry in entries if int(entry["id"].split("-")[1]) % IDS_OF_BUCKETS == bucket]
              for bucket in range(IDS_OF_BUCKETS)] for entries in (read, there)]
    return all(mine == all_of[:len(mine)] for mine, all_of in zip(*parts))


def check(report, history, witness):
    for group in witness["ledgers"]:
        ledger = Group(report, group, witness["ledgers"][group])
        followed = witness["followed"][group]
        report.check("ledger as it was followed", was_followed(followed, witness["ledgers"][group],
                                                               group == SPLIT and history.steps),
                     f"{group}: the reader saw other entries than there are in the end")
        calls = {}
        for call in history.of(*MAKES):
            if call["r"]["group"] == group:
                calls.setdefault(call["r"][IDS.get(call["m"], "orderId")], []).append(call)
        check_effects(report, history, ledger, calls)
        if group != SPLIT:
            check_order(report, ledger, calls)
            check_reads(report, history, ledger, calls)
        check_end(report, ledger, witness, calls)
    for call in history.of("ReadLedger"):
        report.check("a position is taken", call["code"] != "INVALID_ARGUMENT", f"{call['r']}: {call.get('why')}")
        report.check("ledger not trimmed", checks.outcome(call) != "TRIMMED", f"{call['r']}: TRIMMED")


def wanted_lines(call):
    if call["m"] == "Adjust":
        return {call["r"]["sku"]: call["r"]["delta"]}
    return {line["sku"]: line["quantity"] for line in call["r"].get("lines", [])}


def check_effects(report, history, ledger, calls):
    for name, asked in calls.items():
        kinds, lines = ledger.life(name)
        where = f"{ledger.group}/{name}"
        report.check("one effect an id", not kinds or is_life(kinds), f"{where}: {kinds}")
        for method in {call["m"] for call in asked}:
            of_method = [call for call in asked if call["m"] == method]
            done = [call for call in of_method if said_done(call)]
            first = [call for call in done if not call["a"].get("replayed")]
            made = [kind for kind in kinds if kind in MAKES[method]]
            if method == "Confirm" and "RESERVED" not in kinds:
                made = []
            # An expired hold is cancelled without an entry.
            gone = method == "Cancel" and "EXPIRED" in kinds
            report.check("a YES is in the ledger", not done or made or gone,
                         lambda: f"{where}: {method} was told done, {kinds}: {done[0]}")
            report.check("one first answer", len(first) <= 1, lambda: f"{where}: two are not replayed: {first[:2]}")
            # A call that was refused may have been sent twice, and one of the copies come late (docs/torture.md).
            late = [call for call in of_method if call["code"] == "OK" and call["e"] - call["b"] > LATE_NS or
                    history.is_doubled(call["b"], call["e"])]
            if made and all(map(surely_not_done, of_method)) and late:
                report.notes.append(f"{where}: {method} was refused, and a copy of it came late: {late[0]}")
                continue
            report.check("a NO has no effect", not made or not all(map(surely_not_done, of_method)),
                         lambda: f"{where}: {kinds}, but every {method} was told that it did nothing: {of_method[0]}")
            for kind, line in zip(kinds, lines):
                if method in ("Deduct", "Reserve", "Adjust") and kind in MAKES[method] or \
                        method == "Return" and wanted_lines(of_method[0]):
                    report.check("lines as asked for", line == wanted_lines(of_method[0]),
                                 lambda: f"{where}: {kind} {line}")
    for name, places in ledger.of_id.items():
        report.check("nobody else's effects", name in calls,
                     lambda: f"{ledger.group}/{name}: {places}, never asked for")


def span_of(ledger, at, calls):
    """When an entry can have been written, by the calls that can have caused it."""
    kind, _, _, name = ledger.entries[at]
    makers = [call for call in calls.get(name, []) if kind in MAKES[call["m"]]]
    causes = [call for call in makers if not surely_not_done(call)]
    if kind == "EXPIRED" or not causes:
        return None
    done = [call for call in causes if said_done(call)]
    if ledger.life(name)[0].count(kind) > 1:  # of several attempts
        return min(call["b"] for call in causes), checks.NEVER
    if all(call["a"].get("replayed") for call in done):
        causes = makers  # a copy of one that was refused may have done it, late
    return min(call["b"] for call in causes), min((call["e"] for call in done), default=checks.NEVER)


def check_order(report, ledger, calls):
    ledger.spans = [(span, at) for at in range(len(ledger.entries)) if (span := span_of(ledger, at, calls))]
    checks.ordered(report, "ledger in real time", [(*span, ledger.entries[at]) for span, at in ledger.spans], ledger.group)


def check_reads(report, history, ledger, calls):
    by_end = sorted((span[1], at) for span, at in ledger.spans if span[1] != checks.NEVER)
    by_begin = sorted((span[0], at) for span, at in ledger.spans)
    ends, begins = [end for end, _ in by_end], [begin for begin, _ in by_begin]
    last_until, first_from = [0], [len(ledger.entries)]
    for _, at in by_end:
        last_until.append(max(last_until[-1], at + 1))
    for _, at in reversed(by_begin):
        first_from.append(min(first_from[-1], at))
    first_from.reverse()

    def moments(begin, end):
        """The possible numbers of entries before it: earlier calls are included, later ones are not."""
        # The first entries are of the setting up, which was answered.
        setup = len(GROUPS[ledger.group])
        return range(max(last_until[bisect.bisect_left(ends, begin)], setup),
                     first_from[bisect.bisect_right(begins, end)] + 1)

    for call in history.of("GetItem"):
        if call["code"] != "OK" or call["r"]["group"] != ledger.group:
            continue
        item = {name: int(call["a"]["item"].get(name, 0)) for name in ("available", "reserved", "sold")}
        counts = ledger.counts[call["r"]["sku"]]
        # An expired hold is returned before its ledger entry.
        seen = (item["available"] + item["reserved"], item["sold"])
        report.check("reads of a moment", any(seen == (counts[at][0] + counts[at][1], counts[at][2])
                                              for at in moments(call["b"], call["e"])),
                     lambda: f"{ledger.group}: {item} read at {call['b']}, never so then")
    for call in history.of("Deduct", "Reserve"):
        if call["r"]["group"] != ledger.group or checks.outcome(call) != "SOLD_OUT":
            continue
        lines = wanted_lines(call)
        when = moments(call["b"] - (REMEMBERED_NS if call["r"].get("fresh") else 0), call["e"])
        report.check("sold out is true",
                     any(ledger.counts[sku][at][0] < quantity for at in when for sku, quantity in lines.items()),
                     lambda: f"{ledger.group}: {call['r']} was told SOLD_OUT; there were "
                             f"{[[ledger.counts[sku][at][0] for sku in lines] for at in when[:3]]}")
    if ledger.group == LIMITED:
        check_buyers(report, history, ledger, moments)


def check_end(report, ledger, witness, calls):
    # A failover that loses a part of a move between buckets loses its units (docs/stock.md).
    sums = "buckets are the sum of the ledger" if ledger.group == SPLIT else "items are the sum of the ledger"
    for item in witness["items"][ledger.group]:
        counts = tuple(int(item.get(name, 0)) for name in ("available", "reserved", "sold"))
        report.check(sums, counts == ledger.counts[item["sku"]][-1],
                     lambda: f"{ledger.group}/{item['sku']}: {counts}, by the ledger {ledger.counts[item['sku']][-1]}")
        report.check("stock equation", min(counts) >= 0, f"{ledger.group}/{item['sku']}: {counts} in the end")
        report.check("all holds ended", counts[1] == 0, lambda: f"{ledger.group}/{item['sku']}: {counts[1]} are reserved")
    back = {}
    for name, asked in calls.items():
        if asked[0]["m"] == "Return":
            for at in ledger.of_id.get(name, []):
                _, sku, quantity, _ = ledger.entries[at]
                returned = back.setdefault(asked[0]["r"]["orderId"], {})
                returned[sku] = returned.get(sku, 0) + quantity
    for name, asked in calls.items():
        if asked[0]["m"] in ("Return", "Adjust"):
            continue
        order = witness["orders"].get(f"{ledger.group}/{name}")
        kinds, lines = ledger.life(name)
        if not kinds:
            report.check("orders as in the ledger", not order or order["state"] == "ORDER_STATE_CANCELLED",
                         lambda: f"{ledger.group}/{name}: {order}, and nothing in the ledger")
            continue
        state = STATES[kinds[-1]]
        if state == "EXPIRED" and any(call["m"] == "Cancel" and not surely_not_done(call) for call in asked):
            state = order["state"].removeprefix("ORDER_STATE_") if order else state  # either
        returned = back.get(name, {})
        if state == "CONFIRMED" and returned == lines[-1]:
            state = "RETURNED"
        report.check("orders as in the ledger", order and order["state"] == "ORDER_STATE_" + state,
                     lambda: f"{ledger.group}/{name}: {order}, by the ledger {state}")
        report.check("no more returned than sold", all(quantity <= lines[-1].get(sku, 0)
                                                            for sku, quantity in returned.items()) and
                     (not returned or kinds[-1] in ("DEDUCTED", "CONFIRMED")),
                     lambda: f"{ledger.group}/{name}: {kinds}, returned {returned}")


def check_buyers(report, history, ledger, moments):
    buyers, returns = {}, {}
    for call in history.of("Deduct", "Reserve"):
        buyers[call["r"]["group"], call["r"]["orderId"]] = call["r"]["buyerId"]
    for call in history.of("Return"):
        returns[call["r"]["group"], call["r"]["returnId"]] = call["r"]["orderId"]
    has, after = {}, [{}]  # after[n]: what each has when there were n entries
    for kind, _, quantity, name in ledger.entries:
        buyer = buyers.get((LIMITED, returns.get((LIMITED, name), name)))
        change = {"DEDUCTED": 1, "RESERVED": 1, "CANCELLED": -1, "EXPIRED": -1, "RETURNED": -1}.get(kind, 0)
        if buyer:
            has = dict(has, **{buyer: has.get(buyer, 0) + change * quantity})
            report.check("limit a buyer", has[buyer] <= BUYER_LIMIT, lambda: f"{buyer} has {has[buyer]} by {name}")
        after.append(has)
    for call in history.of("Deduct", "Reserve"):
        if call["r"]["group"] != LIMITED or checks.outcome(call) != "BUYER_LIMIT":
            continue
        buyer, wanted = call["r"]["buyerId"], sum(wanted_lines(call).values())
        report.check("a buyer's limit is true", any(after[at].get(buyer, 0) + wanted > BUYER_LIMIT
                                                    for at in moments(call["b"], call["e"])),
                     lambda: f"{call['r']} was told BUYER_LIMIT")
