#!/usr/bin/env python3
"""Measures how long the most expensive FCALLs occupy Redis: microseconds of CPU of its thread.

    bench/fcall_time.py build/release/server/functions/lockstock-functions.lua [pattern]

Fills a redis-server of its own with the largest things that the contract allows, and sends for each case the FCALL that a
server would send: as many sub-calls as their weight allows (server/store/batch.h), three times; the middle one is printed.
"""
import re
import struct
import sys

from programs import Library, Redis

UNITS = 64  # STORE_WEIGHT_MAX, server/store/store.h
BASE = "ls:{default/g}:"
HOUR_MS, DAYS_30_MS = 3600000, 2592000000
STEP = 250  # STEP_MAX, server/services/stock_list.c


def call(b, function, *argument_lists):
    return b.redis.many([b.fcall(function, [("g", args)]) for args in argument_lists])


def now_us(b):
    s, us = b.redis.call("TIME")
    return int(s) * 1000000 + int(us)


# ---- what is large ------------------------------------------------------------------------


def acquired(name, token, lease_ms=HOUR_MS, wait_ms=0, copy=".", owner=""):
    return [token, owner, lease_ms, wait_ms, copy, *(name if isinstance(name, list) else [name])]


def semaphore(b, name="s", holders=4096):
    call(b, "lock_acquire", *[acquired(f"{name} P 1 10000", f"{name}token{i:011d}", owner=f"owner%2Fof.a.host:{i}")
                              for i in range(holders)])


def semaphores(b):
    for k in range(20):
        semaphore(b, f"s{k}")
    b.redis.call("EVAL", "for _, k in ipairs(redis.call('KEYS', '*:lock:t:*')) do redis.call('DEL', k) end", 0)


def semaphore_of_ended_leases(b):
    semaphore(b)
    over = struct.pack("<ddd", 1000, 900, 1)
    b.redis.call("EVAL", "for _, t in ipairs(redis.call('HKEYS', KEYS[1])) do redis.call('HSET', KEYS[1], t, ARGV[1]) end "
                 "redis.call('SETRANGE', KEYS[2], 19, string.sub(ARGV[1], 1, 8))", 2, BASE + "lock:h:s",
                 BASE + "lock:n:s", over)


def frame(i):
    return [f"lock-of-a-frame-{i}-{k}" for k in range(16)]


def frames(b):
    call(b, "lock_acquire", *[acquired(frame(i), f"frametoken{i:06d}") for i in range(64)])


def listen(b):
    """A server listens: its parked calls are offered locks that become free."""
    b.ear = Redis(of=b.redis)
    b.ear.call("SUBSCRIBE", "ls:wake:ear")


def park(b, name, n, more=lambda i: []):
    call(b, "lock_acquire", *[acquired([f"{name} S 1 0", *more(i)], f"waits{name}token{i:06d}", wait_ms=HOUR_MS,
                                       copy=f"ear.1.{HOUR_MS}") for i in range(n)])


def held(b, *names):
    call(b, "lock_acquire", *[acquired(name, f"holds{name}token") for name in names])


def crowds(b):
    listen(b)
    held(b, *[f"n{k}" for k in range(64)])
    for k in range(64):
        park(b, f"n{k}", 128)


def free_crowds(b):
    crowds(b)
    free = struct.pack("<BBBdd", 2, ord("F"), 1, 0, now_us(b) + 86400e6)
    b.redis.many([["SET", BASE + f"lock:n:n{k}", free] for k in range(64)])


def crowds_of_16_names(b):
    listen(b)
    held(b, *[f"n{k}" for k in range(64)], "other")
    for k in range(64):
        park(b, f"n{k}", 64, more=lambda i, k=k: [f"n{k}-{i}-{j} S 1 0" for j in range(15)])


def waiters(*names):
    def fill(b):
        listen(b)
        held(b, "bar")
        for name in names:
            park(b, name, 64, more=lambda i: ["bar S 1 0"])
    return fill


TARGETS = [f"frametarget{k}" for k in range(16)]


