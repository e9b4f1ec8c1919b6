#!/usr/bin/env python3
"""How long one FCALL holds Redis, at its worst: microseconds that its thread ran, so that what else the
machine does is of no matter. Asserts nothing.

    bench/fcall_time.py build/release/server/functions/lockstock-functions.lua [pattern]

Starts a redis-server of its own on a unix socket, fills it with the largest things that the
contract allows, and sends for each case the FCALL that a server would send: as many sub-calls
as their weight allows (server/store/batch.h), three times; the middle one is printed.
With --together all weigh 1, and pages are whole, as it was before there were weights.
"""
import os, re, signal, socket, struct, subprocess, sys, tempfile, time

UNITS = 64  # STORE_WEIGHT_MAX, server/store/store.h
STEP = 1000 if "--together" in sys.argv else 250  # STEP_MAX, server/services/stock_list.c
BASE = "ls:{default/g}:"


class Redis:
    def __init__(self, directory):
        self.path = os.path.join(directory, "sock")
        self.process = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", self.path, "--save", "", "--dir", directory,
             "--loglevel", "warning"], stdout=subprocess.DEVNULL)
        while not os.path.exists(self.path):
            time.sleep(0.01)
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(self.path)
        self.file = self.socket.makefile("rb")

    def ran_us(self):
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/schedstat") as f:
            return int(f.read().split()[0]) // 1000

    def send_all(self, commands):
        out = []
        for words in commands:
            out.append(b"*%d\r\n" % len(words))
            for word in words:
                word = word if isinstance(word, bytes) else str(word).encode()
                out.append(b"$%d\r\n%s\r\n" % (len(word), word))
        self.socket.sendall(b"".join(out))

    def send(self, *words):
        self.send_all([words])

    def reply(self):
        line = self.file.readline()[:-2]
        kind, rest = line[:1], line[1:]
        if kind in b"+":
            return rest
        if kind == b"-":
            return Exception(rest.decode())
        if kind == b":":
            return int(rest)
        n = int(rest)
        if n < 0:
            return None
        if kind == b"$":
            return self.file.read(n + 2)[:-2]
        return [self.reply() for _ in range(n)]

    def call(self, *words):
        self.send(*words)
        reply = self.reply()
        if isinstance(reply, Exception):
            raise reply
        return reply

    def many(self, commands):
        for at in range(0, len(commands), 1000):
            part = commands[at:at + 1000]
            for words in part:
                self.send(*words)
            for _ in part:
                reply = self.reply()
                if isinstance(reply, Exception):
                    raise reply


class Bench:
    def __init__(self, redis, library):
        text = open(library, "rb").read()
        self.digest = re.search(rb"lockstock_(\w+)", text).group(1).decode()
        self.redis, self.text = redis, text
        self.reset()

    def reset(self):
        self.redis.call("FLUSHALL")
        self.redis.call("FUNCTION", "LOAD", "REPLACE", self.text)

    def fcall(self, function, subs, base=BASE):
        words = ["FCALL", f"{function}_{self.digest}", 1, base]
        for args in subs:
            words += [len(args), *args]
        reply = self.redis.call(*words)
        return reply if len(subs) > 1 else [reply]

    def timed(self, function, subs, base=BASE):
        before = self.redis.ran_us()
        replies = self.fcall(function, subs, base)
        return self.redis.ran_us() - before, replies


def now_us(redis):
    s, us = redis.call("TIME")
    return int(s) * 1000000 + int(us)


# ---- what is large ---------------------------------------------------------------------

def semaphore(b, name="s", holders=4096, lease_ms=3600000):
    b.redis.many([["FCALL", f"lock_acquire_{b.digest}", 1, BASE, 6, f"{name}token{i:011d}", "owner%2Fof.a.host:" + str(i),
                   lease_ms, 0, ".", f"{name} P 1 10000"] for i in range(holders)])


def items(b, n=1000, base=BASE, limit=0):
    b.redis.many([["FCALL", f"stock_put_item_{b.digest}", 1, base, 8, f"sku{i:06d}", 1000000, limit, 0, 0, 2592000000, 0, 0]
                  for i in range(n)])


