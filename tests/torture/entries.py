"""GuardService for the checks: an Enter, Renew or Leave as the equivalent calls of the other services. So each part
is checked by the promises of its own service, and a refused call must have no effect in any part."""

SAME = ("via", "b", "e", "code", "applied")
BEGIN = {"ENTERED": "EXECUTE"}        # else its own word
ACQUIRE = {"ENTERED": "ACQUIRED"}
CHECK = {"ENTERED": "ALLOWED", "LIMITED": "DENIED"}
PREFIX = {"Begin": "BEGIN", "Acquire": "ACQUIRE", "Check": "CHECK", "Deduct": "DEDUCT", "Reserve": "RESERVE", "Complete":
          "COMPLETE", "Fail": "FAIL", "Release": "RELEASE", "Confirm": "CONFIRM", "Cancel": "CANCEL"}


def call(entry, method, request, outcome, **answer):
    """outcome None: as the whole call, there was no answer."""
    made = {name: entry[name] for name in SAME} | {"m": method, "r": request}
    if outcome:
        made["a"] = {"outcome": f"{PREFIX[method]}_OUTCOME_{outcome}"} | answer
    return made


def word(entry, field="outcome"):
    text = entry.get("a", {}).get(field, "") if entry["code"] == "OK" else ""
    return text.partition("_OUTCOME_")[2] or None


def group_of(request, part):
    return request[part].get("group") or request["group"]


def entered(entry, ordered, released):
    """ordered: the orders that an Enter before this one has made. released: the tokens that had left by then."""
    request, outcome, answer = entry["r"], word(entry), entry.get("a", {})
    again = {"replayed": answer.get("replayed", False) or request.get("stock", {}).get("orderId") in ordered}
    if "once" in request:
        yield call(entry, "Begin", {"key": request["once"]["key"], "attemptToken": request["token"],
                                    # A copy of its Leave may end it.
                                    "leaseMs": 0 if request["token"] in released else request["leaseMs"]},
                   BEGIN.get(outcome, outcome), fence=answer.get("attemptFence", "0"), result=answer.get("result", {}))
    if "limits" in request:
        yield call(entry, "Check", {"rules": request["limits"]["rules"], "cost": request["limits"].get("cost", 1),
                                    "requestId": request["token"]}, CHECK.get(outcome, outcome), attempt=answer.get("attempt", "0"))
    if "stock" in request:
        method = "Reserve" if request["stock"].get("holdMs") else "Deduct"
        refused = word(entry, "stockOutcome") if outcome == "OUT_OF_STOCK" else outcome
        yield call(entry, method, {"buyerId": ""} | request["stock"] | {"group": group_of(request, "stock")},
                   method.upper() + "D" if outcome == "ENTERED" and method == "Reserve" else
                   "DEDUCTED" if outcome == "ENTERED" else refused, **again)
    if "locks" in request:
        yield call(entry, "Acquire", {"group": group_of(request, "locks"), "targets": request["locks"]["targets"],
                                      "token": request["token"], "leaseMs": request["leaseMs"], "waitMs": request["waitMs"]},
                   ACQUIRE.get(outcome, outcome), fences=answer.get("fences", []), leaseMs=answer.get("leaseMs", 0))


def renewed(entry):
    request, outcome = entry["r"], word(entry)
    if "locks" in request and outcome in (None, "RENEWED", "LOCK_LOST"):
        made = call(entry, "Renew", {"leases": [{"token": request["token"]}]}, None)
        if outcome:
            made["a"] = {"results": [{"outcome": "RENEW_OUTCOME_" + ("RENEWED" if outcome == "RENEWED" else "LOST"),
                                      "leaseMs": request["leaseMs"]}]}
        yield made


def left(entry, fences, released):
    """fences: of the last attempt before this call, by token. released: the tokens whose locks were released by a call before this one."""
    request, outcome, answer = entry["r"], word(entry), entry.get("a", {})
    completes = request["kind"] == "LEAVE_KIND_COMPLETE"
    again = {"replayed": answer.get("replayed", False) or request["token"] in released}
    if "once" in request:
        yield call(entry, "Complete" if completes else "Fail",
                   request | {"key": request["once"]["key"], "fence": fences.get(request["token"], "0")},
                   "STORED" if outcome == "LEFT" else outcome, replayed=answer.get("replayed", False))
    if "locks" in request and outcome != "HOLD_ENDED":
        yield call(entry, "Release", {"group": group_of(request, "locks"), "token": request["token"]},
                   answer.get("locks", "").removeprefix("RELEASE_OUTCOME_") if outcome else None, **again)
    if completes and request.get("stock", {}).get("holdMs"):  # else the hold ends as if it had expired
        yield call(entry, "Confirm", {"group": group_of(request, "stock"), "orderId": request["stock"]["orderId"]},
                   "CONFIRMED" if outcome == "LEFT" else outcome, **again)


def parts_of(history):
    """The calls that are equivalent to the entries of the history."""
    fences, released, ordered, found = {}, set(), set(), []
    ours = sorted((entry for entry in history if entry.get("m", "").startswith("Guard.")), key=lambda entry: entry["b"])
    for entry in ours:
        if entry["m"] == "Guard.Enter":
            found += entered(entry, ordered, released)
            if word(entry) == "ENTERED":
                fences[entry["r"]["token"]] = entry["a"].get("attemptFence", "0")
                if "stock" in entry["r"]:
                    ordered.add(entry["r"]["stock"]["orderId"])
        elif entry["m"] == "Guard.Renew":
            found += renewed(entry)
        else:
            found += left(entry, fences, released)
            if word(entry) in ("LEFT", "SUPERSEDED"):
                released.add(entry["r"]["token"])
    return found
