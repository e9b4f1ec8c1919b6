#!/usr/bin/env python3
"""What grows with how much there is: bytes in Redis of each thing that is kept, and what functions cost with a thousand of
them and with many: microseconds that Redis' thread ran, and commands, a call. Asserts nothing.

    bench/scale.py build/release/server/functions/lockstock-functions.lua [pattern] [--many=1000000] [--rounds=5]

Starts a redis-server of its own on a unix socket, without files. Each table is filled and measured at both sizes; printed
are medians.
"""
import re, signal, statistics, sys, tempfile

from fcall_time import Redis, target
from function_cpu import Bench

FEW, TOGETHER, PIPELINED, CALLS = 1000, 64, 16, 400
HOUR_MS, DAYS_30_MS = 3600 * 1000, 2592000000

TABLES = []


def table(f):
    TABLES.append(f)
    return f


class Scale(Bench):
    def base(self, k):
        return f"ls:{{default/{k}}}:"

    def fill(self, function, make, first, n):
        """make(i) -> (group, arguments) of the i-th."""
        commands = []
        for at in range(first, n, TOGETHER):
            commands.append(self.fcall(function, [make(i) for i in range(at, min(at + TOGETHER, n))]))
            if len(commands) == PIPELINED:
                self.cost(commands)
                commands = []
        self.cost(commands)

    def used(self):
        return int(re.search(r"used_memory:(\d+)", self.redis.call("INFO", "memory").decode()).group(1))

    def measure(self, calls, rounds):
        """calls() -> list of (function, group, arguments)."""
        us, n = [], 0
        for _ in range(rounds):
            commands = [self.fcall(function, [(group, args)]) for function, group, args in calls()]
            ran = self.commands()
            us.append(self.cost(commands) / len(commands))
            n = (self.commands() - ran) / len(commands)
        return statistics.median(us), n


def item(i):
    return f"sku{i:07d}"


def order(i):
    return f"0192f3a4-7b1c-7c3e-8d2f-{i:012d}"


def token(i):
    return f"0192f3a47b1c7c3e8d2f{i:012d}"


# ---- a table: what fills it, and what is called then ----------------------------------------

