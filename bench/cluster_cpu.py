#!/usr/bin/env python3
"""Compares lockstockd's CPU for each call on a Redis Cluster of six nodes and on one Redis, in turns; counts the cluster's messages
for each hand-off.

    bench/cluster_cpu.py BUILD [--rounds 3] [--in-flight 256] [--fsync no] [scenario...]

BUILD is a release build. Redis is on 127.0.0.1, with an append-only file, in a temporary directory.
"""
import argparse
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile

from programs import Programs

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def cpu_s(pid):
    tasks = os.listdir(f"/proc/{pid}/task")
    return sum(int(open(f"/proc/{pid}/task/{t}/schedstat").read().split()[0]) for t in tasks) / 1e9


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def redis(port, *words):
    return subprocess.run(["redis-cli", "-p", str(port), *words], capture_output=True, text=True, check=True).stdout


class Stores:
    """One Redis and a cluster, and a lockstockd on each."""

    def __init__(self, build, fsync):
        self.dir, self.pid = tempfile.mkdtemp(), {}
        self.programs = Programs(self.dir)
        _, text = self.programs.start("set.out", f"{HERE}/packaging/redis-set.sh", "cluster", f"{self.dir}/set",
                                      until="ready")
        url = re.search(r"url=(\S+)", text).group(1)
        self.ports = re.findall(r":(\d+)", url)
        port = free_port()
        self.programs.start("one.out", "redis-server", "--port", port, "--bind", "127.0.0.1", "--appendonly", "yes", "--save",
                            "", "--dir", self.dir, until="Ready to accept connections")
        for p in self.ports + [port]:
            redis(p, "CONFIG", "SET", "appendfsync", fsync)
        for name, store in (("one", f"redis://127.0.0.1:{port}"), ("cluster", url)):
            server, _ = self.programs.start(f"{name}.log", f"{build}/server/lockstockd", "--store", store, "--listen",
                                            self.listen(name), until="event=ready")
            self.pid[name] = server.pid

    def listen(self, name):
        return f"unix://{self.dir}/{name}.sock"

    def on_the_bus(self):
        found = [re.search(r"messages_publish_sent:(\d+)", redis(p, "CLUSTER", "INFO")) for p in self.ports]
        return sum(int(m.group(1)) for m in found if m)


def run(stores, build, name, scenario, *flags):
    path = f"{stores.dir}/result.json"
    before = cpu_s(stores.pid[name])
    subprocess.run([f"{build}/bench/lockstock-bench", scenario, "--server", stores.listen(name), "--json", path, *flags],
                   check=True, stdout=subprocess.DEVNULL)
    used = cpu_s(stores.pid[name]) - before
    return used * 1e6 / json.load(open(path))["results"][0]["calls_started"]


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("build")
    args.add_argument("scenarios", nargs="*", default=["deduct-hot", "deduct", "lock"])
    args.add_argument("--rounds", type=int, default=3)
    args.add_argument("--in-flight", default="256")
    args.add_argument("--fsync", default="no")
    args = args.parse_intermixed_args()
    stores = Stores(args.build, args.fsync)
    try:
        for scenario in args.scenarios:
            us = {"one": [], "cluster": []}
            for turn in range(args.rounds):
                for name in sorted(us, reverse=turn % 2 == 0):
                    us[name].append(run(stores, args.build, name, scenario, "--seconds", "3", "--in-flight", args.in_flight))
            ratios = sorted(c / o for c, o in zip(us["cluster"], us["one"]))
            print(f"{scenario}: one {statistics.median(us['one']):.2f} us an operation, cluster "
                  f"{statistics.median(us['cluster']):.2f}; ratios {' '.join(f'{r:.2f}' for r in ratios)}")
        before, hand_offs = stores.on_the_bus(), 3000
        run(stores, args.build, "cluster", "lock-hot", "--calls", str(hand_offs), "--in-flight", "65")
        print(f"messages on the bus of {len(stores.ports)} nodes, a hand-off: {(stores.on_the_bus() - before) / hand_offs:.2f}")
    finally:
        stores.programs.end()


if __name__ == "__main__":
    sys.exit(main())
