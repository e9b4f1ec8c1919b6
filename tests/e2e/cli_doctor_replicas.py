#!/usr/bin/env python3
# promise CL6
"""What lockstock doctor, AdminService and the log report about replicas, on real sets of redis-servers.

    cli_doctor_replicas.py LOCKSTOCK LOCKSTOCKD
"""
import json
import os
import pathlib
import signal
import subprocess

from cli_scene import REFUSED, UNAVAILABLE, Case, Server, main, wait_until
from servers import Program

SET_SH = pathlib.Path(__file__).parents[2] / "packaging/redis-set.sh"


class RedisSet(Program):
    def __init__(self, *args):
        super().__init__(SET_SH, args[0], "{dir}/set", *args[1:], ready="(?m)^ready$")

    def tell(self, command, *args):
        return subprocess.run([SET_SH, command, f"{self.dir}/set", *map(str, args)], stdout=subprocess.PIPE,
                              check=True).stdout.decode().strip()

    def nodes(self, role):
        """Port and pid of each."""
        rows = [line.split() for line in self.tell("nodes").splitlines()]
        return [(int(port), int(pid)) for port, _, pid, is_now in rows if is_now == role]


class Replicas(Case):
    @classmethod
    def setUpClass(cls):
        pass

    @classmethod
    def tearDownClass(cls):
        pass

    def setUp(self):
        pass

    def begin(self, set_of, *args, store=None, comes="event=ready"):
        self.server = Server(*args, store=store or set_of.tell("url"), comes=comes)
        self.addCleanup(self.server.stop)
        Case.setUp(self)

    def set_of(self, *args):
        redis_set = RedisSet(*args)
        self.addCleanup(redis_set.stop)
        return redis_set

    def findings(self, about, code=None):
        """Level and text of each that is about that, and the remedies."""
        out, err = self.run_cli("doctor", "--json", code=code)
        self.assertEqual(err, "")
        found = [line for line in map(json.loads, out.splitlines()) if line["about"] == about]
        return [(line["level"], line["text"]) for line in found], " ".join(line["remedy"] for line in found)

    def wait_finding(self, about, level, *words):
        wait_until(lambda: any(found == level and all(word in text for word in words)
                               for found, text in self.findings(about)[0]), seen=lambda: self.findings(about)[0])

    def test_sentinel(self):
        redis_set = self.set_of("sentinel")
        (primary, primary_pid), = redis_set.nodes("master")
        (first, first_pid), (second, second_pid) = redis_set.nodes("slave")
        self.begin(redis_set, "--wait-replicas", "2")
        self.wait_finding("replicas", "ok", f"127.0.0.1:{primary}", f"127.0.0.1:{first} ", f"127.0.0.1:{second} ",
                          "bytes behind", "last heard of")
        self.assertIn(f"event=store-replicas primary=127.0.0.1:{primary} connected=2", self.server.log())
        self.wait_finding("sentinels", "ok", "all 3 answer")
        self.assertEqual(self.findings("failover")[0], [])
        status, = self.json("admin", "status")["store"]["primaries"]
        self.assertEqual((status["address"], status["tellsReplicas"], status["minReplicasToWrite"],
                          status["minReplicasMaxLagMs"]), (f"127.0.0.1:{primary}", True, "0", "10000"))
        self.assertEqual({one["address"] for one in status["replicas"]},
                         {f"127.0.0.1:{first}", f"127.0.0.1:{second}"})

        # One is frozen: it stays connected, and confirms nothing.
        os.kill(first_pid, signal.SIGSTOP)
        self.wait_finding("replicas", "problem", f"127.0.0.1:{first} ", "last heard of")
        wait_until(lambda: "event=store-replica-lags" in self.server.log())
        self.assertIn(f"replica=127.0.0.1:{first}", self.server.log())
        os.kill(first_pid, signal.SIGCONT)
        self.wait_finding("replicas", "ok", f"127.0.0.1:{first} ")

        redis_set.tell("kill", second)
        self.wait_finding("replicas", "problem", "1 of the 2 replicas that --wait-replicas asks for")
        stores, remedy = self.findings("store", code=UNAVAILABLE)
        self.assertEqual(stores, [("problem", "is not ready: the store has 1 replicas, --wait-replicas asks for 2")])
        self.assertIn("start the missing replicas", remedy)
        self.assertIn("event=store-replica-lost primary=127.0.0.1:%d connected=1 before=2" % primary, self.server.log())
        redis_set.tell("start", second)
        self.wait_finding("replicas", "ok", f"127.0.0.1:{second} ")

        # Another primary takes over, which is shown then.
        now = redis_set.tell("failover")
        redis_set.tell("wait")
        self.wait_finding("replicas", "ok", f"127.0.0.1:{now}:", f"127.0.0.1:{primary} ")

    def test_sentinel_that_may_lose(self):
        redis_set = self.set_of("sentinel", "--replicas", "1")
        (primary, _), = redis_set.nodes("master")
        self.begin(redis_set)
        self.assertIn(f"event=store-may-lose primary=127.0.0.1:{primary}", self.server.log())
        found, remedy = self.findings("failover", code=REFUSED)
        self.assertEqual([level for level, _ in found], ["warning"])
        self.assertIn("--wait-replicas", remedy)
        redis_set.tell("cli", primary, "CONFIG", "SET", "min-replicas-to-write", "1")
        self.begin(redis_set)
        self.assertNotIn("event=store-may-lose", self.server.log())
        self.assertEqual([level for level, _ in self.findings("failover")[0]], ["note"])
        self.wait_finding("replicas", "ok", "min-replicas-to-write 1")
        redis_set.tell("kill", redis_set.nodes("slave")[0][0])
        self.wait_finding("replicas", "problem", "0 of the 1 replicas that min-replicas-to-write asks for")

    def test_cluster(self):
        redis_set = self.set_of("cluster")
        primaries = {port for port, _ in redis_set.nodes("master")}
        self.begin(redis_set)
        for port in primaries:
            wait_until(lambda port=port: f"event=store-replicas primary=127.0.0.1:{port} connected=1"
                       in self.server.log())
            self.assertIn(f"event=store-may-lose primary=127.0.0.1:{port}", self.server.log())
            self.wait_finding("replicas", "ok", f"127.0.0.1:{port}: ")
        self.assertEqual(len(self.findings("replicas", code=REFUSED)[0]), 3)
        self.assertEqual([level for level, _ in self.findings("failover")[0]], ["warning"])
        redis_set.tell("kill", redis_set.nodes("slave")[0][0])
        self.wait_finding("replicas", "warning", "has no replica")
        self.assertEqual(sorted(level for level, _ in self.findings("replicas")[0]), ["ok", "ok", "warning"])

    def test_redis(self):
        redis_set = self.set_of("sentinel", "--replicas", "1", "--sentinels", "1")
        (primary, _), = redis_set.nodes("master")
        self.begin(redis_set, "--wait-replicas", "1", store=f"redis://127.0.0.1:{primary}")
        # Some bytes are on their way nearly always: WAIT's own question to the replica is 37 of them.
        self.wait_finding("replicas", "ok", f"127.0.0.1:{primary}: ", " bytes behind")
        self.assertEqual(self.findings("failover")[0], [])
        redis_set.tell("kill", redis_set.nodes("slave")[0][0])
        self.wait_finding("replicas", "problem", "0 of the 1 replicas that --wait-replicas asks for")


if __name__ == "__main__":
    main()
