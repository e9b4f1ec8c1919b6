#!/usr/bin/env python3
"""How long lockstock takes from start to end, beside redis-cli: interleaved, medians and CPU time.

    bench/cli_start.py [build/release]
"""
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from programs import Programs

BUILD = sys.argv[1] if len(sys.argv) > 1 else "build/release"
ROUNDS = 300


def cpu():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(commands):
    """Of each: its median and its CPU a run, in milliseconds."""
    took = [[] for _ in commands]
    used = [0.0 for _ in commands]
    for _ in range(ROUNDS):
        for i, command in enumerate(commands):
            before, began = cpu(), time.perf_counter()
            subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
            took[i].append(time.perf_counter() - began)
            used[i] += cpu() - before
    return [(statistics.median(took[i]) * 1e3, used[i] / ROUNDS * 1e3) for i in range(len(commands))]


def main():
    with tempfile.TemporaryDirectory(prefix="ls-", dir="/tmp") as path:
        programs = Programs(path)
        try:
            programs.start("redis.log", "redis-server", "--port", "0", "--unixsocket", f"{path}/r", "--dir", path,
                           "--appendonly", "yes", until="ready to accept")
            programs.start("server.log", f"{BUILD}/server/lockstockd", "--listen", f"unix://{path}/s", "--store",
                           f"unix://{path}/r", until="event=ready")
            lockstock = [f"{BUILD}/cli/lockstock"]
            for name, ours, theirs in (
                    ("--version", ["--version"], ["--version"]), ("--help", ["--help"], ["--help"]),
                    ("a read", ["lock", "inspect", "door", "--server", f"unix://{path}/s"], ["-s", f"{path}/r", "get", "door"])):
                (a, a_cpu), (b, b_cpu) = measure([lockstock + ours, ["redis-cli"] + theirs])
                print(f"{name:10} lockstock {a:5.2f} ms, redis-cli {b:5.2f} ms: {a / b:.2f} times; of CPU {a_cpu / b_cpu:.2f} times")
        finally:
            programs.end()


main()