@table
def items(b, n):
    """Items of one group."""
    def calls():
        yield "get", lambda: [("stock_get_items", "g", [item((b.next() * 7919) % n)]) for _ in range(CALLS)]
        yield "deduct", lambda: [("stock_deduct", "g", [order(b.next()), "buyer", item((b.next() * 7919) % n), 1])
                                 for _ in range(CALLS)]
        yield "list 20, first", lambda: [("stock_list_group", "g", ["", "", 20])] * CALLS
        yield "list 20, middle", lambda: [("stock_list_group", "g", ["", item(n // 2), 20])] * CALLS
    return ("stock_put_item", lambda i: ("g", [item(i), 10**12, 0, 0, 0, DAYS_30_MS, 0, 0])), calls


@table
def orders(b, n):
    """Orders of one group, deducted; with its ledger."""
    b.cost([b.fcall("stock_put_item", [("g", [item(0), 10**12, 0, 0, 0, DAYS_30_MS, 0, 0])])])

    def calls():
        yield "deduct", lambda: [("stock_deduct", "g", [order(10**9 + b.next()), "buyer", item(0), 1])
                                 for _ in range(CALLS)]
        yield "get order", lambda: [("stock_get_order", "g", [order((b.next() * 7919) % n)]) for _ in range(CALLS)]
        yield "read ledger", lambda: [("stock_read_ledger", "g", ["", 20, "", 0])] * CALLS
    return ("stock_deduct", lambda i: ("g", [order(i), "buyer", item(0), 1])), calls


@table
def holds(b, n):
    """Orders of one group, held for an hour."""
    b.cost([b.fcall("stock_put_item", [("g", [item(0), 10**12, 0, 0, 0, DAYS_30_MS, 0, 0])])])

    def reserve_then(function, args):
        def make():
            ids = [order(10**9 + b.next()) for _ in range(CALLS)]
            b.cost([b.fcall("stock_reserve", [("g", [i, "buyer", HOUR_MS, item(0), 1])]) for i in ids])
            return [(function, "g", [i, *args]) for i in ids]
        return make

    def calls():
        yield "reserve", lambda: [("stock_reserve", "g", [order(10**9 + b.next()), "buyer", HOUR_MS, item(0), 1])
                                  for _ in range(CALLS)]
        yield "confirm", reserve_then("stock_confirm", [0])
        yield "cancel", reserve_then("stock_cancel", [""])
        yield "expire, none due", lambda: [("stock_expire", "g", [])] * CALLS
    return ("stock_reserve", lambda i: ("g", [order(i), "buyer", HOUR_MS, item(0), 1])), calls


@table
def groups(b, n):
    """Groups with one held order each."""
    b.fill("stock_put_item", lambda i: (f"g{i:07d}", [item(0), 10**12, 0, 0, 0, DAYS_30_MS, 0, 0]), 0, n)

    def calls():
        yield "step of the sweep", lambda: [("stock_find_overdue", "sweep", ["0"])] * CALLS
    return ("stock_reserve", lambda i: (f"g{i:07d}", [order(i), "buyer", HOUR_MS, item(0), 1])), calls


@table
def locks(b, n):
    """Held locks, each its own group."""
    def acquire(i):
        return [token(i), "", HOUR_MS, 0, ".", target(f"l{i:07d}", "E")]

    def acquire_then(function):
        def make():
            ids = [n + b.next() for _ in range(CALLS)]
            b.cost([b.fcall("lock_acquire", [(f"l{i:07d}", acquire(i))]) for i in ids])
            return [(function, f"l{i:07d}", [token(i), "", f"l{i:07d}"] if function == "lock_release"
                     else [token(i), HOUR_MS, f"l{i:07d}"]) for i in ids]
        return make

    def calls():
        yield "acquire", lambda: [("lock_acquire", f"l{i:07d}", acquire(i)) for i in
                                  (n + b.next() for _ in range(CALLS))]
        yield "renew", acquire_then("lock_renew")
        yield "release", acquire_then("lock_release")
    return ("lock_acquire", lambda i: (f"l{i:07d}", acquire(i))), calls


@table
def locks_of_a_group(b, n):
    """Held locks of one group."""
    def calls():
        yield "list 20, first", lambda: [("lock_list", "g", ["", 20, "0", "", ""])] * CALLS
        yield "acquire", lambda: [("lock_acquire", "g", [token(n + i), "", HOUR_MS, 0, ".", target(f"l{n + i:07d}", "E")])
                                  for i in (b.next() for _ in range(CALLS))]
    return ("lock_acquire", lambda i: ("g", [token(i), "", HOUR_MS, 0, ".", target(f"l{i:07d}", "E")])), calls


@table
def waiters(b, n):
    """Acquires that wait for one lock; a thousand at most."""
    n = min(n, FEW)

    def acquire(i, wait_ms):
        return [token(i), "", HOUR_MS, wait_ms, f"srv.{i:032d}" if wait_ms else ".", target("door", "E")]
    b.cost([b.fcall("lock_acquire", [("door", acquire(10**9, 0))])])

    def more():
        return [("lock_acquire", "door", acquire(2 * 10**9 + b.next(), HOUR_MS)) for _ in range(20)]

    def calls():
        yield "one more waits", more
        yield "renew", lambda: [("lock_renew", "door", [token(10**9), HOUR_MS, "door"])] * CALLS
        yield "promote", lambda: [("lock_promote", "door", ["door"])] * CALLS
    return ("lock_acquire", lambda i: ("door", acquire(i, HOUR_MS))), calls


@table
def limit_keys(b, n):
    """Keys of a fixed window of an hour."""
    def check(i):
        return [1, "A", "", f"key{i:07d}", SPEC]

    def calls():
        yield "check", lambda: [("rate_check", "g", check((b.next() * 7919) % n)) for _ in range(CALLS)]
    return ("rate_check", lambda i: ("g", check(i))), calls


SPEC = "F,1000,3600000"


# ---- the report ----------------------------------------------------------------------------

def of_table(b, f, sizes, rounds):
    costs = []
    for n in sizes:
        b.redis.call("FLUSHALL")
        (function, make), calls = f(b, n)
        before = b.used()
        b.fill(function, make, 0, n if f is not waiters else min(n, FEW))
        each = (b.used() - before) / (n if f is not waiters else min(n, FEW))
        print(f"{f.__name__:18} {n:8}   {each:7.0f} bytes of Redis each", flush=True)
        costs.append([(name, *b.measure(make_calls, rounds)) for name, make_calls in calls()])
    for (name, few_us, few_n), (_, many_us, many_n) in zip(*costs):
        print(f"{'':18}   {name:20} {few_us:8.1f} us {few_n:6.1f} commands   {many_us:8.1f} us {many_n:6.1f} commands"
              f"   {many_us / few_us:5.2f}", flush=True)


def main():
    flags = dict(a[2:].split("=") for a in sys.argv if a.startswith("--"))
    library, pattern = ([a for a in sys.argv[1:] if not a.startswith("--")] + [""])[:2]
    sizes = (FEW, int(flags.get("many", 1000000)))
    with tempfile.TemporaryDirectory(prefix="lks-bench-") as directory:
        redis = Redis(directory)
        try:
            b = Scale(redis, library)
            for f in TABLES:
                if re.search(pattern, f.__name__):
                    of_table(b, f, (10, FEW) if f is waiters else sizes, int(flags.get("rounds", 5)))
        finally:
            redis.process.send_signal(signal.SIGTERM)
            redis.process.wait()


if __name__ == "__main__":
    main()