def full_and_over(n):
    def fill(b):
        end = now_us(b) + 3600000000
        b.redis.many([["EVAL", "for i = 1, 4095 do redis.call('HSET', KEYS[2], 'manytoken' .. i, ARGV[1]) end "
                       "redis.call('HSET', KEYS[2], 'overtoken0', ARGV[2]) redis.call('SET', KEYS[1], ARGV[3])", 2,
                       f"{BASE}lock:n:s{k}", f"{BASE}lock:h:s{k}", struct.pack("<ddd", end, 900, 1),
                       struct.pack("<ddd", 1000, 900, 1),
                       struct.pack("<BBBdddddd", 2, ord("p"), 0, 900, end, 1000, 10000, 4096, 0)] for k in range(n)])
    return fill


def items(b, n=1000, limit=0):
    call(b, "stock_put_item", *[[f"sku{i:06d}", 1000000, limit, 0, 0, DAYS_30_MS, 0, 0] for i in range(n)])


def limited(b):
    items(b, limit=1000000)


def lines(n):
    return [x for k in range(n) for x in (f"sku{k:06d}", 1)]


def holds(n_lines):
    """A thousand that are over."""
    def fill(b):
        items(b)
        call(b, "stock_reserve", *[[f"order{i:08d}", "buyer", 1000000,
                                    *[x for k in range(n_lines) for x in (f"sku{(i + k) % 100:06d}", 1)]]
                                   for i in range(1000)])
        over = now_us(b) - 1000000
        b.redis.many([["ZADD", BASE + "stock:x", over, i] for i in b.redis.call("ZRANGE", BASE + "stock:x", 0, -1)])
    return fill


def orders(function, *more):
    """64 of 64 lines."""
    def fill(b):
        limited(b)
        call(b, function, *[[f"order{i}", f"buyer{i}", *more, *lines(64)] for i in range(64)])
    return fill


def ledger(n):
    def fill(b):
        b.redis.many([["XADD", BASE + "stock:ledger", "*", "1", f"DEDUCTED\0sku000001\0" f"1\0order-of-somebody-{i}\0"]
                      for i in range(n)])
    return fill


def packed_ledger(n):
    """The ledger of orders of 64 lines that shared an FCALL, seven at a time."""
    def fill(b):
        entry = "\0".join(["DEDUCTED", "sku000001", "1", "order-of-somebody", ""] * 448)
        b.redis.many([["XADD", BASE + "stock:ledger", "*", "448", entry] for i in range(n)])
    return fill


def last_entry(b):
    last = b.redis.call("XREVRANGE", BASE + "stock:ledger", "+", "-", "COUNT", 1)[0][0].decode().split("-")
    return f"{last[0]}-{(int(last[1]) + 1) * 1000}"


def rules(limit, key="k"):
    return [x for k in range(8) for x in (f"{key}{k}", limit)]


def counters(b):
    call(b, "rate_check", *[[1, "A", "", *[x for r in range(16) for x in (f"k{k}", f"F,{c * 100 + r},3600000")]]
                            for k in range(16) for c in range(1, 9)])


def policies(b):
    call(b, "rate_put_policy", *[[f"policy{i:05d}", 0, 0, "FIXED_WINDOW", 5, 1000, 0, 0, 0, 0, 0] for i in range(1500)])


def result(size):
    def fill(b):
        begun = call(b, "idempotency_begin", ["token-of-an-attempt", "f", 10000, 86400000, 0, ""])[0]
        call(b, "idempotency_complete", [begun[2], b"r" * size])
    return fill


def workers(b):
    call(b, "id_grant", ["owner", -1, 0])
    now = now_us(b) // 1000
    b.redis.call("HSET", BASE + "id:workers", "floor", 1,
                 *[x for w in range(1024) for x in (w, f"{now} {now + 1000} {now} owner{w}")])


def moves(b):
    """Of each two keys one is a bucket's record of moves, from and to 64 others, none under way."""
    fields = [x for k in range(65) for x in (f"o{k}", struct.pack("<ddd", 1, 0, 1), f"i{k}", struct.pack("<dd", 1, 1))]
    b.redis.many([["HSET", f"ls:{{default/g/64/100}}:stock:m:{sku}", *fields] for sku in range(1500)])
    b.redis.many([["SET", f"key{i}", 1] for i in range(1500)])


