#!/usr/bin/env python3
"""Measures the time from kill -9 of a primary until lockstockd serves its groups again, and until redis-cli sees the next primary.

    bench/failover_time.py BUILD [--store sentinel|cluster] [--times 20]

The set is one of packaging/redis-set.sh, in a temporary directory. Served is a group when a call that changes it, begun after
the kill, is answered with OK; calls and redis-cli's ROLE follow each other without a pause.
"""
import argparse
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from programs import Programs

SET = Path(__file__).resolve().parent.parent / "packaging/redis-set.sh"
GROUPS = [f"g{i}" for i in range(40)]


def text_of(*words):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True).stdout


class Scene:
    def __init__(self, folder, arguments):
        self.folder, self.programs = Path(folder), Programs(folder)
        self.lockstock = Path(arguments.build) / "cli/lockstock"
        self.server = f"unix://{folder}/server"
        self.programs.start("set.log", SET, arguments.store, self.folder / "nodes", until="\nready")
        self.programs.start("server.log", Path(arguments.build) / "server/lockstockd", "--store", self.ask("url").strip(),
                            "--listen", self.server, until="event=ready")
        for group in GROUPS:
            self.put(group)

    def ask(self, what, *words):
        return text_of(SET, what, self.folder / "nodes", *words)

    def put(self, group):
        subprocess.run([self.lockstock, "stock", "put-item", "phone", "--group", group, "--on-hand", "1", "--server",
                        self.server], check=True, stdout=subprocess.DEVNULL)

    def is_served(self, group):
        return subprocess.run([self.lockstock, "stock", "adjust", "phone", "1", "--group", group, "--server", self.server,
                               "--timeout", "100ms"], capture_output=True).returncode == 0

    def primaries(self):
        """The port and the pid of each."""
        nodes = [line.split() for line in self.ask("nodes").splitlines()]
        return [(port, int(pid)) for port, _, pid, role in nodes if role == "master"]

    def replicas(self, port):
        info = text_of("redis-cli", "-p", port, "INFO", "replication")
        return re.findall(r"^slave\d+:.*port=(\d+)", info, re.M)

    def group_at(self, port):
        """One whose slot that primary has."""
        for group in GROUPS:
            if text_of("redis-cli", "-p", port, "EXISTS", f"ls:{{default/{group}}}:stock:skus").strip().isdigit():
                return group
        raise SystemExit(f"no group is at {port}")

    def fail_over(self, turn):
        """Of the primaries in turn: seconds from the kill until redis-cli sees another primary, and until the group is served."""
        primaries = self.primaries()
        port, pid = primaries[turn % len(primaries)]
        others, group, seen = self.replicas(port), self.group_at(port), []

        def look():
            while not any(text_of("redis-cli", "-p", other, "ROLE").startswith("master") for other in others):
                pass
            seen.append(time.monotonic())

        looking = threading.Thread(target=look)
        killed = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        looking.start()
        while not self.is_served(group):
            pass
        served = time.monotonic()
        looking.join()
        self.ask("start", port)
        self.ask("wait")
        return seen[0] - killed, served - killed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--store", choices=["sentinel", "cluster"], default="sentinel")
    parser.add_argument("--times", type=int, default=20)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        scene = Scene(folder, arguments)
        try:
            found = [scene.fail_over(turn) for turn in range(arguments.times)]
        finally:
            scene.programs.end()
    for what, times in (("redis-cli sees the next primary", [seen for seen, _ in found]),
                        ("served again", [served for _, served in found]),
                        ("served, after redis-cli saw it", [served - seen for seen, served in found])):
        print(f"{what}: median {statistics.median(times):.2f} s, worst {max(times):.2f} s of {len(times)}")


if __name__ == "__main__":
    sys.exit(main())
