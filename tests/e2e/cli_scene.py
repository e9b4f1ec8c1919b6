"""lockstock, the command line, and a lockstockd of a test's own: what cli_*.py share."""
import functools
import json
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../support"))
from servers import LIMIT_S, Result, wait_until  # noqa: E402
from terminal import Terminal  # noqa: E402,F401
import servers  # noqa: E402

LOCKSTOCK, LOCKSTOCKD = sys.argv[1:3]
Server = functools.partial(servers.Server, LOCKSTOCKD)
OK, REFUSED, USAGE, UNAVAILABLE, UNKNOWN, OTHER = range(6)


def gone(pid):
    """It has ended (a zombie has), or was never there."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] in "ZX"
    except OSError:
        return True


class Case(unittest.TestCase):
    """One server for all tests of a class; each test has a namespace of its own."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server()

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def setUp(self):
        self.env = {**{name: value for name, value in os.environ.items() if not name.startswith("LOCKSTOCK_")},
                    "HOME": self.server.dir, "LOCKSTOCK_SERVER": self.server.url,
                    "LOCKSTOCK_NAMESPACE": self.id().rsplit(".", 1)[1][:60]}
        self.env.pop("XDG_CONFIG_HOME", None)

    def run_cli(self, *args, code=OK, env=None, stdin=b""):
        """Returns its output and its errors; self.code is its exit code."""
        done = subprocess.run([LOCKSTOCK, *args], input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env={**self.env, **(env or {})}, timeout=LIMIT_S, check=False)
        out, err, self.code = done.stdout.decode(), done.stderr.decode(), done.returncode
        if code is not None:
            self.assertEqual(self.code, code, f"{args}: {out}{err}")
        if code == OK:
            self.assertEqual(err, "")
        self.assertNotIn("Sanitizer", err)  # whose exit code is that of a refusal
        return out, err

    def out(self, *args, **kwargs):
        return self.run_cli(*args, **kwargs)[0]

    def err(self, *args, code, **kwargs):
        """One line; of a call that failed with --json, JSON."""
        err = self.run_cli(*args, code=code, **kwargs)[1]
        self.assertRegex(err, r'\A(lockstock: |{"error":)[^\n]+\n\Z')
        return err

    def json(self, *args, **kwargs):
        return json.loads(self.out(*args, "--json", **kwargs))

    def failure(self, *args, code, **kwargs):
        """Returns the error that --json prints for a failed call."""
        return json.loads(self.run_cli(*args, "--json", code=code, **kwargs)[1])["error"]

    def start(self, *args, **kwargs):
        return subprocess.Popen([LOCKSTOCK, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, env=self.env, **kwargs)


def main():
    """LOCKSTOCK_TEST_ONLY, a pattern of * and ?, chooses some of the tests by their names."""
    only = Case.only = os.environ.pop("LOCKSTOCK_TEST_ONLY", "*")
    loader = unittest.TestLoader()
    loader.testNamePatterns = [f"*.{only}"]
    suite = loader.loadTestsFromModule(sys.modules["__main__"])
    print(f"Running {suite.countTestCases()} test(s)", flush=True)
    sys.exit(not unittest.TextTestRunner(resultclass=Result).run(suite).wasSuccessful())