# ---- the cases: name, weight, what fills Redis, function, arguments of sub-call i ----------------


def taker(*names):
    return lambda b, i: acquired([name.format(i=i) for name in names], f"anothertoken{i:06d}", 10000)


SHARED = [f"{name} S 1 0" for name in TARGETS]
ANOTHER_ATTEMPT = ("idempotency_begin", lambda b, i: [f"token-of-another-{i}", "f", 10000, 86400000, 0, ""])
CASES = [
    ("inspect_4096_holders", 48, semaphore, "lock_inspect", lambda b, i: ["s"]),
    ("describe_256_holders", 20, semaphore, "lock_describe", lambda b, i: call(b, "lock_inspect", ["s"])[0][5:517]),
    ("acquire_at_4096_holders", 2, semaphore, "lock_acquire", taker("s P 1 10000")),
    ("acquire_where_4096_leases_ended", 2, semaphore_of_ended_leases, "lock_acquire", taker("s")),
    ("force_release_4096_holders", 48, semaphore, "lock_force_release", lambda b, i: ["s"]),
    ("list_large_semaphores", 64, semaphores, "lock_list", lambda b, i: ["", 1000, "0", "", ""]),
    ("list_5000_locks", 64, lambda b: held(b, *[f"n{i}" for i in range(5000)]), "lock_list",
     lambda b, i: ["", 1000, "0", "", ""]),
    ("acquire_16_targets", 10, lambda b: None, "lock_acquire", lambda b, i: acquired(frame(i), f"frametoken{i:06d}")),
    ("renew_16_names", 2, frames, "lock_renew", lambda b, i: [f"frametoken{i:06d}", HOUR_MS, *frame(i)]),
    ("release_16_names", 2, frames, "lock_release", lambda b, i: [f"frametoken{i:06d}", "", *frame(i)]),
    ("release_to_128_readers", 1, crowds, "lock_release", lambda b, i: [f"holdsn{i}token", "ear"]),
    ("promote_128_readers", 1, free_crowds, "lock_promote", lambda b, i: [f"n{i}"]),
    ("release_to_readers_of_16_names", 1, crowds_of_16_names, "lock_release", lambda b, i: [f"holdsn{i}token", "ear"]),
    ("acquire_16_names_of_64_waiters", 10, waiters(*TARGETS), "lock_acquire", taker(*SHARED)),
    ("acquire_1_name_of_64_waiters", 2, waiters("one"), "lock_acquire", taker("one S 1 0")),
    ("acquire_of_32_full_semaphores", 2, full_and_over(32), "lock_acquire", taker("s{i} P 1 10000")),
    ("acquire_of_another_capacity", 2, full_and_over(1), "lock_acquire", taker("s0 P 1 9999")),
    ("get_64_items", 5, items, "stock_get_items", lambda b, i: [f"sku{k:06d}" for k in range(64)]),
    ("get_item_1000_holds_over", 1, holds(2), "stock_get_items", lambda b, i: ["sku000001"]),
    ("list_items_1000", 16, items, "stock_list_group", lambda b, i: ["", "", STEP]),
    ("list_namespace_1000", 64, lambda b: items(b, 5000), "stock_list_namespace", lambda b, i: ["", "0", STEP, "", ""]),
    ("expire_1000_holds", 32, holds(2), "stock_expire", lambda b, i: []),
    ("expire_1000_holds_of_64_lines", 32, holds(64), "stock_expire", lambda b, i: []),
    ("put_item_1000_holds_over", 1, holds(2), "stock_put_item",
     lambda b, i: ["sku000001", 2000000, 0, 0, 0, DAYS_30_MS, 0, 0]),
    ("deduct_64_lines", 9, limited, "stock_deduct", lambda b, i: [f"order{i}", f"buyer{i}", *lines(64)]),
    ("deduct_64_lines_again", 9, orders("stock_deduct"), "stock_deduct",
     lambda b, i: [f"order{i}", f"buyer{i}", *lines(64)]),
    ("deduct_1_line", 1, items, "stock_deduct", lambda b, i: [f"order{i}", f"buyer{i}", *lines(1)]),
    ("reserve_64_lines", 9, limited, "stock_reserve",
     lambda b, i: [f"order{i}", f"buyer{i}", HOUR_MS, *lines(64)]),
    ("confirm_64_lines", 6, orders("stock_reserve", HOUR_MS), "stock_confirm", lambda b, i: [f"order{i}", "0"]),
    ("cancel_64_lines", 6, orders("stock_reserve", HOUR_MS), "stock_cancel", lambda b, i: [f"order{i}", "because"]),
    ("get_order_64_lines", 1, orders("stock_reserve", HOUR_MS), "stock_get_order", lambda b, i: [f"order{i}"]),
    ("return_64_lines", 6, orders("stock_deduct"), "stock_return", lambda b, i: [f"return{i}", f"order{i}", *lines(64)]),
    ("read_ledger_1000", 21, ledger(5000), "stock_read_ledger", lambda b, i: ["", 1000, "", 0]),
    ("read_ledger_1_of_448", 1, packed_ledger(100), "stock_read_ledger", lambda b, i: ["", 1, "", 0]),
    ("read_ledger_1000_of_448", 21, packed_ledger(100), "stock_read_ledger", lambda b, i: ["", 1000, "", 0]),
    ("trim_ledger_of_448", 64, packed_ledger(30000), "stock_trim_ledger", lambda b, i: [last_entry(b)]),
    ("trim_ledger_1000000", 64, ledger(1000000), "stock_trim_ledger", lambda b, i: [last_entry(b)]),
    ("check_8_rules", 8, lambda b: None, "rate_check",
     lambda b, i: [1, "A", f"request{i} 6000", *rules("F,5,3600000", f"k{i}-")]),
    ("check_8_keys_of_128_counters", 8, counters, "rate_check", lambda b, i: [1, "A", "", *rules("F,100,3600000")]),
    ("check_8_logs", 8, lambda b: None, "rate_check", lambda b, i: [1023, "A", "", *rules("L,9000000,3600000")]),
    ("list_policies_1000", 63, policies, "rate_list_policies", lambda b, i: ["", 1000]),
    ("get_8_policies", 1, policies, "rate_get_policies", lambda b, i: [f"policy{k:05d}" for k in range(8)]),
    ("begin_replays_400_kib", 4, result(400 * 1024), *ANOTHER_ATTEMPT),
    ("get_result_400_kib", 4, result(400 * 1024), "idempotency_get", lambda b, i: []),
    ("id_grant_1024_workers", 24, workers, "id_grant", lambda b, i: ["another", -1, 0]),
    ("find_overdue_1000_groups", 64,
     lambda b: b.redis.many([["ZADD", f"ls:{{default/group{g}}}:stock:x", 1, "order"] for g in range(3000)]),
     "stock_find_overdue", lambda b, i: ["0"]),
    ("find_overdue_moves_of_500_items", 64, moves, "stock_find_overdue", lambda b, i: ["0"]),
]


def timed(b, fill, function, make, n):
    """Returns the median of three runs, and its replies."""
    taken = []
    for _ in range(3):
        b.redis.call("FLUSHALL")
        fill(b)
        command = b.fcall(function, [("g", make(b, i)) for i in range(n)])
        before = b.redis.ran_us()
        reply = b.redis.call(*command)
        taken.append(b.redis.ran_us() - before)
    return sorted(taken)[1], reply if n > 1 else [reply]


def main():
    library, pattern = (sys.argv[1:] + [""])[:2]
    with Redis() as redis:
        b = Library(redis, library)
        for name, weight, fill, function, make in CASES:
            if not re.search(pattern, name):
                continue
            n = UNITS // weight
            us, replies = timed(b, fill, function, make, n)
            one_us, _ = timed(b, fill, function, make, 1) if n > 1 else (us, None)
            first = replies[0] if isinstance(replies[0], list) else replies
            word = first[3] if first[0] == b"ERR" else first[0]
            word = word.decode() if isinstance(word, bytes) else str(word)
            print(f"{name:34} {n:3} sub-calls {us:9} us   one {one_us:8} us   {word}", flush=True)


if __name__ == "__main__":
    main()
