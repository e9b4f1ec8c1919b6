#!/usr/bin/env python3
"""Measures what grows with the amount of data: bytes of Redis for each thing, and the CPU and the commands of functions with a
thousand things and with many.

    bench/scale.py build/release/server/functions/lockstock-functions.lua [pattern] [--many=1000000] [--rounds=5]

Each table is filled and measured at both sizes, in a redis-server without files. Prints medians.
"""
import re
import statistics

from programs import Library, Redis, arguments, order, token

FEW, TOGETHER, PIPELINED, CALLS = 1000, 64, 16, 400
HOUR_MS, DAYS_30_MS = 3600 * 1000, 2592000000
WINDOW = "F,1000,3600000"


class Scale(Library):
    def fill(self, function, make, n):
        """make(i) -> (group, arguments) of the i-th."""
        for at in range(0, n, TOGETHER * PIPELINED):
            end = min(at + TOGETHER * PIPELINED, n)
            self.cost([self.fcall(function, [make(i) for i in range(k, min(k + TOGETHER, end))])
                       for k in range(at, end, TOGETHER)])

    def measure(self, calls, rounds):
        """calls() -> (function, group, arguments) of each. Microseconds and commands a call."""
        us, n = [], 0
        for _ in range(rounds):
            commands = [self.fcall(function, [(group, args)]) for function, group, args in calls()]
            ran = self.commands()
            us.append(self.cost(commands) / len(commands))
            n = (self.commands() - ran) / len(commands)
        return statistics.median(us), n

    def some(self, n):
        """One of n, none often."""
        return self.next() * 7919 % n


def times(make, n=CALLS):
    """make() -> one call."""
    return lambda: [make() for _ in range(n)]


def after(b, function, first, then):
    """Calls of what `first` made: then(i) of first(i), for new i."""
    def make():
        numbers = [10**6 * 9 + b.next() for _ in range(CALLS)]
        b.cost([b.fcall(function, [first(i)]) for i in numbers])
        return [then(i) for i in numbers]
    return make


def item(i):
    return f"sku{i:07d}"


def put(i, group="g"):
    return group, [item(i), 10**12, 0, 0, 0, DAYS_30_MS, 0, 0]


def deducted(i, sku=0):
    return "g", [order(i), "buyer", item(sku), 1]


def held(i, group="g"):
    return group, [order(i), "buyer", HOUR_MS, item(0), 1]


def lock(i, group=None):
    return group or f"l{i:07d}", [token(i), "", HOUR_MS, 0, ".", f"l{i:07d}"]


# ---- tables: f(bench, n) -> function, make(i) that fills it with n; what is called then ------------


def items(b, n):
    return "stock_put_item", put, {
        "get": times(lambda: ("stock_get_items", "g", [item(b.some(n))])),
        "deduct": times(lambda: ("stock_deduct", *deducted(b.next(), b.some(n)))),
        "list 20, first": times(lambda: ("stock_list_group", "g", ["", "", 20])),
        "list 20, middle": times(lambda: ("stock_list_group", "g", ["", item(n // 2), 20]))}


def orders(b, n):
    """Deducted, of one group; with its ledger."""
    b.cost([b.fcall("stock_put_item", [put(0)])])
    return "stock_deduct", deducted, {
        "deduct": times(lambda: ("stock_deduct", *deducted(10**9 + b.next()))),
        "get order": times(lambda: ("stock_get_order", "g", [order(b.some(n))])),
        "read ledger": times(lambda: ("stock_read_ledger", "g", ["", 20, "", 0]))}


def holds(b, n):
    """Orders of one group, held for an hour."""
    b.cost([b.fcall("stock_put_item", [put(0)])])
    return "stock_reserve", held, {
        "reserve": times(lambda: ("stock_reserve", *held(10**9 + b.next()))),
        "confirm": after(b, "stock_reserve", held, lambda i: ("stock_confirm", "g", [order(i), 0])),
        "cancel": after(b, "stock_reserve", held, lambda i: ("stock_cancel", "g", [order(i), ""])),
        "expire, none due": times(lambda: ("stock_expire", "g", []))}


def groups(b, n):
    """Groups with one held order each."""
    b.fill("stock_put_item", lambda i: put(0, f"g{i:07d}"), n)
    return "stock_reserve", lambda i: held(i, f"g{i:07d}"), {
        "step of the sweep": times(lambda: ("stock_find_overdue", "sweep", ["0"]))}


def locks(b, n):
    """Held, each its own group."""
    return "lock_acquire", lock, {
        "acquire": times(lambda: ("lock_acquire", *lock(n + b.next()))),
        "renew": after(b, "lock_acquire", lock,
                       lambda i: ("lock_renew", lock(i)[0], [token(i), HOUR_MS, lock(i)[0]])),
        "release": after(b, "lock_acquire", lock,
                         lambda i: ("lock_release", lock(i)[0], [token(i), "", lock(i)[0]]))}


def locks_of_a_group(b, n):
    return "lock_acquire", lambda i: lock(i, "g"), {
        "list 20, first": times(lambda: ("lock_list", "g", ["", 20, "0", "", ""])),
        "acquire": times(lambda: ("lock_acquire", *lock(n + b.next(), "g")))}


def waiters(b, n):
    """Acquires that wait for one lock."""
    def waits(i):
        return "door", [token(i), "", HOUR_MS, HOUR_MS, f"srv.{i:032d}", "door"]
    b.cost([b.fcall("lock_acquire", [("door", [token(10**9), "", HOUR_MS, 0, ".", "door"])])])
    return "lock_acquire", waits, {
        "one more waits": times(lambda: ("lock_acquire", *waits(2 * 10**9 + b.next())), 20),
        "renew": times(lambda: ("lock_renew", "door", [token(10**9), HOUR_MS, "door"])),
        "promote": times(lambda: ("lock_promote", "door", ["door"]))}


def limit_keys(b, n):
    """Keys of a fixed window of an hour."""
    def check(i):
        return "g", [1, "A", "", f"key{i:07d}", WINDOW]
    return "rate_check", check, {"check": times(lambda: ("rate_check", *check(b.some(n))))}


def measure(b, table, sizes, rounds):
    costs = []
    for n in sizes:
        b.redis.call("FLUSHALL")
        function, make, calls = table(b, n)
        before = b.redis.number("memory", "used_memory")
        b.fill(function, make, n)
        each = (b.redis.number("memory", "used_memory") - before) / n
        print(f"{table.__name__:18} {n:8}   {each:7.0f} bytes of Redis each", flush=True)
        costs.append({name: b.measure(make_calls, rounds) for name, make_calls in calls.items()})
    for name, (few_us, few_n) in costs[0].items():
        many_us, many_n = costs[1][name]
        print(f"{'':18}   {name:20} {few_us:8.1f} us {few_n:6.1f} commands   {many_us:8.1f} us {many_n:6.1f} commands"
              f"   {many_us / few_us:5.2f}", flush=True)


def main():
    words, flags = arguments()
    library, pattern = (words + [""])[:2]
    many = int(flags.get("many", 1000000))
    with Redis() as redis:
        b = Scale(redis, library)
        for table in (items, orders, holds, groups, locks, locks_of_a_group, waiters, limit_keys):
            if re.search(pattern, table.__name__):
                # No more than a thousand wait for one lock.
                measure(b, table, (10, FEW) if table is waiters else (FEW, many), int(flags.get("rounds", 5)))


if __name__ == "__main__":
    main()
