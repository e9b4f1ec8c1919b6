#!/usr/bin/env python3
"""Compares the CPU of Redis for each function with that of a minimal script with the same answer.

    bench/function_cpu.py build/release/server/functions/lockstock-functions.lua [pattern] [--rounds=7]

Three ways to send the calls of a row alternate with the row's minimal script, 16 commands at a time:

    alone    an FCALL a call, keys at random
    one key  64 calls of one key an FCALL
    groups   64 calls of 64 groups an FCALL

Prints medians: microseconds for each call, the ratio to the script in the same round, commands that the function runs, and bytes
that it adds to the AOF.
"""
import random
import re
import statistics
import time

from programs import Library, Redis, arguments, calls_of, order, token

KEYS, TOGETHER, CALLS = 100, 64, 3000
DAYS_30_MS = 2592000000


class Bench(Library):
    new_bases = False

    def base(self, group):
        return super().base(f"new{self.next()}" if self.new_bases else f"group{group}")

    def run(self, function, group, args):
        self.redis.call(*self.fcall(function, [(group, args)]))

    def alone(self, function, make, n):
        return [self.fcall(function, [(k, make(self.next(), k))]) for k in random.choices(range(KEYS), k=n)]

    def one_key(self, function, make, n):
        return [self.fcall(function, [(k, make(self.next(), k)) for _ in range(TOGETHER)])
                for k in random.choices(range(KEYS), k=n // TOGETHER)]

    def groups(self, function, make, n):
        return [self.fcall(function, [(k, make(self.next(), k)) for k in random.sample(range(KEYS), TOGETHER)])
                for _ in range(n // TOGETHER)]

    def append_only(self, on):
        self.redis.call("CONFIG", "SET", "appendonly", "yes" if on else "no")
        while self.redis.number("persistence", "aof_rewrite_in_progress"):
            time.sleep(0.01)


# ---- minimal scripts -------------------------------------------------------------------------

SCRIPT_NAMES, NAMES = 6000, 300  # of a minimal script, of each group: none comes twice in a round


class Deduct:
    """GET record; HGET available; two HINCRBY; SET record PX."""
    script = """
local key = 'o:' .. ARGV[1]
local r = redis.call('GET', key)
if r then return r end
local a = tonumber(redis.call('HGET', KEYS[1], 'available'))
local q = tonumber(ARGV[3])
if not a or a < q then return {'SOLD_OUT', a} end
redis.call('HINCRBY', KEYS[1], 'available', -q)
redis.call('HINCRBY', KEYS[1], 'sold', q)
redis.call('SET', key, ARGV[2] .. ' ' .. ARGV[3] .. ' ' .. (a - q), 'PX', 2592000000)
return {'DEDUCTED', a - q}
"""

    def prepare(self, b):
        for k in range(KEYS):
            b.redis.call("HSET", f"{{g}}i:{k}", "available", 10**12, "sold", 0)

    def words(self, b):
        return [f"{{g}}i:{random.randrange(KEYS)}", order(b.next()), "sku1", "1"]


class Take:
    """Acquire: SET name token NX PX; INCR fence."""
    script = """
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return redis.call('INCR', KEYS[1] .. ':fence') end
return 0
"""

    def prepare(self, b):
        for i in range(SCRIPT_NAMES):
            b.redis.call("SET", f"name{i}:fence", 1)

    def words(self, b):
        i = b.next()
        b.redis.call("DEL", f"name{i % SCRIPT_NAMES}")
        return [f"name{i % SCRIPT_NAMES}", token(i), 30000]


class GiveBack(Take):
    """Release: GET, compare and DEL."""
    script = """
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
"""

    def words(self, b):
        name, value, ms = super().words(b)
        b.redis.call("SET", name, value, "PX", ms)
        return [name, value]


# ---- rows: f(bench) prepares, and returns make(i, k) -> arguments of the i-th call, of key k ---------


def items(make, limit=0, lines=1):
    def prepare(b):
        for k in range(KEYS):
            for n in range(lines):
                b.run("stock_put_item", k, [f"sku{n}", 10**12, limit, 0, 0, DAYS_30_MS, 0, 0])
        return make
    return prepare


def held_orders(b):
    items(None)(b)

    def make(i, k):
        b.run("stock_reserve", k, [order(i), "buyer", DAYS_30_MS, "sku0", 1])
        return [order(i), 0]
    return make


class Locks:
    """Names of each group in turn; they are free again when their turn comes."""

    def __init__(self, b):
        self.b, self.turn, self.held = b, [0] * KEYS, {}

    def take(self, i, k):
        self.turn[k] += 1
        name = f"name{self.turn[k] % NAMES}"
        if (k, name) in self.held:
            self.b.run("lock_release", k, [self.held.pop((k, name)), ""])
        self.held[k, name] = token(i)
        return [token(i), "owner", 30000, 0, ".", name]

    def taken(self, i, k):
        args = self.take(i, k)
        self.b.run("lock_acquire", k, args)
        return args


def free_names(b):
    locks = Locks(b)
    for k in range(KEYS):
        for _ in range(100):
            locks.taken(b.next(), k)
    return locks.take


def busy_name(b):
    for k in range(KEYS):
        b.run("lock_acquire", k, [token(k), "owner", 30000000, 0, ".", "name"])
    return lambda i, k: [token(KEYS + i), "owner", 30000, 0, ".", "name"]


def four_names(b):
    locks = Locks(b)
    return lambda i, k: [*locks.take(i, k), *[f"also{i}-{n}" for n in range(3)]]


def taken_names(b):
    locks = Locks(b)
    return lambda i, k: [locks.taken(i, k)[0], ""]


def renewed_names(b):
    locks = Locks(b)

    def make(i, k):
        args = locks.taken(i, k)
        b.run("lock_renew", k, [args[0], 30000])
        return [args[0], 30000]
    return make


def check(limit, request_id=False):
    return lambda b: lambda i, k: [1, "A", f"{order(i)} 6000" if request_id else "", f"user{k}", limit]


def attempts(new):
    """New records with one key: the first executes, the others are told IN_PROGRESS."""
    def prepare(b):
        b.new_bases = new
        return lambda i, k: [f"{i:032d}", "fingerprint-of16", 30000, 86400000, 0, ""]
    return prepare


ROWS = {name: (function, minimal, prepare) for name, function, minimal, prepare in [
    ("deduct", "stock_deduct", Deduct(), items(lambda i, k: [order(i), "buyer", "sku0", 1])),
    ("deduct_with_a_limit", "stock_deduct", Deduct(),
     items(lambda i, k: [order(i), f"buyer{i % 1000}", "sku0", 1], limit=10**9)),
    ("deduct_sold_out", "stock_deduct", Deduct(), items(lambda i, k: [order(i), "buyer", "sku0", 10**13])),
    ("deduct_4_lines", "stock_deduct", Deduct(),
     items(lambda i, k: [order(i), "buyer", *[x for n in range(4) for x in (f"sku{n}", 1)]], lines=4)),
    ("reserve", "stock_reserve", Deduct(), items(lambda i, k: [order(i), "buyer", DAYS_30_MS, "sku0", 1])),
    ("confirm", "stock_confirm", Deduct(), held_orders),
    ("get_item", "stock_get_items", Deduct(), items(lambda i, k: ["sku0"])),
    ("acquire", "lock_acquire", Take(), free_names),
    ("acquire_busy", "lock_acquire", Take(), busy_name),
    ("acquire_4_names", "lock_acquire", Take(), four_names),
    ("acquire_shared", "lock_acquire", Take(),
     lambda b: lambda i, k: [token(i), "owner", 30000, 0, ".", "name S 1 0"]),
    ("release", "lock_release", GiveBack(), taken_names),
    ("renew", "lock_renew", GiveBack(), renewed_names),
    ("check_fixed_window", "rate_check", Deduct(), check("F,1000000000,3600000")),
    ("check_sliding_window", "rate_check", Deduct(), check("S,1000000000,3600000")),
    ("check_token_bucket", "rate_check", Deduct(), check("B,1000000000,3600000,1000000000")),
    ("check_sliding_log", "rate_check", Deduct(), check("L,100000,3600000")),
    ("check_denied", "rate_check", Deduct(), check("F,1,3600000")),
    ("check_with_a_penalty", "rate_check", Deduct(), check("F,1000000000,3600000,0,1000000000,2000,1,4000")),
    ("check_with_an_id", "rate_check", Deduct(), check("F,1000000000,3600000", request_id=True)),
    ("begin", "idempotency_begin", Deduct(), attempts(new=True)),
    ("begin_in_progress", "idempotency_begin", Deduct(), attempts(new=False)),
    ("sequence", "id_sequence", Deduct(), lambda b: lambda i, k: [1]),
]}


def ways_of(b, name):
    """Of each way, f(n) -> commands of n calls; the minimal script first."""
    function, minimal, prepare = ROWS[name]
    b.redis.call("FLUSHALL")
    b.new_bases = False
    minimal.prepare(b)
    sha = b.redis.call("SCRIPT", "LOAD", minimal.script)
    make = prepare(b)
    return {"script": lambda n: [("EVALSHA", sha, 1, *minimal.words(b)) for _ in range(n)],
            **{way: lambda n, send=send: send(function, make, n)
               for way, send in (("alone", b.alone), ("one key", b.one_key), ("groups", b.groups))}}


def measure(b, name, rounds):
    """Of each way: microseconds, the ratio to the script, commands and bytes a call."""
    ways = list(ways_of(b, name).values())
    taken = [[] for _ in ways]
    for _ in range(rounds):
        for way, us in zip(ways, taken):
            commands = way(CALLS)
            us.append(b.cost(commands) / sum(map(calls_of, commands)))
    b.append_only(True)
    for way, us in zip(ways, taken):
        commands = way(CALLS // 4)
        n = sum(map(calls_of, commands))
        ran, wrote = b.commands(), b.redis.number("persistence", "aof_current_size")
        b.cost(commands)
        yield (statistics.median(us), statistics.median(x / y for x, y in zip(us, taken[0])), (b.commands() - ran) / n,
               (b.redis.number("persistence", "aof_current_size") - wrote) / n)
    b.append_only(False)


def main():
    words, flags = arguments()
    library, pattern = (words + [""])[:2]
    print(f"{'':22} {'script':>8} {'alone':>15} {'one key':>15} {'groups':>15}   "
          "commands, bytes: script, alone, one key, groups")
    with Redis() as redis:
        b = Bench(redis, library)
        redis.call("CONFIG", "SET", "appendfsync", "no", "auto-aof-rewrite-percentage", 0)
        for name in ROWS:
            if re.search(pattern, name):
                script, *ours = measure(b, name, int(flags.get("rounds", 7)))
                print(f"{name:22} {script[0]:5.1f} us " + " ".join(f"{us:5.1f} us {ratio:6.2f}" for us, ratio, _, _ in ours)
                      + "   " + ", ".join(f"{n:.1f} {size:.0f}" for _, _, n, size in (script, *ours)), flush=True)


if __name__ == "__main__":
    main()
