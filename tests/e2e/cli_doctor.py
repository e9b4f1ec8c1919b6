#!/usr/bin/env python3
# promise CL6
"""lockstock doctor, and what a server reports about its store (AdminService).

    cli_doctor.py LOCKSTOCK LOCKSTOCKD
"""
import contextlib
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import tempfile

from cli_scene import LOCKSTOCK, LOCKSTOCKD, OK, OTHER, REFUSED, UNAVAILABLE, USAGE, Case, Server, main, wait_until
from servers import Redis, make_certificate


@contextlib.contextmanager
def manager():
    """Acts as systemd, and keeps the last STATUS that it received."""
    with tempfile.TemporaryDirectory(prefix="ld-", dir="/tmp") as path, \
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(f"{path}/n")
        heard.setblocking(False)
        last = [""]

        def status():
            with contextlib.suppress(BlockingIOError):
                while True:
                    last[0] = heard.recv(4096).decode().split("STATUS=")[-1]
            return last[0]

        os.environ["NOTIFY_SOCKET"] = f"{path}/n"
        try:
            yield status
        finally:
            del os.environ["NOTIFY_SOCKET"]


class Doctor(Case):
    def findings(self, *args, server=None, code=OK):
        """Each as "level about", and all by what they are about. A latency that is too long is the machine's: how it is
        judged is tested by unit/test_diagnosis."""
        out, err = self.run_cli("doctor", "--json", *args, env={"LOCKSTOCK_SERVER": server} if server else None, code=None)
        self.assertEqual(err, "")
        lines = [json.loads(line) for line in out.splitlines()]
        for line in lines:
            self.assertEqual(set(line), {"server", "level", "about", "text", "remedy"})
            self.assertEqual(line["level"] == "ok", not line["remedy"], line)
        slow = any((line["about"], line["level"]) == ("latency", "warning") for line in lines)
        self.assertEqual(self.code, REFUSED if slow and code == OK else code, out)
        return ([f"{line['level']} {line['about']}" for line in lines if line["about"] != "latency"],
                {line["about"]: line for line in lines})

    def test_version_and_commit_are_reported(self):
        status = self.json("admin", "get-status")
        said = f"{status['version']} ({status['commit']})" if status.get("commit") else status["version"]
        for program in (LOCKSTOCK, LOCKSTOCKD):
            out = subprocess.run([program, "--version"], capture_output=True, check=True).stdout.decode()
            self.assertEqual(out, f"{os.path.basename(program)} {said}\n")
        self.assertIn(f"lockstockd {said}, up", self.findings()[1]["server"]["text"])

    def test_nothing_is_wrong(self):
        levels, by = self.findings()
        self.assertEqual(levels, ["ok server", "ok store", "note persistence", "ok clock"])
        self.assertIn("once a second", by["persistence"]["text"])
        self.assertIn("redis-server, Redis 7.", by["store"]["text"])
        self.assertRegex(by["latency"]["text"], r"\d ms")
        out, err = self.run_cli("doctor", code=None)
        self.assertEqual(err, "")
        self.assertEqual(out.splitlines()[0], self.server.url)
        self.assertRegex(out, r"\n  ok +server +lockstockd \d.*, up for .*\n")
        self.assertRegex(out, r"\n  note +persistence +the store .*\n +-> run lockstockd with --fsync always.*\n")
        self.assertIn("event=audit", self.server.log())

    def test_an_embedded_store_whose_files_were_removed(self):
        with Server("--fsync", "always") as server:
            shutil.rmtree(os.path.join(server.dir, "data", "appendonlydir"))
            levels, by = self.findings(server=server.url, code=REFUSED)
            self.assertIn("problem persistence", levels)
            self.assertIn("BGREWRITEAOF", by["persistence"]["remedy"])
            subprocess.run(["redis-cli", "-s", os.path.join(server.dir, "data", "redis.sock"), "BGREWRITEAOF"], check=True,
                           stdout=subprocess.DEVNULL)
            wait_until(lambda: os.path.exists(os.path.join(server.dir, "data", "appendonlydir", "appendonly.aof.manifest")))
            self.assertIn("ok persistence", self.findings(server=server.url)[0])

    def test_admin_status_describes_the_store(self):
        status = self.json("admin", "status")
        self.assertEqual([status["store"][name] for name in ("kind", "ready", "reason", "persistence", "fsync", "evicts")],
                         ["STORE_KIND_EMBEDDED", True, "", "PERSISTENCE_APPEND_ONLY", "FSYNC_EVERYSEC", False])
        self.assertGreater(int(status["store"]["atMs"]), 1704067200000)
        self.assertGreater(int(status["store"]["roundTripUs"]), 0)

    def test_a_server_that_is_away(self):
        away = "unix:///nonexistent/s"
        levels, by = self.findings("--timeout", "100ms", server=f"{away},{self.server.url}", code=UNAVAILABLE)
        self.assertEqual(levels[:2], ["problem server", "ok server"])
        self.assertIn("No such file", next(line for line in self.run_cli(
            "doctor", "--timeout", "100ms", "--server", away, code=UNAVAILABLE)[0].splitlines() if "problem" in line))
        self.assertEqual(by["server"]["server"], self.server.url)
        self.err("doctor", "--server", "tpc://x", code=USAGE)
        self.err("doctor", "all", code=USAGE)
        self.assertIn("Exits with 0", self.out("doctor", "--help"))

    def test_a_store_that_keeps_nothing_and_evicts(self):
        with Redis("--save", "", "--appendonly", "no", "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru") as store, \
                Server("--allow-unsafe-store", store=store.url) as server:
            levels, by = self.findings(server=server.url, code=REFUSED)
            self.assertEqual(levels, ["ok server", "ok store", "problem persistence", "problem memory", "ok clock"])
            self.assertIn("appendonly yes", by["persistence"]["remedy"])
            self.assertIn("noeviction", by["memory"]["remedy"])

    def test_a_store_with_snapshots_only(self):
        with Redis("--save", "3600 1", "--appendonly", "no") as store, Server(store=store.url) as server:
            levels, by = self.findings(server=server.url, code=REFUSED)
            self.assertIn("warning persistence", levels)
            self.assertEqual(by["store"]["text"][:13], "ready, Redis ")

    def test_a_store_that_has_gone(self):
        with Redis() as store, Server(store=store.url) as server:
            store.process.kill()
            store.process.wait()
            wait_until(lambda: "event=not-ready" in server.log())
            levels, by = self.findings(server=server.url, code=UNAVAILABLE)
            self.assertEqual(levels[:2], ["ok server", "problem store"])
            self.assertIn("is not ready", by["store"]["text"])
            self.assertEqual(self.refused_with(server), "store_unreachable")

    def test_a_store_that_is_frozen(self):
        with Redis() as store, Server(store=store.url) as server:
            store.process.send_signal(signal.SIGSTOP)
            levels, by = self.findings("--timeout", "300ms", server=server.url, code=UNAVAILABLE)
            self.assertEqual(levels[:2], ["ok server", "problem store"])
            self.assertIn("does not answer", by["store"]["text"])
            self.says(server, "the store does not answer", UNAVAILABLE, "store_silent")
            self.err("lock", "ls", "--timeout", "5s", env={"LOCKSTOCK_SERVER": server.url}, code=UNAVAILABLE)
            store.process.send_signal(signal.SIGCONT)
            wait_until(lambda: server.log().count("event=ready") == 2, server.log)
            self.assertEqual(server.log().count('event=not-ready reason="the store does not answer"'), 1, server.log())
            self.is_well(server)

    def refused_with(self, server, code=UNAVAILABLE):
        """The reason of a call."""
        to = {"LOCKSTOCK_SERVER": server.url}
        return self.failure("lock", "acquire", "door", "--lease", "1m", env=to, code=code)["reason"]

    def says(self, server, reason, code, word):
        """The log, once, the server itself, status and doctor."""
        wait_until(lambda: reason in server.log(), server.log)
        to = {"LOCKSTOCK_SERVER": server.url}
        told = self.json("admin", "status", env=to)
        self.assertEqual([(one["about"], one["text"]) for one in told["conditions"]], [("store", reason)])
        self.assertEqual((told["store"]["reason"], told["store"]["reasonWord"]), (reason, word))
        self.assertIn(f'reason="{reason}" reason_word={word}', server.log())
        status = json.loads(self.run_cli("status", "--json", env=to, code=code)[0])
        self.assertEqual((status["why"], status["reason"]), (reason, word))
        self.assertIn(reason, self.run_cli("status", env=to, code=code)[0])
        levels, by = self.findings(server=server.url, code=code or REFUSED)
        self.assertIn("problem store", levels)
        self.assertNotIn("ok persistence", levels)
        self.assertIn(reason, by["store"]["text"])

    def is_well(self, server):
        to = {"LOCKSTOCK_SERVER": server.url}
        self.assertEqual(self.json("admin", "status", env=to)["conditions"], [])
        self.assertRegex(self.out("status", env=to), r"up, [\d.]+ ms +up, [\d.]+ ms *\n$")
        self.findings(server=server.url)

    def test_a_store_whose_memory_is_full(self):
        with Redis() as store, manager() as status, Server(store=store.url) as server:
            ask = ["redis-cli", "-s", f"{store.dir}/r", "CONFIG", "SET", "maxmemory"]
            subprocess.run([*ask, "1"], check=True, stdout=subprocess.DEVNULL)
            self.says(server, "the store is out of memory", OK, "store_out_of_memory")
            self.assertEqual(self.refused_with(server), "store_out_of_memory")
            wait_until(lambda: status() == "ready, but the store is out of memory", status)
            self.assertEqual(server.log().count("event=store-degraded"), 1)
            self.assertNotIn("event=not-ready", server.log())
            subprocess.run([*ask, "0"], check=True, stdout=subprocess.DEVNULL)
            wait_until(lambda: status() == "ready", status)
            self.is_well(server)

    def test_a_store_whose_disk_is_full(self):
        with Redis() as store, manager() as status, Server(store=store.url) as server:
            most, _ = resource.prlimit(store.process.pid, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
            subprocess.run(["redis-cli", "-s", f"{store.dir}/r", "SET", "foreign", "1"], check=True, stdout=subprocess.DEVNULL)
            self.says(server, "the store cannot write its data to disk", UNAVAILABLE, "store_disk_failed")
            self.assertEqual(self.refused_with(server), "store_disk_failed")
            wait_until(lambda: status() == "not ready: the store cannot write its data to disk", status)
            resource.prlimit(store.process.pid, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
            wait_until(lambda: status() == "ready", status)
            self.is_well(server)

    def test_a_store_that_was_emptied(self):
        with Redis() as store, manager() as status, Server(store=store.url) as server:
            ask, to = ["redis-cli", "-s", f"{store.dir}/r"], {"LOCKSTOCK_SERVER": server.url}
            subprocess.run([*ask, "FLUSHALL"], check=True, stdout=subprocess.DEVNULL)
            wait_until(lambda: 'event=store-lost-data reason="all data of the store was lost' in server.log(), server.log)
            self.assertIn("\nlockstock_store_losses_total 1\n", self.out("metrics", "--raw", env=to))
            wait_until(lambda: status().startswith("ready, but all data of the store was lost"), status)
            self.assertIn("all data of the store was lost", self.out("status", env=to))
            levels, by = self.findings(server=server.url, code=REFUSED)
            self.assertIn("warning data", levels)
            self.assertIn("restore a backup", by["data"]["remedy"])
            self.assertEqual(subprocess.check_output([*ask, "GET", "ls:{meta}:schema"]), b"3\n")
            self.assertEqual(server.log().count("event=store-lost-data"), 1)

    def test_a_certificate_that_ends(self):
        with tempfile.TemporaryDirectory(prefix="ld-", dir="/tmp") as path:
            make_certificate(f"{path}/key", f"{path}/pem")
            with Server("--listen", "tls://127.0.0.1:0", "--tls-certificate", f"{path}/pem", "--tls-key",
                        f"{path}/key") as server:
                text = "the certificate of --tls-certificate ends at "
                self.assertIn(text, self.out("status", env={"LOCKSTOCK_SERVER": server.url}))
                levels, by = self.findings(server=server.url, code=REFUSED)
                self.assertIn("warning certificate", levels)
                self.assertIn(text, by["certificate"]["text"])
                self.assertEqual(server.log().count("event=certificate-ends"), 1)

    def test_servers_that_differ(self):
        text = "another server on this store differs: wait-ms is 900 there and 1000 here"
        with Redis() as store, Server(store=store.url) as one:
            with Server("--wait-ms", "900", "--in-flight", "77", store=store.url) as other:
                wait_until(lambda: f'event=servers-differ reason="{text}"' in one.log(), one.log)
                wait_until(lambda: "wait-ms is 1000 there and 900 here" in other.log(), other.log)
                self.assertIn(text, self.out("status", env={"LOCKSTOCK_SERVER": one.url}))
                levels, by = self.findings(server=f"{one.url}", code=REFUSED)
                self.assertIn("warning servers", levels)
                self.assertEqual(by["servers"]["text"], text)
            wait_until(lambda: "event=servers-agree" in one.log(), one.log)
            # A server that starts ignores the note of one that has ended.
            with Server(store=store.url) as third:
                self.assertEqual(third.log().count("servers-differ"), 0)
            self.assertEqual(one.log().count("event=servers-differ"), 1)
            self.is_well(one)

    def test_a_wrong_password_of_the_store(self):
        with Redis("--appendonly", "yes", "--requirepass", "right") as store, \
                Server(store=f"unix://:wrong@{store.dir}/r", comes="event=not-ready") as server:
            levels, by = self.findings(server=server.url, code=UNAVAILABLE)
            self.assertEqual(levels[:2], ["ok server", "problem store"])
            self.assertIn("refuses the credentials", by["store"]["text"])
            self.assertIn("--store", by["store"]["remedy"])
            self.assertEqual(self.refused_with(server), "store_login_refused")
            self.assertNotIn("wrong", json.dumps(by))

    def test_a_caller_without_admin_rights(self):
        with tempfile.TemporaryDirectory(prefix="ld-", dir="/tmp") as path:
            with open(f"{path}/policy", "w") as policy:
                policy.write(f"[reader]\nuid = {os.getuid()}\n* = READ\n")
            with Server("--policy", f"{path}/policy") as server:
                levels, by = self.findings(server=server.url)
                self.assertEqual(levels, ["ok server", "note rights", "ok store"])
                self.assertIn("ADMIN of AdminService", by["rights"]["remedy"])
                self.run_cli("admin", "status", "--server", server.url, code=OTHER)
            with open(f"{path}/policy", "w") as policy:
                policy.write("[other]\nuid = 4000000000\n* = READ\n")
            with Server("--policy", f"{path}/policy") as server:
                levels, by = self.findings(server=server.url, code=REFUSED)
                self.assertEqual(levels, ["problem server"])
                self.assertIn("--token-file", by["server"]["remedy"])


if __name__ == "__main__":
    main()
