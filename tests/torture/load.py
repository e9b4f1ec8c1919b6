"""The load: buyers, holders of locks, workers with work to do once, visitors, and users of ids. Each is
a task that makes one call after the other; every call is recorded in the history before it is made."""
import asyncio
import base64
import itertools

from processes import now_ns

LEDGER_WAIT_MS = 1000
BUYER_LIMIT = 3
LIMITED = "limited"
SPLIT = "hot"  # in buckets
BUCKETS = 4
GATE = "gate"  # where all that an Enter takes is
GROUPS = {f"shop{i}": ["shop%d" % i] for i in range(4)} | {
    GATE: [GATE], "cart0": ["a", "b"], "cart1": ["a", "b"], LIMITED: [LIMITED], SPLIT: [SPLIT]}
LOCKS = ["door0", "door1", "door2", "pair", "pool", "book", GATE]
POOL_PERMITS = 3
LIMITS = {
    "log": {"algorithm": "ALGORITHM_SLIDING_LOG", "limit": 15, "periodMs": 1500},
    "window": {"algorithm": "ALGORITHM_FIXED_WINDOW", "limit": 20, "periodMs": 1000},
    "bucket": {"algorithm": "ALGORITHM_TOKEN_BUCKET", "limit": 10, "periodMs": 1000, "burst": 5},
    "sliding": {"algorithm": "ALGORITHM_SLIDING_WINDOW", "limit": 10, "periodMs": 1000},
}
LIMIT_KEYS = 2
SHORT_MS = 2000
SET_UP_TRIES = 20
TWICE_SHARE = 0.04  # part of the calls that are repeated until an answer is sent over two wires at once


def not_first(request):
    """The same, without the promise that it was never sent before."""
    return {name: value for name, value in request.items() if name != "fresh"}