def holds(b, n=1000, lines=2, ms=-1000):
    b.redis.many([["FCALL", f"stock_reserve_{b.digest}", 1, BASE, 3 + 2 * lines, f"order{i:08d}", "buyer", 1000000]
                  + [x for k in range(lines) for x in (f"sku{(i + k) % 100:06d}", 1)] for i in range(n)])
    ids = b.redis.call("ZRANGE", BASE + "stock:x", 0, -1)
    over = now_us(b.redis) - 1000000
    b.redis.many([["ZADD", BASE + "stock:x", over, i] for i in ids])


def ledger(b, n):
    b.redis.many([["XADD", BASE + "stock:ledger", "*", "1",
                   f"DEDUCTED\0sku000001\0" f"1\0order-of-somebody-{i}\0"] for i in range(n)])


def packed_ledger(b, n):
    """The ledger of orders of 64 lines that shared an FCALL, seven at a time."""
    entry = "\0".join(["DEDUCTED", "sku000001", "1", "order-of-somebody", ""] * 448)
    b.redis.many([["XADD", BASE + "stock:ledger", "*", "448", entry] for i in range(n)])


CASES = []


def case(weight):
    def add(f):
        CASES.append((f.__name__, f, weight))
        return f
    return add


# ---- locks -------------------------------------------------------------------------------

@case(weight=48)
def inspect_4096_holders(b):
    semaphore(b)
    return "lock_inspect", lambda i: ["s"]


@case(weight=20)
def describe_256_holders(b):
    semaphore(b)
    found = b.fcall("lock_inspect", [["s"]])[0][5:]
    return "lock_describe", lambda i: found[:512]


@case(weight=2)
def acquire_at_4096_holders(b):
    semaphore(b)
    return "lock_acquire", lambda i: [f"anothertoken{i:06d}", "", 10000, 0, ".", "s P 1 10000"]


@case(weight=2)
def acquire_where_4096_leases_ended(b):
    semaphore(b)
    over = struct.pack("<ddd", 1000, 900, 1)
    b.redis.call("EVAL", "for _, t in ipairs(redis.call('HKEYS', KEYS[1])) do redis.call('HSET', KEYS[1], t, ARGV[1]) end "
                 "redis.call('SETRANGE', KEYS[2], 19, string.sub(ARGV[1], 1, 8))", 2, BASE + "lock:h:s", BASE + "lock:n:s", over)
    return "lock_acquire", lambda i: [f"anothertoken{i:06d}", "", 10000, 0, ".", "s"]


@case(weight=48)
def force_release_4096_holders(b):
    semaphore(b)
    return "lock_force_release", lambda i: ["s"]


@case(weight=64)
def list_large_semaphores(b):
    for k in range(20):
        semaphore(b, f"s{k}")
    b.redis.call("EVAL", "for _, k in ipairs(redis.call('KEYS', '*:lock:t:*')) do redis.call('DEL', k) end", 0)
    return "lock_list", lambda i: ["", 1000, "0", "", ""]


@case(weight=64)
def list_5000_locks(b):
    b.redis.many([["FCALL", f"lock_acquire_{b.digest}", 1, BASE, 6, f"listedtoken{i:06d}", "", 3600000, 0, ".", f"n{i}"]
                  for i in range(5000)])
    return "lock_list", lambda i: ["", 1000, "0", "", ""]


def targets(i):
    return [f"lock-of-a-frame-{i}-{k}" for k in range(16)]


def target(name, mode):
    return name if mode == "E" else f"{name} {mode} 1 0"


@case(weight=10)
def acquire_16_targets(b):
    return "lock_acquire", lambda i: [f"frametoken{i:06d}", "", 3600000, 0, ".", *targets(i)]


def take_16(b):
    b.fcall("lock_acquire", [[f"frametoken{i:06d}", "", 3600000, 0, ".", *targets(i)] for i in range(64)])


@case(weight=2)
def renew_16_names(b):
    take_16(b)
    return "lock_renew", lambda i: [f"frametoken{i:06d}", 3600000, *targets(i)]


@case(weight=2)
def release_16_names(b):
    take_16(b)
    return "lock_release", lambda i: [f"frametoken{i:06d}", "", *targets(i)]


def listen(b):
    """A server that hears: who it parks is offered what comes free."""
    ear = Redis.__new__(Redis)
    ear.socket = socket.socket(socket.AF_UNIX)
    ear.socket.connect(b.redis.path)
    ear.file = ear.socket.makefile("rb")
    ear.call("SUBSCRIBE", "ls:wake:ear")
    b.ear = ear  # until the next


