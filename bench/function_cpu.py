#!/usr/bin/env python3
"""What a call of each function costs Redis, against a minimal script that gives the same answer:
microseconds that its thread ran, so that what else the machine does is of no matter. Asserts nothing.

    bench/function_cpu.py build/release/server/functions/lockstock-functions.lua [pattern] [--rounds=7]

Starts a redis-server of its own on a unix socket. Three ways to send the calls of a row take turns
with the row's minimal script, 16 commands at a time:

    alone    an FCALL a call, keys at random
    one key  64 calls of one key an FCALL
    groups   64 calls of 64 groups an FCALL

Printed are the medians: microseconds a call, its ratio to the script in the same round, commands that
the function runs, bytes that it adds to the AOF.
"""
import random, re, signal, statistics, sys, tempfile, time

from fcall_time import Redis

KEYS, TOGETHER, PIPELINED = 100, 64, 16

ROWS = []


def row(minimal, calls=3000):
    """Of a function f(bench) -> function's name, make(i, k) -> its arguments for the i-th call, of key k."""
    def add(f):
        ROWS.append((f.__name__, f, minimal, calls))
        return f
    return add


class Bench:
    def __init__(self, redis, library):
        text = open(library, "rb").read()
        self.digest = re.search(rb"lockstock_(\w+)", text).group(1).decode()
        self.redis, self.n, self.new_bases = redis, 0, False
        redis.call("FUNCTION", "LOAD", "REPLACE", text)

    def base(self, k):
        return f"ls:{{default/new{self.next()}}}:" if self.new_bases else f"ls:{{default/group{k}}}:"

    def fcall(self, function, subs):
        """subs: (k, args)...; one base where all have the same k."""
        same = len({k for k, _ in subs}) == 1
        bases = [self.base(k) for k, _ in (subs[:1] if same else subs)]
        words = ["FCALL", f"{function}_{self.digest}", len(bases), *bases]
        for _, args in subs:
            words += [len(args), *args]
        return tuple(words)

    def next(self):
        self.n += 1
        return self.n

    def alone(self, function, make, n):
        return [self.fcall(function, [(k, make(self.next(), k))]) for k in random.choices(range(KEYS), k=n)]

    def one_key(self, function, make, n):
        return [self.fcall(function, [(k, make(self.next(), k)) for _ in range(TOGETHER)])
                for k in random.choices(range(KEYS), k=n // TOGETHER)]

    def groups(self, function, make, n):
        return [self.fcall(function, [(k, make(self.next(), k)) for k in random.sample(range(KEYS), TOGETHER)])
                for _ in range(n // TOGETHER)]

    def cost(self, commands):
        """Microseconds of all of them. An answer that is an error ends the program."""
        before = self.redis.ran_us()
        for at in range(0, len(commands), PIPELINED):
            part = commands[at:at + PIPELINED]
            self.redis.send_all(part)
            for words in part:
                for reply in self.replies(words):
                    if isinstance(reply, Exception) or isinstance(reply, list) and reply and reply[0] == b"ERR":
                        sys.exit(f"{words[1]}: {reply}")
        return self.redis.ran_us() - before

    def replies(self, words):
        reply = self.redis.reply()
        return reply if len_of(words) > 1 and isinstance(reply, list) else [reply]

    def commands(self):
        """How many commands were run, but for those that are sent here."""
        stats = self.redis.call("INFO", "commandstats").decode()
        calls = {name: int(n) for name, n in re.findall(r"cmdstat_([\w|]+):calls=(\d+)", stats)}
        return sum(n for name, n in calls.items() if name not in ("fcall", "evalsha", "info", "config|resetstat"))

    def append_only(self, on):
        self.redis.call("CONFIG", "SET", "appendonly", "yes" if on else "no")
        while b"aof_rewrite_in_progress:1" in self.redis.call("INFO", "persistence"):
            time.sleep(0.01)

    def written(self):
        return int(re.search(r"aof_current_size:(\d+)", self.redis.call("INFO", "persistence").decode()).group(1))


# ---- stock -------------------------------------------------------------------------------

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


class Deduct:
    """The minimal Deduct: GET record; HGET available; two HINCRBY; SET record PX."""
    script = DEDUCT

    def prepare(self, b):
        for k in range(KEYS):
            b.redis.call("HSET", f"{{g}}i:{k}", "available", 10**12, "sold", 0)

    def words(self, b):
        return [f"{{g}}i:{random.randrange(KEYS)}", order(b.next()), "sku1", "1"]


def order(i):
    return f"0192f3a4-7b1c-7c3e-8d2f-{i:012d}"


def put_items(b, limit=0, lines=1):
    for k in range(KEYS):
        for n in range(lines):
            b.redis.call(*b.fcall("stock_put_item", [(k, [f"sku{n}", 10**12, limit, 0, 0, 2592000000, 0, 0])]))


@row(Deduct())
def deduct(b):
    put_items(b)
    return "stock_deduct", lambda i, k: [order(i), "buyer", "sku0", 1]


@row(Deduct())
def deduct_with_a_limit(b):
    put_items(b, limit=10**9)
    return "stock_deduct", lambda i, k: [order(i), f"buyer{i % 1000}", "sku0", 1]


@row(Deduct())
def deduct_sold_out(b):
    put_items(b)
    return "stock_deduct", lambda i, k: [order(i), "buyer", "sku0", 10**13]


@row(Deduct())
def deduct_4_lines(b):
    put_items(b, lines=4)
    return "stock_deduct", lambda i, k: [order(i), "buyer", *[x for n in range(4) for x in (f"sku{n}", 1)]]


@row(Deduct())
def reserve(b):
    put_items(b)
    return "stock_reserve", lambda i, k: [order(i), "buyer", 2592000000, "sku0", 1]


@row(Deduct())
def confirm(b):
    put_items(b)

    def make(i, k):
        b.redis.call(*b.fcall("stock_reserve", [(k, [order(i), "buyer", 2592000000, "sku0", 1])]))
        return [order(i), 0]
    return "stock_confirm", make


@row(Deduct())
def get_item(b):
    put_items(b)
    return "stock_get_items", lambda i, k: ["sku0"]


# ---- locks -------------------------------------------------------------------------------

SCRIPT_NAMES, NAMES = 6000, 300  # of a minimal script, of each group: none comes twice in a round


class Take:
    """The minimal Acquire: SET name token NX PX; INCR fence."""
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
    """The minimal Release: GET, compare and DEL."""
    script = """
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
"""

    def words(self, b):
        name, value, ms = super().words(b)
        b.redis.call("SET", name, value, "PX", ms)
        return [name, value]


def token(i):
    return f"{i:032x}"


class Locks:
    """Names of each group in turn; they are free again when their turn comes."""

    def __init__(self, b):
        self.b, self.turn, self.held = b, [0] * KEYS, {}

    def name(self, k):
        self.turn[k] += 1
        name = f"name{self.turn[k] % NAMES}"
        if (k, name) in self.held:
            self.b.redis.call(*self.b.fcall("lock_release", [(k, [self.held.pop((k, name)), ""])]))
        return name

    def take(self, i, k):
        name = self.name(k)
        self.held[k, name] = token(i)
        return [token(i), "owner", 30000, 0, ".", name]

    def taken(self, i, k):
        args = self.take(i, k)
        self.b.redis.call(*self.b.fcall("lock_acquire", [(k, args)]))
        return args


@row(Take())
def acquire(b):
    locks = Locks(b)
    for k in range(KEYS):
        for _ in range(100):
            locks.taken(b.next(), k)
    return "lock_acquire", locks.take


@row(Take())
def acquire_busy(b):
    for k in range(KEYS):
        b.redis.call(*b.fcall("lock_acquire", [(k, [token(k), "owner", 30000000, 0, ".", "name"])]))
    return "lock_acquire", lambda i, k: [token(KEYS + i), "owner", 30000, 0, ".", "name"]


@row(Take())
def acquire_4_names(b):
    locks = Locks(b)
    return "lock_acquire", lambda i, k: [*locks.take(i, k), *[f"also{i}-{n}" for n in range(3)]]


@row(Take())
def acquire_shared(b):
    return "lock_acquire", lambda i, k: [token(i), "owner", 30000, 0, ".", "name S 1 0"]


@row(GiveBack())
def release(b):
    locks = Locks(b)
    return "lock_release", lambda i, k: [locks.taken(i, k)[0], ""]


@row(GiveBack())
def renew(b):
    locks = Locks(b)

    def make(i, k):
        args = locks.taken(i, k)
        b.redis.call(*b.fcall("lock_renew", [(k, [args[0], 30000])]))
        return [args[0], 30000]
    return "lock_renew", make


# ---- limits ------------------------------------------------------------------------------

def check(b, limit, request_id=False):
    return "rate_check", lambda i, k: [1, "A", f"{order(i)} 6000" if request_id else "", f"user{k}", limit]


@row(Deduct())
def check_fixed_window(b):
    return check(b, "F,1000000000,3600000")


@row(Deduct())
def check_sliding_window(b):
    return check(b, "S,1000000000,3600000")


@row(Deduct())
def check_token_bucket(b):
    return check(b, "B,1000000000,3600000,1000000000")


@row(Deduct())
def check_sliding_log(b):
    return check(b, "L,100000,3600000")


@row(Deduct())
def check_denied(b):
    return check(b, "F,1,3600000")


@row(Deduct())
def check_with_a_penalty(b):
    return check(b, "F,1000000000,3600000,0,1000000000,2000,1,4000")


@row(Deduct())
def check_with_an_id(b):
    return check(b, "F,1000000000,3600000", request_id=True)


# ---- keys and numbers --------------------------------------------------------------------

def attempt(i, k):
    return [f"{i:032d}", "fingerprint-of16", 30000, 86400000, 0, ""]


@row(Deduct())
def begin(b):
    """Of new records; "one key": the first executes, the others are told IN_PROGRESS."""
    b.new_bases = True
    return "idempotency_begin", attempt


@row(Deduct())
def begin_in_progress(b):
    return "idempotency_begin", attempt


@row(Deduct())
def sequence(b):
    return "id_sequence", lambda i, k: [1]


# ---- the table ---------------------------------------------------------------------------

def of_row(b, f, minimal, calls, rounds):
    b.redis.call("FLUSHALL")
    b.new_bases = False
    minimal.prepare(b)
    sha = b.redis.call("SCRIPT", "LOAD", minimal.script).decode()
    function, make = f(b)

    def script(n):
        return [("EVALSHA", sha, 1, *minimal.words(b)) for _ in range(n)]
    ways = [script] + [lambda n, way=way: way(function, make, n) for way in (b.alone, b.one_key, b.groups)]
    taken = [[] for _ in ways]
    for _ in range(rounds):
        for way, us in zip(ways, taken):
            commands = way(calls)
            n = calls if way is script else sum(1 for c in commands for _ in range(len_of(c)))
            us.append(b.cost(commands) / n)
    out = []
    b.append_only(True)
    for way, us in zip(ways, taken):
        commands = way(calls // 4)
        n = sum(len_of(c) for c in commands)
        ran, wrote = b.commands(), b.written()
        b.cost(commands)
        out.append((statistics.median(us), statistics.median(x / y for x, y in zip(us, taken[0])),
                    (b.commands() - ran) / n, (b.written() - wrote) / n))
    b.append_only(False)
    return out


def len_of(words):
    """How many calls a command carries."""
    if words[0] != "FCALL":
        return 1
    n, at = 0, 3 + int(words[2])
    while at < len(words):
        n, at = n + 1, at + 1 + int(words[at])
    return n


def main():
    rounds = int(next((a[9:] for a in sys.argv if a.startswith("--rounds=")), 7))
    library, pattern = ([a for a in sys.argv[1:] if not a.startswith("--")] + [""])[:2]
    print(f"{'':22} {'script':>8} {'alone':>15} {'one key':>15} {'groups':>15}   commands, bytes: script, alone, one key, groups")
    with tempfile.TemporaryDirectory(prefix="lks-bench-") as directory:
        redis = Redis(directory)
        try:
            b = Bench(redis, library)
            redis.call("CONFIG", "SET", "appendfsync", "no", "auto-aof-rewrite-percentage", 0)
            for name, f, minimal, calls in ROWS:
                if not re.search(pattern, name):
                    continue
                script, *ours = of_row(b, f, minimal, calls, rounds)
                print(f"{name:22} {script[0]:5.1f} us " + " ".join(f"{us:5.1f} us {ratio:6.2f}" for us, ratio, _, _ in ours)
                      + "   " + ", ".join(f"{n:.1f} {size:.0f}" for _, _, n, size in (script, *ours)), flush=True)
        finally:
            redis.process.send_signal(signal.SIGTERM)
            redis.process.wait()


if __name__ == "__main__":
    main()
