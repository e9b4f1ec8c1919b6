#!/usr/bin/env python3
# promise K18: a namespace at its quota gets no more calls that take, by the count of the last complete pass; other
#   namespaces, reads, and calls that keep or end continue
"""Quotas of a namespace: what it stores and how many of its calls wait.

    cli_quotas.py LOCKSTOCK LOCKSTOCKD
"""
import subprocess

from cli_scene import LOCKSTOCK, Case, Server, main, wait_until

KEYS, BYTES = 20, 10_000


class Quotas(Case):
    def fill(self, *settings):
        """Takes locks until one is refused. Returns the server, the locks and the message of the refusal."""
        server = Server(*settings)
        self.addCleanup(server.stop)
        self.env["LOCKSTOCK_SERVER"] = server.url
        held = []

        def is_refused():
            name, token = f"l{len(held)}", f"a-token-of-16-bytes-{len(held)}"
            self.refusal = self.run_cli("lock", "acquire", name, "--token", token, "--lease", "10m", code=None)[1]
            if self.code == 0:
                held.append((name, token))
            return self.code != 0

        wait_until(is_refused)
        return server, held

    def test_keys(self):
        server, held = self.fill("--namespace-keys", str(KEYS))
        self.assertRegex(self.refusal, rf'the namespace "test_keys" has stored \d+ keys; its quota is {KEYS} \(RESOURCE_EXHAUSTED\)')
        self.assertIn("event=over-quota namespace=test_keys", server.log())
        # Others have their own quota, reads still work, and held locks stay and can be released.
        self.out("lock", "acquire", "door", "--lease", "1m", "--namespace", "other")
        self.assertIn("l0", self.out("lock", "ls"))
        self.out("lock", "renew", f"--lease=names=l0,token={held[0][1]},lease=10m")
        for name, _ in held:
            self.out("lock", "force-release", name)
        self.assertNotIn("within-quota", server.log())

    def test_bytes(self):
        self.fill("--namespace-bytes", str(BYTES))
        self.assertRegex(self.refusal, rf'has stored \d+ bytes; its quota is {BYTES}')

    def test_a_namespace_that_deletes_may_store_again(self):
        server = Server("--namespace-keys", "4")
        self.addCleanup(server.stop)
        self.env["LOCKSTOCK_SERVER"] = server.url
        begin = ("idempotency", "begin", "scope", "--attempt-token", "a-token-of-16-bytes", "--lease", "10m", "--key")
        for key in "abcd":
            self.out(*begin, key)
        wait_until(lambda: "event=over-quota" in server.log())
        self.assertIn("its quota is 4", self.run_cli(*begin, "e", code=None)[1])
        error = self.failure(*begin, "e", code=None)
        self.assertEqual((error["code"], error["reason"]), ("RESOURCE_EXHAUSTED", "quota_exceeded"))
        for key in "abcd":
            self.out("idempotency", "delete", "scope", key)
        wait_until(lambda: "event=within-quota" in server.log())
        self.out(*begin, "e")

    def test_waiters(self):
        server = Server("--namespace-waiters", "1")
        self.addCleanup(server.stop)
        self.env["LOCKSTOCK_SERVER"] = server.url
        self.out("lock", "acquire", "door", "--token", "a-token-of-16-bytes", "--lease", "10m")
        wait = ("lock", "acquire", "door", "--lease", "1m", "--wait", "10m")
        with subprocess.Popen([LOCKSTOCK, *wait], env=self.env, stdout=subprocess.DEVNULL) as waiter:
            wait_until(lambda: self.json("lock", "inspect", "door")["waiters"] == "1")
            self.assertIn('the waiting calls of the namespace "test_waiters" have reached its quota of 1',
                          self.run_cli(*wait, code=None)[1])
            # One that reads waits, too.
            self.assertIn("have reached its quota of 1", self.run_cli("stock", "read-ledger", "--group", "g", "--wait", "1s", code=None)[1])
            self.out("lock", "acquire", "door", "--token", "a-token-of-16-bytes", "--lease", "10m", "--namespace", "other")
            self.out("lock", "release", "door", "--token", "a-token-of-16-bytes")
            self.assertEqual(waiter.wait(), 0)
        wait_until(lambda: "timed-out" in self.run_cli(*wait[:-1], "1ms", code=None)[0])


if __name__ == "__main__":
    main()