class Load:
    def __init__(self, callers, rng):
        self.callers, self.rng = callers, rng
        self.history = []
        self.numbers = itertools.count()
        self.followed, self.positions = {group: [] for group in GROUPS}, {}
        self.keys = [f"key{i}" for i in range(6)]
        self.gate_keys = [f"gate{i}" for i in range(4)]
        self.recent = []
        self.orders = {group: [] for group in GROUPS}
        self.ending = False

    async def call(self, method, request, wait_ms=0, caller=None):
        """The entry of the history, with its answer. Only None when no caller was there."""
        caller = caller or self.rng.choice(self.callers)
        if caller.is_doubled:
            request = not_first(request)
        entry = {"via": caller.name, "m": method.replace("GuardService/", "Guard.").split("/")[-1], "r": request, "b": now_ns(), "e": None, "code": "LOST",
                 "applied": "MAYBE"}
        self.history.append(entry)
        answer = await caller.call(method, request, SHORT_MS + wait_ms)
        if answer is None:  # it was dead: nothing was asked
            entry.update(code="UNSENT", applied="NO", e=now_ns())
            await asyncio.sleep(0.05)
        else:
            answer.pop("k", None)
            entry.update(answer)
            if answer["code"] == "RESOURCE_EXHAUSTED":
                await asyncio.sleep(0.05)
        return entry

    async def call_until_known(self, method, request, tries=4, wait_ms=0):
        """Repeats a call until its outcome is known. Some calls are sent twice from the beginning."""
        if self.rng.random() < TWICE_SHARE:
            request = not_first(request)
            await asyncio.gather(self.call(method, request, wait_ms), self.call(method, request, wait_ms))
        for _ in range(tries):
            entry = await self.call(method, request, wait_ms)
            if entry["code"] == "OK" or self.ending or self.rng.random() < 0.15:
                break
            request = not_first(request)
        return entry

    def number(self):
        return next(self.numbers)

    async def pause(self, longest_s=0.03):
        await asyncio.sleep(self.rng.random() * longest_s)

    def tasks(self, n):
        """n of each kind."""
        kinds = [self.buyer, self.holder, self.waiter, self.worker, self.visitor, self.enterer]
        running = [asyncio.create_task(self.forever(kind)) for kind in kinds for _ in range(n)]
        running += [asyncio.create_task(self.forever(kind)) for kind in (self.refiller, self.id_wanter, self.looker,
                                                                      self.burster)]
        return running + [asyncio.create_task(self.forever(self.follower, group)) for group in GROUPS]

    async def forever(self, kind, *args):
        while not self.ending:
            await kind(*args)
            await self.pause()

    # Stock.

    async def set_up(self):
        for group, skus in GROUPS.items():
            for sku in skus:
                limit = BUYER_LIMIT if group == LIMITED else 0
                put = {"group": group, "sku": sku, "onHand": 12, "perBuyerLimit": limit,
                       "buckets": BUCKETS if group == SPLIT else 0}
                for _ in range(SET_UP_TRIES):
                    entry = await self.call("StockService/PutItem", put)
                    if entry["code"] == "OK":
                        break
                else:
                    raise RuntimeError(f"PutItem: {entry}")

    def _order(self, prefix):
        rng = self.rng
        group = rng.choice(list(GROUPS) + [LIMITED])
        skus = [sku for sku in GROUPS[group] if rng.random() < 0.8] or GROUPS[group][:1]
        request = {"group": group, "orderId": f"{prefix}{self.number()}",
                   "buyerId": f"buyer{rng.randrange(8)}",
                   "lines": [{"sku": sku, "quantity": rng.randint(1, 3)} for sku in skus]}
        if rng.random() < 0.5:
            request["fresh"] = True
        return request

    async def buyer(self):
        rng = self.rng
        if self.recent and rng.random() < 0.15:  # a double click, through another server
            method, request = rng.choice(self.recent)
            await self.call(method, not_first(request))
            return
        method = rng.choice(["Deduct", "Reserve"])
        request = self._order(method[0].lower())
        if method == "Reserve":
            request["holdMs"] = rng.choice([50, 500, 2000, 4000])
            if rng.random() < 0.04:  # cancelled before it comes
                await self.call_until_known("StockService/Cancel",
                                            {"group": request["group"], "orderId": request["orderId"]})
        method = "StockService/" + method
        self.recent = self.recent[-20:] + [(method, request)]
        self.orders[request["group"]].append(request["orderId"])
        entry = await self.call_until_known(method, request)
        outcome = entry.get("a", {}).get("outcome", "")
        name = {"group": request["group"], "orderId": request["orderId"]}
        if outcome == "RESERVE_OUTCOME_RESERVED":
            await self.pause(rng.choice([0.02, 1.0]))
            await self._end_hold(name)
        if outcome in ("RESERVE_OUTCOME_RESERVED", "DEDUCT_OUTCOME_DEDUCTED") and rng.random() < 0.4:
            back = dict(name, returnId=f"return{self.number()}")
            if rng.random() < 0.5:
                back["lines"] = [dict(rng.choice(request["lines"]), quantity=1)]
            await self.call_until_known("StockService/Return", back)
            draw = rng.random()
            if draw < 0.3:  # the same again, or more than available
                if draw > 0.15:
                    back = dict(back, returnId=f"return{self.number()}", lines=request["lines"])
                await self.call_until_known("StockService/Return", back)

    async def _end_hold(self, name):
        draw = self.rng.random()
        if draw < 0.1:
            extended = await self.call_until_known("StockService/ExtendHold",
                                                   dict(name, holdMs=self.rng.choice([50, 1000])))
            draw = 0.5 if extended["code"] == "OK" else draw
        if draw < 0.6:
            confirm = dict(name, reacquireIfExpired=True) if self.rng.random() < 0.4 else name
            await self.call_until_known("StockService/Confirm", confirm)
        elif draw < 0.85:
            await self.call_until_known("StockService/Cancel", dict(name, reason="changed their mind"))

    async def refiller(self):
        group = self.rng.choice(list(GROUPS))
        sku = self.rng.choice(GROUPS[group])
        adjust = {"group": group, "sku": sku, "delta": self.rng.choice([-2, 3, 8]),
                  "adjustmentId": f"adjust{self.number()}"}
        await self.call_until_known("StockService/Adjust", adjust)
        if self.rng.random() < 0.2:
            await self.call("StockService/Adjust", adjust)
        await self.pause(0.2)

    async def looker(self):
        group = self.rng.choice(list(GROUPS))
        await self.call("StockService/GetItem", {"group": group, "sku": self.rng.choice(GROUPS[group])})
        await self.pause(0.05)

    async def follower(self, group):
        """Reads the ledger while it is written; it keeps only its position."""
        request = {"group": group, "after": self.positions.get(group, "0-0"), "limit": self.rng.choice([1, 3, 200]),
                   "waitMs": LEDGER_WAIT_MS}
        entry = await self.call("StockService/ReadLedger", request, LEDGER_WAIT_MS)
        answer = entry.pop("a", {})
        if answer.get("outcome") == "READ_LEDGER_OUTCOME_TRIMMED":
            entry["a"] = answer
        self.positions[group] = answer.get("nextAfter", request["after"])
        self.followed[group] += answer.get("entries", [])

    # Locks.

    def _targets(self, group):
        if group == "pair":
            names = [name for name in ("left", "right") if self.rng.random() < 0.7] or ["left"]
            return [{"name": name, "mode": "LOCK_MODE_EXCLUSIVE"} for name in names]
        if group == "pool":
            return [{"name": "pool", "mode": "LOCK_MODE_PERMIT", "permits": self.rng.randint(1, 2),
                     "capacity": POOL_PERMITS}]
        if group == "book":
            return [{"name": "book", "mode": "LOCK_MODE_" + self.rng.choice(["SHARED", "SHARED", "EXCLUSIVE"])}]
        return [{"name": group, "mode": "LOCK_MODE_EXCLUSIVE"}]

    async def waiter(self):
        await self.holder(self.rng.choice([500, 3000, 6000]))

    async def holder(self, wait_ms=0):
        rng = self.rng
        group = rng.choice(LOCKS + ["door1", "door2", "door2"])  # where many wait
        token = f"token{self.number():016d}"
        request = {"group": group, "targets": self._targets(group), "token": token,
                   "leaseMs": 4000 if group == "door1" else rng.choice([200, 600, 1500]),
                   "waitMs": wait_ms, "owner": "torture"}
        if rng.random() < 0.05:  # cancelled before the answer
            await self.call_until_known("LockService/Release", {"group": group, "token": token})
        entry = await self.call_until_known("LockService/Acquire", request, wait_ms=wait_ms)
        outcome = entry.get("a", {}).get("outcome")
        if outcome == "ACQUIRE_OUTCOME_BUSY":
            return
        if outcome == "ACQUIRE_OUTCOME_ACQUIRED":
            await self.pause(0.6 if group.startswith("door") else 0.05)
            if rng.random() < 0.2:
                await self.pause(rng.choice([0, 1]))
                lease = {"group": group, "token": token, "leaseMs": rng.choice([300, 1000])}
                await self.call("LockService/Renew", {"leases": [lease]})
                await self.pause(0.1)
            if group != "door1" and rng.random() < 0.1:
                return  # the lease runs out
        await self.call_until_known("LockService/Release", {"group": group, "token": token})
        if rng.random() < 0.1:  # a late copy
            await self.call("LockService/Acquire", dict(request, waitMs=0))

    # One effect for each key.

    async def worker(self):
        rng = self.rng
        at = rng.randrange(len(self.keys))
        key = {"scope": "pay", "key": self.keys[at]}
        if rng.random() < 0.12:
            self.keys[at] = f"key{self.number()}"
        begin = dict(key, attemptToken=f"token{self.number():016d}", leaseMs=rng.choice([200, 800]), retainMs=86400000,
                     waitMs=rng.choice([0, 0, 1000]))
        entry = await self.call_until_known("IdempotencyService/Begin", begin, wait_ms=begin["waitMs"])
        answer = entry.get("a", {})
        if answer.get("outcome") != "BEGIN_OUTCOME_EXECUTE":
            return
        attempt = dict(key, fence=answer.get("fence", "0"))
        await self.pause(rng.choice([0.02, 0.02, 0.3, 1.2]))
        draw = rng.random()
        if draw < 0.1:
            await self.call("IdempotencyService/Extend", dict(attempt, leaseMs=500))
        if draw < 0.75:
            body = f"done by {begin['attemptToken']} ".encode() + rng.randbytes(rng.choice([0, 10, 3000]))
            done = dict(attempt, code=200, body=base64.b64encode(body).decode(),
                        headers=[{"key": "content-type", "value": "text/plain"}])
            await self.call_until_known("IdempotencyService/Complete", done)
        elif draw < 0.85:
            await self.call_until_known("IdempotencyService/Fail", dict(attempt, kind="FAIL_KIND_RETRYABLE", detail="no"))

    # All of it at once.

    def _parts(self, token):
        rng = self.rng
        at = rng.randrange(len(self.gate_keys))
        if rng.random() < 0.12:
            self.gate_keys[at] = f"gate{self.number()}"
        parts = {"once": {"scope": "pay", "key": self.gate_keys[at]}, "locks": {"targets": [{"name": GATE, "mode": "LOCK_MODE_EXCLUSIVE"}]},
                 "limits": {"rules": [{"limit": LIMITS["log"], "key": "log7"}]},
                 "stock": {"orderId": f"entry{token}", "buyerId": f"buyer{rng.randrange(8)}", "holdMs": rng.choice([0, 500, 3000]),
                           "lines": [{"sku": GATE, "quantity": rng.randint(1, 3)}]}}
        for name, share in (("once", 0.7), ("locks", 0.5), ("limits", 0.4), ("stock", 0.6)):
            if rng.random() > share and len(parts) > 1:
                del parts[name]
        if "once" in parts and "stock" in parts and rng.random() < 0.5:  # all attempts of a key have the same order
            parts["stock"] = {"orderId": parts["once"]["key"], "buyerId": "buyer0", "holdMs": rng.choice([500, 3000]),
                              "lines": [{"sku": GATE, "quantity": 1 + at % 3}]}
        return parts

    async def enterer(self):
        rng = self.rng
        token = f"token{self.number():016d}"
        parts = self._parts(token)
        enter = dict(parts, group=GATE, token=token, owner="torture", leaseMs=rng.choice([300, 800, 2000]), waitMs=rng.choice([0, 0, 1500]))
        if "stock" in parts and parts["stock"]["orderId"] not in self.orders[GATE]:
            self.orders[GATE].append(parts["stock"]["orderId"])
        entry = await self.call_until_known("GuardService/Enter", enter, wait_ms=enter["waitMs"])
        held = {name: parts[name] for name in ("once", "stock", "locks") if name in parts and
                (name != "stock" or parts["stock"]["holdMs"])}
        if entry.get("a", {}).get("outcome") != "ENTER_OUTCOME_ENTERED" or not held:
            return
        held |= {"group": GATE, "token": token}
        await self.pause(rng.choice([0.02, 0.02, 0.3, 1.2]))
        if rng.random() < 0.2:
            await self.call("GuardService/Renew", dict(held, leaseMs=rng.choice([300, 1000])))
            await self.pause(0.2)
        if rng.random() < 0.1:
            return  # it dies: its leases expire
        leave = dict(held, kind="LEAVE_KIND_RETRYABLE", detail="no")
        if rng.random() < 0.75:
            leave = dict(held, kind="LEAVE_KIND_COMPLETE", code=200)
            if "once" in parts:
                leave["body"] = base64.b64encode(f"done by {token} ".encode() + rng.randbytes(rng.choice([0, 10, 3000]))).decode()
        entry = await self.call_until_known("GuardService/Leave", leave)
        if entry.get("a", {}).get("outcome") == "LEAVE_OUTCOME_HOLD_ENDED":
            await self.call_until_known("GuardService/Leave", dict(held, kind="LEAVE_KIND_RETRYABLE"))
        if rng.random() < 0.1:  # a late copy
            await self.call("GuardService/Enter", dict(enter, waitMs=0))

    # Rates and ids.

    async def visitor(self):
        rng = self.rng
        name = rng.choice(list(LIMITS))
        request = {"rules": [{"limit": LIMITS[name], "key": f"{name}{rng.randrange(LIMIT_KEYS)}"}]}
        if rng.random() < 0.3:
            request["cost"] = rng.randint(2, 3)
        if rng.random() < 0.5:
            request["requestId"] = f"check{self.number()}"
            await self.call_until_known("RateLimitService/Check", request)
            if rng.random() < 0.1:
                await self.call("RateLimitService/Check", request)
        else:
            await self.call("RateLimitService/Check", request)

    async def burster(self):
        """Comes often for a moment, once a period later, and then not for longer than a period."""
        for times, pause_s in ((9, 1.3), (1, 1.8)):
            for _ in range(times):
                await self.call("RateLimitService/Check", {"rules": [{"limit": LIMITS["log"], "key": "log9"}]})
                await self.pause(0.08)
            await asyncio.sleep(pause_s)

    async def id_wanter(self):
        kind = self.rng.choice(["SNOWFLAKE", "UUID_V7", "SEQUENCE", "SEQUENCE"])
        request = {"kind": "ID_KIND_" + kind, "count": self.rng.choice([1, 1, 20])}
        if kind == "SEQUENCE":
            request["name"] = self.rng.choice(["invoice", "ticket"])
        await self.call("IdService/Next", request)
