#!/usr/bin/env python3
"""Counts the instructions of Redis for each call of a library function, with callgrind. Counts repeat within 2 %, also on a busy
machine; they do not include cache misses.

    bench/functions.py LIBRARY [AFTER] [--rows=PATTERN] [--calls=320]

A library is build/release/server/functions/lockstock-functions.lua. Ways to send the calls of a row:

    script   a minimal script with the answer of a Deduct; for locks, those of an Acquire and its Release
    alone    an FCALL for each call, keys at random
    one key  an FCALL for 64 calls of one key
    groups   an FCALL for 64 calls of 64 groups

A pair is an Acquire and its Release: of one name, or of 64 names of a group. At a hand-off 64 callers wait, and the one that
releases queues again. Prints thousands for each call and the ratio to the script; of AFTER also the ratio to the first library.
"""
import argparse
import glob
import itertools
import os
import random
import re
import subprocess
import sys

from programs import Library, Redis

KEYS, TOGETHER = 100, 64
DAYS_30_MS = 2592000000


class Counted(Redis):
    def __init__(self):
        super().__init__(wrapper=["valgrind", "--tool=callgrind", "--callgrind-out-file={dir}/out"])

    def instructions(self):
        """Returns the instructions since the last call."""
        subprocess.run(["callgrind_control", "-d", str(self.process.pid)], check=True, capture_output=True)
        out = max(glob.glob(f"{self.directory.name}/out.*"), key=os.path.getmtime)
        with open(out) as f:
            n = sum(int(line.split()[1]) for line in f if line.startswith("totals:"))
        os.remove(out)
        return n

    def count(self, commands):
        """Returns the instructions of the commands. Exits on an error."""
        self.instructions()
        for words, reply in zip(commands, self.many(commands, 16)):
            if "b'ERR'" in repr(reply):
                sys.exit(f"{words[1]}: {reply}")
        return self.instructions()


def order(i):
    return f"0192f3a4-7b1c-7c3e-8d2f-{i:012d}"


def token(i):
    return f"{i:032x}"


# ---- minimal scripts ------------------------------------------------------------------------------------------

