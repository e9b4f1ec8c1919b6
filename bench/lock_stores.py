#!/usr/bin/env python3
"""Compares locks of LockService in a ZooKeeper ensemble with those of python3-kazoo and Apache Curator on the same one.

    bench/lock_stores.py BUILD [--rounds 7] [--seconds 3]
    bench/lock_stores.py BUILD --failover 20

BUILD is a release build with lockstockd and lockstock-bench. Three members of packaging/zookeeper-set.sh and one
lockstockd run in a temporary directory. In each round every contender runs once for some seconds, after half a second
that does not count, and nobody else runs meanwhile. A ratio is that of one round, so other load of the machine counts
for both. The rivals are Lock of kazoo, in four processes with a client each, because Python's threads wait for each
other, and InterProcessMutex of Curator, with one client. A rival that is not installed is left out: Debian has them in
python3-kazoo and libcurator-recipes-java, which needs default-jdk-headless.

With --failover, 64 threads hand on one lock of lockstockd, another one each time, while the leader of the ensemble is
killed (kill -9) as often as said. Measured is the longest time without a grant from the kill until all members serve
again and two more seconds have passed.
"""
import argparse
import http.client
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path

from programs import Programs

BENCH = Path(__file__).resolve().parent
SET = BENCH.parent / "packaging/zookeeper-set.sh"
SYSTEM_PYTHON = "/usr/bin/python3"  # which has Debian's modules
JARS = ("curator-recipes", "curator-framework", "curator-client", "zookeeper", "zookeeper-jute", "guava", "slf4j-api",
        "slf4j-nop")
WARM_UP_S, CALM_S, WAITERS, LEASE_MS, WAIT_MS = 0.5, 2, 64, 60000, 30000
# What is measured: its name, how many at once, and whether all want one lock.
KINDS = (("Acquire and Release alone", 1, False), ("Acquire and Release, 256 in flight", 256, False),
         ("hand-offs, 64 waiters", 64, True))


class Lockstock:
    name = "lockstock"

    def __init__(self, build, server):
        self.program, self.server = Path(build) / "bench/lockstock-bench", server

    def rate(self, at_once, of_one, seconds, _turn):
        """Acquired and released locks a second."""
        words = [self.program, "lock-hot" if of_one else "lock", "--in-flight", at_once, "--connections",
                 min(at_once, 4), "--server", self.server, "--warm-up", WARM_UP_S, "--seconds", seconds,
                 "--timeout-ms", 60000, "--json", "-"]
        text = subprocess.run([str(word) for word in words], check=True, stdout=subprocess.PIPE).stdout
        found = json.loads(text)["results"][0]
        if found["agrees"] != "yes" or found["not_answered"] > 0:
            raise SystemExit(f"lockstock-bench: {found}")
        return found["hand_offs_per_second"] if of_one else found["calls_per_second"] / 2


class Rival:
    """Processes that stay. Each is told in a line what to do, and answers with how many locks it has acquired."""

    def __init__(self, name, n, *words):
        self.name, self.processes = name, []
        for _ in range(n):
            self.processes.append(subprocess.Popen([str(word) for word in words], stdin=subprocess.PIPE, text=True,
                                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL))
        for process in self.processes:
            if process.stdout.readline() != "ready\n":
                raise SystemExit(f"{name} does not start")

    def rate(self, at_once, of_one, seconds, turn):
        used = self.processes[:at_once]
        for process in used:
            process.stdin.write(f"{at_once // len(used)} {'one' if of_one else 'own'} {seconds} {turn}\n")
            process.stdin.flush()
        return sum(int(process.stdout.readline()) for process in used) / seconds

    def end(self):
        for process in self.processes:
            process.kill()
            process.wait()


def kazoo(hosts):
    if subprocess.run([SYSTEM_PYTHON, "-c", "import kazoo"], capture_output=True).returncode != 0:
        print("kazoo is not here")
        return None
    return Rival("kazoo", 4, SYSTEM_PYTHON, BENCH / "kazoo_locks.py", hosts)


def curator(hosts):
    jars = [f"/usr/share/java/{name}.jar" for name in JARS]
    try:
        has_compiler = subprocess.run(["javac", "-version"], capture_output=True).returncode == 0
    except FileNotFoundError:
        has_compiler = False
    if not has_compiler or not all(os.path.exists(jar) for jar in jars):
        print("Curator or javac is not here")
        return None
    return Rival("Curator", 1, "java", "-XX:-UsePerfData", "-cp", ":".join(jars), BENCH / "CuratorLocks.java", hosts)


