#!/usr/bin/env python3
"""How many instructions of Redis a call takes, of several function libraries, by callgrind: what else the machine does is of no
matter, so half a percent can be seen, but misses of the processor's caches cannot. Asserts nothing.

    bench/function_instructions.py LIBRARY... [--rows=deduct,acquire_busy,pair,hand_off] [--calls=640]

Rows are those of bench/function_cpu.py, sent in its ways (script, alone, one key, groups), and two more: a pair is an Acquire and the
Release that follows, of one name or of 64 names of a group at once; at a hand-off 64 wait, and who releases queues again.
Printed are thousands a call (pair, hand-off) and their ratio to the first library.
"""
import glob, os, random, signal, socket, subprocess, sys, tempfile, time

import fcall_time
from function_cpu import KEYS, ROWS, TOGETHER, Bench, token


class Redis(fcall_time.Redis):
    def __init__(self, directory):
        self.directory, self.path = directory, os.path.join(directory, "sock")
        self.process = subprocess.Popen(
            ["valgrind", "--tool=callgrind", f"--callgrind-out-file={directory}/out", "redis-server", "--port", "0",
             "--unixsocket", self.path, "--save", "", "--dir", directory, "--hz", "1"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.connect()

    def connect(self):
        self.socket = socket.socket(socket.AF_UNIX)
        while self.socket.connect_ex(self.path) != 0:
            time.sleep(0.05)
        self.file = self.socket.makefile("rb")

    def instructions(self):
        """Since the last look."""
        subprocess.run(["callgrind_control", "-d", str(self.process.pid)], check=True, capture_output=True)
        out = max(glob.glob(f"{self.directory}/out.*"), key=os.path.getmtime)
        with open(out) as f:
            n = sum(int(line.split()[1]) for line in f if line.startswith("totals:"))
        os.remove(out)
        return n

    def ran_us(self):
        return 0


class Listener(Redis):
    """A server that parks who waits."""

    def __init__(self, redis):
        self.path = redis.path
        self.connect()
        self.call("SUBSCRIBE", "ls:wake:server")
        self.socket.setblocking(False)

    def forget(self):
        try:
            while self.socket.recv(1 << 20):
                pass
        except BlockingIOError:
            pass


def pairs(each):
    def make(b, calls):
        commands = []
        for _ in range(calls // each):
            k, tokens = random.randrange(KEYS), [token(b.next()) for _ in range(each)]
            commands.append(b.fcall("lock_acquire", [(k, [t, "owner", 60000, 0, ".", f"n{i}"]) for i, t in enumerate(tokens)]))
            commands.append(b.fcall("lock_release", [(k, [t, "server", f"n{i}"]) for i, t in enumerate(tokens)]))
        return commands
    return make


def hand_offs(b):
    listener, queue = Listener(b.redis), []

    def acquire():
        queue.append(token(b.next()))
        return b.fcall("lock_acquire", [(0, [queue[-1], "owner", 60000, 60000, f"server.{token(b.next())}.60000", "hot"])])

    def make(b, calls):
        listener.forget()
        return [words for _ in range(calls) for words in (b.fcall("lock_release", [(0, [queue.pop(0), "server"])]), acquire())]
    for _ in range(TOGETHER + 1):
        b.redis.call(*acquire())
    return {"hand-off": make}


def ways_of(name, b):
    """Of each way, make(bench, calls) -> commands."""
    if name == "pair":
        return {"alone": pairs(1), "64 names": pairs(TOGETHER)}
    if name == "hand_off":
        return hand_offs(b)
    f, minimal = next((f, minimal) for row, f, minimal, _ in ROWS if row == name)
    minimal.prepare(b)
    sha = b.redis.call("SCRIPT", "LOAD", minimal.script)
    function, make = f(b)
    return {"script": lambda b, calls: [("EVALSHA", sha, 1, *minimal.words(b)) for _ in range(calls)]} | {
        way: lambda b, calls, send=send: send(function, make, calls)
        for way, send in (("alone", b.alone), ("one key", b.one_key), ("groups", b.groups))}


def main():
    options = dict(a[2:].split("=") for a in sys.argv[1:] if a.startswith("--"))
    libraries, calls = [a for a in sys.argv[1:] if not a.startswith("--")], int(options.get("calls", 640))
    for name in options.get("rows", "deduct,acquire_busy,pair,hand_off").split(","):
        found = []
        for library in libraries:
            with tempfile.TemporaryDirectory(prefix="lks-bench-") as directory:
                redis = Redis(directory)
                try:
                    random.seed(1)
                    b, each = Bench(redis, library), {}
                    for way, make in ways_of(name, b).items():
                        commands = make(b, calls)
                        redis.instructions()
                        b.cost(commands)
                        each[way] = redis.instructions() / calls / 1000
                    found.append(each)
                finally:
                    redis.process.send_signal(signal.SIGTERM)
                    redis.process.wait()
        for way, first in found[0].items():
            print(f"{name:20} {way:9} " + "  ".join(f"{each[way]:7.1f} {each[way] / first:5.2f}" for each in found), flush=True)


if __name__ == "__main__":
    main()