DEDUCT = """
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
ACQUIRE = """
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return redis.call('INCR', KEYS[1] .. ':fence') end
return 0
"""
RELEASE = """
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
"""


def scripts(b, locks):
    """Returns f(n): the commands of n calls."""
    deduct, acquire, release = [b.redis.call("SCRIPT", "LOAD", text) for text in (DEDUCT, ACQUIRE, RELEASE)]
    for k in range(KEYS):
        b.redis.call("HSET", f"{{g}}i:{k}", "available", 10**12, "sold", 0)
        b.redis.call("SET", f"name{k}:fence", 1)

    def commands(k, i):
        if not locks:
            return [("EVALSHA", deduct, 1, f"{{g}}i:{k}", order(i), "sku1", 1)]
        return [("EVALSHA", acquire, 1, f"name{k}", token(i), 30000), ("EVALSHA", release, 1, f"name{k}", token(i))]
    return lambda n: [words for k in random.choices(range(KEYS), k=n) for words in commands(k, b.next())]


# ---- rows: a function, arguments of the i-th call, of key k; what runs before for each key; before each call ----


def item(limit=0, lines=1):
    return [("stock_put_item", [f"sku{n}", 10**12, limit, 0, 0, DAYS_30_MS, 0, 0]) for n in range(lines)]


def acquire(i, name):
    return [token(i), "owner", 30000, 0, ".", name]


def check(limit, request_id=False):
    return "rate_check", lambda i, k: [1, "A", f"{order(i)} 6000" if request_id else "", f"user{k}", limit]


def begin(i, k):
    return [f"{i:032d}", "fingerprint-of16", 30000, 86400000, 0, ""]


def reserve(i, k):
    return [order(i), "buyer", DAYS_30_MS, "sku0", 1]


ROWS = {
    "deduct": ("stock_deduct", lambda i, k: [order(i), "buyer", "sku0", 1], item()),
    "deduct_with_a_limit": ("stock_deduct", lambda i, k: [order(i), f"buyer{i % 1000}", "sku0", 1], item(limit=10**9)),
    "deduct_sold_out": ("stock_deduct", lambda i, k: [order(i), "buyer", "sku0", 10**13], item()),
    "deduct_2_lines": ("stock_deduct", lambda i, k: [order(i), "buyer", "sku0", 1, "sku1", 1], item(lines=2)),
    "reserve": ("stock_reserve", reserve, item()),
    "confirm": ("stock_confirm", lambda i, k: [order(i), 0], item(), lambda i: ("stock_reserve", reserve(i, 0))),
    "get_item": ("stock_get_items", lambda i, k: ["sku0"], item()),
    "acquire": ("lock_acquire", lambda i, k: acquire(i, f"name{i}")),
    "acquire_busy": ("lock_acquire", lambda i, k: acquire(i, "name"), [("lock_acquire", acquire(10**9, "name"))]),
    "acquire_shared": ("lock_acquire", lambda i, k: acquire(i, "name S 1 0")),
    "release": ("lock_release", lambda i, k: [token(i), ""], (), lambda i: ("lock_acquire", acquire(i, f"name{i}"))),
    "renew": ("lock_renew", lambda i, k: [token(i), 30000], (), lambda i: ("lock_acquire", acquire(i, f"name{i}"))),
    "check_fixed_window": check("F,1000000000,3600000"),
    "check_sliding_window": check("S,1000000000,3600000"),
    "check_token_bucket": check("B,1000000000,3600000,1000000000"),
    "check_sliding_log": check("L,100000,3600000"),
    "check_denied": check("F,1,3600000"),
    "check_with_an_id": check("F,1000000000,3600000", request_id=True),
    "begin": ("idempotency_begin", begin),
    "begin_in_progress": ("idempotency_begin", begin),
    "sequence": ("id_sequence", lambda i, k: [1]),
    "pair": ("lock_acquire", None),
    "hand_off": ("lock_acquire", None),
}


def pairs(b, each):
    def fcalls():
        k, tokens = random.randrange(KEYS), [token(b.next()) for _ in range(each)]
        return [b.fcall(function, [(k, [t, *words, f"n{i}"]) for i, t in enumerate(tokens)])
                for function, *words in (("lock_acquire", "owner", 60000, 0, "."), ("lock_release", "server"))]
    return lambda n: [words for _ in range(n // each) for words in fcalls()]


def hand_offs(b):
    """A server listens, so waiting calls are parked."""
    b.ear, queue = Redis(of=b.redis), []
    b.ear.call("SUBSCRIBE", "ls:wake:server")

    def acquire_hot():
        queue.append(token(b.next()))
        return b.fcall("lock_acquire", [(0, [queue[-1], "owner", 60000, 60000, f"server.{token(b.next())}.60000", "hot"])])
    for _ in range(TOGETHER + 1):
        b.redis.call(*acquire_hot())
    return lambda n: [words for _ in range(n)
                      for words in (b.fcall("lock_release", [(0, [queue.pop(0), "server"])]), acquire_hot())]


def ways(redis, library, name):
    """Prepares a row. Returns, for each way, f(n): the commands of n calls."""
    function, make, before, first = (*ROWS[name], (), None)[:4]
    random.seed(1)
    b = Library(redis, library)
    script = {"script": scripts(b, function.startswith("lock_"))}
    if name == "pair":
        return script | {"alone": pairs(b, 1), "64 names": pairs(b, TOGETHER)}
    if name == "hand_off":
        return script | {"alone": hand_offs(b)}
    for k, one in itertools.product(range(KEYS), before):
        b.run(k, *one)

    def keys(n, draw):
        return [f"new{b.next()}" for _ in range(n)] if name == "begin" else draw(range(KEYS), k=n)

    def sub(k):
        i = b.next()
        if first:
            b.run(k, *first(i))
        return k, make(i, k)

    def fcall(ks):
        return b.fcall(function, list(map(sub, ks)))
    return script | {"alone": lambda n: [fcall([k]) for k in keys(n, random.choices)],
                     "one key": lambda n: [fcall([k] * TOGETHER) for k in keys(n // TOGETHER, random.choices)],
                     "groups": lambda n: [fcall(keys(TOGETHER, random.sample)) for _ in range(n // TOGETHER)]}


def count(library, name, calls):
    """Returns thousands of instructions for each call, by way."""
    with Counted() as redis:
        return {way: redis.count(make(calls)) / calls / 1000 for way, make in ways(redis, library, name).items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("libraries", nargs="+", metavar="LIBRARY")
    parser.add_argument("--rows", default="", help="a regular expression for their names")
    parser.add_argument("--calls", type=int, default=320)
    flags = parser.parse_args()
    for name in filter(re.compile(flags.rows).search, ROWS):
        counts = [count(library, name, flags.calls) for library in flags.libraries]
        for way, first in counts[0].items():
            of = [counts[0]["script"], first]
            line = [f"{each[way]:7.1f} {each[way] / of[i]:5.2f}" for i, each in enumerate(counts)]
            print(f"{name:20} {way:8}", *line, flush=True)


if __name__ == "__main__":
    main()