def park(b, name, n, mode="S", more=()):
    b.redis.many([["FCALL", f"lock_acquire_{b.digest}", 1, BASE, 6 + len(more(i) if more else ()), f"waits{name}token{i:06d}",
                   "", 3600000, 3600000, "ear.1.3600000", target(name, mode), *(more(i) if more else ())] for i in range(n)])


def held(b, names, mode="E"):
    b.redis.many([["FCALL", f"lock_acquire_{b.digest}", 1, BASE, 6, f"holds{name}token", "", 3600000, 0, ".", target(name, mode)]
                  for name in names])


def crowds(b, n, waiters):
    listen(b)
    names = [f"n{k}" for k in range(n)]
    held(b, names)
    for name in names:
        park(b, name, waiters)
    return names


@case(weight=1)
def release_to_128_readers(b):
    names = crowds(b, 64, 128)
    return "lock_release", lambda i: [f"holds{names[i]}token", "ear"]


@case(weight=1)
def promote_128_readers(b):
    names = crowds(b, 64, 128)
    free = struct.pack("<BBBdd", 2, ord("F"), 1, 0, now_us(b.redis) + 86400e6)
    b.redis.many([["SET", BASE + "lock:n:" + name, free] for name in names])
    return "lock_promote", lambda i: [names[i]]


@case(weight=1)
def release_to_readers_of_16_names(b):
    listen(b)
    names = [f"n{k}" for k in range(64)]
    held(b, names)
    held(b, ["other"])
    for name in names:
        park(b, name, 64, more=lambda i, name=name: [f"{name}-{i}-{k} S 1 0" for k in range(15)])
    return "lock_release", lambda i: [f"holds{names[i]}token", "ear"]


@case(weight=10)
def acquire_16_names_of_64_waiters(b):
    listen(b)
    held(b, ["bar"])
    for k in range(16):
        park(b, f"frametarget{k}", 64, more=lambda i: ["bar S 1 0"])
    return "lock_acquire", lambda i: [f"frametoken{i:06d}", "", 3600000, 0, ".",
                                      *[f"frametarget{k} S 1 0" for k in range(16)]]


@case(weight=2)
def acquire_1_name_of_64_waiters(b):
    listen(b)
    held(b, ["bar"])
    park(b, "one", 64, more=lambda i: ["bar S 1 0"])
    return "lock_acquire", lambda i: [f"onetoken{i:011d}", "", 3600000, 0, ".", "one S 1 0"]


def full_and_over(b, names):
    end = now_us(b.redis) + 3600000000
    b.redis.many([["EVAL", "for i = 1, 4095 do redis.call('HSET', KEYS[2], 'manytoken' .. i, ARGV[1]) end "
                   "redis.call('HSET', KEYS[2], 'overtoken0', ARGV[2]) redis.call('SET', KEYS[1], ARGV[3])", 2,
                   BASE + "lock:n:" + name, BASE + "lock:h:" + name, struct.pack("<ddd", end, 900, 1),
                   struct.pack("<ddd", 1000, 900, 1),
                   struct.pack("<BBBdddddd", 2, ord("p"), 0, 900, end, 1000, 10000, 4096, 0)] for name in names])


@case(weight=2)
def acquire_of_32_full_semaphores(b):
    full_and_over(b, [f"s{k}" for k in range(32)])
    return "lock_acquire", lambda i: [f"anothertoken{i:06d}", "", 10000, 0, ".", f"s{i} P 1 10000"]


@case(weight=1)
def promote_at_64_full_semaphores(b):
    listen(b)
    full_and_over(b, [f"s{k}" for k in range(64)])
    for k in range(64):
        park(b, f"s{k}", 1, mode="E")
    full_and_over(b, [f"s{k}" for k in range(64)])
    return "lock_promote", lambda i: [f"s{i}"]


@case(weight=2)
def acquire_of_another_capacity(b):
    full_and_over(b, ["s"])
    return "lock_acquire", lambda i: [f"anothertoken{i:06d}", "", 10000, 0, ".", "s P 1 9999"]


# ---- stock -------------------------------------------------------------------------------

def lines(n, quantity=1):
    return [x for k in range(n) for x in (f"sku{k:06d}", quantity)]


@case(weight=5)
def get_64_items(b):
    items(b)
    return "stock_get_items", lambda i: [f"sku{k:06d}" for k in range(64)]


