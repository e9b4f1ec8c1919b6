#!/usr/bin/env python3
"""Counts the instructions of Redis for each call, for several function libraries, with callgrind. Other load of the machine does not
matter, so half a percent is visible, but cache misses are not.

    bench/function_instructions.py LIBRARY... [--rows=deduct,acquire_busy,pair,hand_off] [--calls=640]

Rows are those of bench/function_cpu.py, sent in its ways (script, alone, one key, groups), and two more: a pair is an Acquire
and its Release, of one name or of 64 names of a group at once; at a hand-off 64 callers wait, and the one that releases queues again.
Prints thousands for each call (pair, hand-off) and the ratio to the first library.
"""
import glob
import os
import random
import subprocess

from function_cpu import KEYS, TOGETHER, Bench, ways_of
from programs import Redis, arguments, token


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
        """Returns the instructions of the commands."""
        self.instructions()
        self.many(commands, 16)
        return self.instructions()


def pairs(b, each):
    def make(calls):
        commands = []
        for _ in range(calls // each):
            k, tokens = random.randrange(KEYS), [token(b.next()) for _ in range(each)]
            commands.append(b.fcall("lock_acquire", [(k, [t, "owner", 60000, 0, ".", f"n{i}"])
                                                     for i, t in enumerate(tokens)]))
            commands.append(b.fcall("lock_release", [(k, [t, "server", f"n{i}"]) for i, t in enumerate(tokens)]))
        return commands
    return make


def hand_offs(b):
    """A server listens, so waiting calls are parked."""
    server, queue = Redis(of=b.redis), []
    server.call("SUBSCRIBE", "ls:wake:server")
    server.socket.setblocking(False)

    def acquire():
        queue.append(token(b.next()))
        return b.fcall("lock_acquire", [(0, [queue[-1], "owner", 60000, 60000, f"server.{token(b.next())}.60000", "hot"])])

    def make(calls):
        try:
            while server.socket.recv(1 << 20):
                pass
        except BlockingIOError:
            pass
        return [words for _ in range(calls)
                for words in (b.fcall("lock_release", [(0, [queue.pop(0), "server"])]), acquire())]
    for _ in range(TOGETHER + 1):
        b.redis.call(*acquire())
    return make


def ways_of_row(b, name):
    if name == "pair":
        return {"alone": pairs(b, 1), "64 names": pairs(b, TOGETHER)}
    return {"hand-off": hand_offs(b)} if name == "hand_off" else ways_of(b, name)


def measure(library, name, calls):
    with Counted() as redis:
        random.seed(1)
        return {way: redis.count(make(calls)) / calls / 1000
                for way, make in ways_of_row(Bench(redis, library), name).items()}


def main():
    libraries, flags = arguments()
    for name in flags.get("rows", "deduct,acquire_busy,pair,hand_off").split(","):
        found = [measure(library, name, int(flags.get("calls", 640))) for library in libraries]
        for way, first in found[0].items():
            print(f"{name:20} {way:9} " + "  ".join(f"{each[way]:7.1f} {each[way] / first:5.2f}" for each in found),
                  flush=True)


if __name__ == "__main__":
    main()