class Scene:
    def __init__(self, folder, build):
        self.nodes, self.programs = Path(folder) / "nodes", Programs(folder)
        self.server, self.http = f"unix://{folder}/server", Path(folder) / "http"
        text = self.programs.start("set.log", SET, "serve", self.nodes, until="\nready")[1]
        self.hosts = text.split("hosts=")[1].split()[0]
        self.programs.start("server.log", Path(build) / "server/lockstockd", "--store", f"embedded:{folder}/redis",
                            "--lock-store", f"zookeeper://{self.hosts}/lockstock", "--listen", self.server,
                            "--listen", f"http+unix://{self.http}", until="lock-store-ready")

    def ask(self, what, *words):
        return subprocess.run([SET, what, self.nodes, *words], check=True, stdout=subprocess.PIPE, text=True).stdout

    def members(self):
        """The port and the mode of each."""
        return [(line.split()[0], line.split()[2]) for line in self.ask("nodes").splitlines()]

    def all_serve(self):
        return sorted(mode for _, mode in self.members()) == ["follower", "follower", "leader"]


def median_of(values):
    return f"{statistics.median(values):.2f} ({min(values):.2f}, {max(values):.2f})"


def compare(scene, arguments):
    rivals = [rival for rival in (kazoo(scene.hosts), curator(scene.hosts)) if rival]
    contenders = [Lockstock(arguments.build, scene.server), *rivals]
    rates = {(kind, contender.name): [] for kind in KINDS for contender in contenders}
    try:
        for turn in range(-1, arguments.rounds):  # the first is for Java's compiler, and does not count
            for kind in KINDS:
                for i in range(len(contenders)):
                    contender = contenders[(i + turn) % len(contenders)]
                    rate = contender.rate(kind[1], kind[2], arguments.seconds if turn >= 0 else 1, turn)
                    if turn >= 0:
                        rates[kind, contender.name].append(max(rate, 1 / arguments.seconds))
    finally:
        for rival in rivals:
            rival.end()
    print(f"{'':36}{'lockstock / rival':28}a second")
    for kind in KINDS:
        ours = rates[kind, "lockstock"]
        for rival in rivals:
            theirs = rates[kind, rival.name]
            ratio = median_of([a / b for a, b in zip(ours, theirs)])
            print(f"{kind[0]:36}{rival.name + ' ' + ratio:28}"
                  f"{statistics.median(ours):.0f} / {statistics.median(theirs):.0f}")


class Waiters:
    """Threads that hand on one lock, and when each was granted."""

    def __init__(self, path, name):
        self.path, self.name, self.granted, self.ends = str(path), name, [], False
        self.threads = [threading.Thread(target=self.pass_on) for _ in range(WAITERS)]
        for thread in self.threads:
            thread.start()

    def end(self):
        self.ends = True
        for thread in self.threads:
            thread.join()

    def call(self, connection, method, **request):
        """The outcome. Repeats the call after an error, which is safe, as a token is granted once."""
        while True:
            try:
                connection.request("POST", f"/lockstock.v1.LockService/{method}", json.dumps(request),
                                   {"Content-Type": "application/json"})
                answer = connection.getresponse()
                body = json.loads(answer.read())
                if answer.status == 200:
                    return body.get("outcome", "")
                if answer.status < 500:
                    print(f"{method}: {body}", flush=True)
            except (OSError, http.client.HTTPException):
                connection.close()
            time.sleep(0.02)

    def pass_on(self):
        connection = UnixConnection(self.path)
        while not self.ends:
            token = uuid.uuid4().hex
            if self.call(connection, "Acquire", targets=[{"name": self.name}], token=token, leaseMs=LEASE_MS,
                         waitMs=WAIT_MS) == "ACQUIRE_OUTCOME_ACQUIRED":
                self.granted.append(time.monotonic())
                self.call(connection, "Release", group=self.name, token=token)
        connection.close()

    def longest_gap(self, since, until):
        """Seconds without a grant, also of one that began before `since`."""
        times = sorted(self.granted)
        before = [at for at in times if at <= since][-1:]
        within = [*before, *(at for at in times if since < at <= until), until]
        return max(b - a for a, b in zip(within, within[1:]))


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=60)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def fail_over(scene, times):
    calm, killed = [], []
    for turn in range(times):
        waiters = Waiters(scene.http, f"leader-{turn}")
        time.sleep(1.5 * CALM_S)
        leader = next(port for port, mode in scene.members() if mode == "leader")
        at = time.monotonic()
        calm.append(waiters.longest_gap(at - CALM_S, at))
        scene.ask("kill", leader)
        scene.ask("start", leader)
        while not scene.all_serve():
            time.sleep(0.1)
        time.sleep(CALM_S)
        killed.append(waiters.longest_gap(at, time.monotonic()))
        waiters.end()
        print(f"kill {turn + 1}: {killed[-1]:.2f} s; before it {calm[-1]:.2f} s", flush=True)
    print(f"longest time without a grant, after kill -9 of the leader: median {statistics.median(killed):.2f} s, "
          f"greatest {max(killed):.2f} s of {times}")
    print(f"... in the {CALM_S} s before each kill: median {statistics.median(calm):.2f} s, greatest {max(calm):.2f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--failover", type=int, default=0, metavar="TIMES")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        scene = Scene(folder, arguments.build)
        try:
            if arguments.failover:
                fail_over(scene, arguments.failover)
            else:
                compare(scene, arguments)
        finally:
            scene.programs.end()


if __name__ == "__main__":
    sys.exit(main())