@case(weight=1)
def get_item_1000_holds_over(b):
    items(b)
    holds(b)
    return "stock_get_items", lambda i: ["sku000001"]


@case(weight=16)
def list_items_1000(b):
    items(b)
    return "stock_list_group", lambda i: ["", "", STEP]


@case(weight=64)
def list_namespace_1000(b):
    items(b, 5000)
    return "stock_list_namespace", lambda i: ["", "0", STEP, "", ""]


@case(weight=32)
def expire_1000_holds(b):
    items(b)
    holds(b)
    return "stock_expire", lambda i: []


@case(weight=32)
def expire_1000_holds_of_64_lines(b):
    items(b)
    holds(b, lines=64)
    return "stock_expire", lambda i: []


@case(weight=1)
def put_item_1000_holds_over(b):
    items(b)
    holds(b)
    return "stock_put_item", lambda i: ["sku000001", 2000000, 0, 0, 0, 2592000000, 0, 0]


@case(weight=9)
def deduct_64_lines(b):
    items(b, limit=1000000)
    return "stock_deduct", lambda i: [f"deducted{i}", f"buyer{i}", *lines(64)]


@case(weight=9)
def deduct_64_lines_again(b):
    items(b, limit=1000000)
    b.fcall("stock_deduct", [[f"deducted{i}", f"buyer{i}", *lines(64)] for i in range(64)])
    return "stock_deduct", lambda i: [f"deducted{i}", f"buyer{i}", *lines(64)]


@case(weight=1)
def deduct_1_line(b):
    items(b)
    return "stock_deduct", lambda i: [f"deducted{i}", f"buyer{i}", *lines(1)]


def reserve_64(b):
    items(b, limit=1000000)
    b.fcall("stock_reserve", [[f"held{i}", f"buyer{i}", 3600000, *lines(64)] for i in range(64)])


@case(weight=9)
def reserve_64_lines(b):
    items(b, limit=1000000)
    return "stock_reserve", lambda i: [f"held{i}", f"buyer{i}", 3600000, *lines(64)]


@case(weight=6)
def confirm_64_lines(b):
    reserve_64(b)
    return "stock_confirm", lambda i: [f"held{i}", "0"]


@case(weight=6)
def cancel_64_lines(b):
    reserve_64(b)
    return "stock_cancel", lambda i: [f"held{i}", "because"]


@case(weight=1)
def get_order_64_lines(b):
    reserve_64(b)
    return "stock_get_order", lambda i: [f"held{i}"]


@case(weight=6)
def return_64_lines(b):
    items(b, limit=1000000)
    b.fcall("stock_deduct", [[f"held{i}", f"buyer{i}", *lines(64)] for i in range(64)])
    return "stock_return", lambda i: [f"return{i}", f"held{i}", *lines(64)]


@case(weight=21)
def read_ledger_1000(b):
    ledger(b, 5000)
    return "stock_read_ledger", lambda i: ["", 1000, "", 0]


@case(weight=1)
def read_ledger_1_of_448(b):
    packed_ledger(b, 100)
    return "stock_read_ledger", lambda i: ["", 1, "", 0]


@case(weight=21)
def read_ledger_1000_of_448(b):
    packed_ledger(b, 100)
    return "stock_read_ledger", lambda i: ["", 1000, "", 0]


@case(weight=64)
def trim_ledger_of_448(b):
    packed_ledger(b, 30000)
    last = b.redis.call("XREVRANGE", BASE + "stock:ledger", "+", "-", "COUNT", 1)[0][0].decode().split("-")
    return "stock_trim_ledger", lambda i: [f"{last[0]}-{(int(last[1]) + 1) * 1000}"]


@case(weight=64)
def trim_ledger_1000000(b):
    ledger(b, 1000000)
    last = b.redis.call("XREVRANGE", BASE + "stock:ledger", "+", "-", "COUNT", 1)[0][0].decode().split("-")
    return "stock_trim_ledger", lambda i: [f"{last[0]}-{(int(last[1]) + 1) * 1000}"]


# ---- the others --------------------------------------------------------------------------

def rules(n, limit="F,5,3600000", key="k", own_key=True):
    return [x for k in range(n) for x in (f"{key}{k if own_key else 0}", limit)]


@case(weight=8)
def check_8_rules(b):
    return "rate_check", lambda i: [1, "A", f"request{i} 6000", *rules(8, key=f"k{i}-")]


@case(weight=8)
def check_8_keys_of_128_counters(b):
    for k in range(16):
        for c in range(1, 9):
            b.fcall("rate_check", [[1, "A", "", *[x for r in range(16) for x in
                                                  (f"k{k}", f"F,{c * 100 + r},3600000")]]])
    return "rate_check", lambda i: [1, "A", "", *rules(8, "F,100,3600000")]


@case(weight=8)
def check_8_logs(b):
    return "rate_check", lambda i: [1023, "A", "", *rules(8, "L,9000000,3600000")]


@case(weight=63)
def list_policies_1000(b):
    b.redis.many([["FCALL", f"rate_put_policy_{b.digest}", 1, BASE, 11, f"policy{i:05d}", 0, 0, "FIXED_WINDOW", 5, 1000, 0, 0,
                   0, 0, 0] for i in range(1500)])
    return "rate_list_policies", lambda i: ["", 1000]


@case(weight=1)
def get_8_policies(b):
    list_policies_1000(b)
    return "rate_get_policies", lambda i: [f"policy{k:05d}" for k in range(8)]


def completed(b, size):
    reply = b.fcall("idempotency_begin", [["token-of-an-attempt", "f", 10000, 86400000, 0, ""]])
    b.fcall("idempotency_complete", [[reply[0][2], b"r" * size]])


@case(weight=4)
def begin_replays_400_kib(b):
    completed(b, 400 * 1024)
    return "idempotency_begin", lambda i: [f"token-of-another-{i}", "f", 10000, 86400000, 0, ""]


@case(weight=4)
def begin_replays_1_kib(b):
    completed(b, 1024)
    return "idempotency_begin", lambda i: [f"token-of-another-{i}", "f", 10000, 86400000, 0, ""]


@case(weight=4)
def get_result_400_kib(b):
    completed(b, 400 * 1024)
    return "idempotency_get", lambda i: []


@case(weight=24)
def id_grant_1024_workers(b):
    b.fcall("id_grant", [["owner", -1, 0]])
    now = now_us(b.redis) // 1000
    b.redis.call("HSET", BASE + "id:workers", "floor", 1, *[x for w in range(1024) for x in (
        w, f"{now} {now + 1000} {now} owner{w}")])
    return "id_grant", lambda i: ["another", -1, 0]


@case(weight=64)
def find_overdue_1000_groups(b):
    b.redis.many([["ZADD", f"ls:{{default/group{g}}}:stock:x", 1, "order"] for g in range(3000)])
    return "stock_find_overdue", lambda i: ["0"]


@case(weight=64)
def find_overdue_moves_of_500_items(b):
    """Of each two keys one is a bucket's record of moves, from and to 64 others, none under way."""
    fields = [x for k in range(65) for x in (f"o{k}", struct.pack("<ddd", 1, 0, 1), f"i{k}", struct.pack("<dd", 1, 1))]
    b.redis.many([["HSET", f"ls:{{default/g/64/100}}:stock:m:{sku}", *fields] for sku in range(1500)])
    b.redis.many([["SET", f"key{i}", 1] for i in range(1500)])
    return "stock_find_overdue", lambda i: ["0"]


def main():
    options = [a for a in sys.argv[1:] if a.startswith("--")]
    library, pattern = ([a for a in sys.argv[1:] if not a.startswith("--")] + [""])[:2]
    with tempfile.TemporaryDirectory(prefix="lks-bench-") as directory:
        redis = Redis(directory)
        try:
            b = Bench(redis, library)
            for name, f, weight in CASES:
                if not re.search(pattern, name):
                    continue
                if "--together" in options:
                    weight = 1
                n, taken = max(1, UNITS // weight), {}
                for subs in sorted({n, 1}):
                    taken[subs] = []
                    for _ in range(3):
                        b.reset()
                        function, make = f(b)
                        us, replies = b.timed(function, [make(i) for i in range(subs)])
                        taken[subs].append(us)
                first = replies[0] if isinstance(replies[0], list) else replies
                word = first[3] if first[0] == b"ERR" else first[0]
                word = word.decode() if isinstance(word, bytes) else str(word)
                print(f"{name:34} {n:3} sub-calls {sorted(taken[n])[1]:9} us   one {sorted(taken[1])[1]:8} us   {word}",
                      flush=True)
        finally:
            redis.process.send_signal(signal.SIGTERM)
            redis.process.wait()


if __name__ == "__main__":
    main()
