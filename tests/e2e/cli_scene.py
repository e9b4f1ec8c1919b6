"""lockstock, the command line, and a lockstockd of a test's own: what cli_*.py share."""
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

LOCKSTOCK, LOCKSTOCKD = sys.argv[1:3]
LIMIT_S = 60
OK, REFUSED, USAGE, UNAVAILABLE, UNKNOWN, OTHER = range(6)


def wait_until(condition, seen=str):
    """`seen` says what there is instead, when it does not come."""
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, f"it does not come: {seen()}"
        time.sleep(0.005)


def gone(pid):
    """It has ended (a zombie has), or was never there."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] in "ZX"
    except OSError:
        return True


class Terminal:
    """A program at a terminal of its own, which it controls."""

    def __init__(self, *args, env, rows=24, columns=100, kind="xterm"):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            os.execvpe(args[0], args, {**env, "TERM": kind})
        self.text = ""
        self.status = None

    def read(self):
        """False at the end."""
        try:
            data = os.read(self.fd, 65536)
        except OSError:
            return False
        self.text += data.decode(errors="replace")
        return bool(data)

    def wait(self, pattern, at=0):
        """What matches behind `at`, once it is there."""
        deadline = time.monotonic() + LIMIT_S
        while not (found := re.compile(pattern).search(self.text, at)):
            left = deadline - time.monotonic()
            assert left > 0 and select.select([self.fd], [], [], left)[0] and self.read(), repr(self.text[at:][-600:])
        return found

    def type(self, keys):
        os.write(self.fd, keys.encode())

    def resize(self, rows, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def end(self):
        """Its exit code, or minus the signal, once it ends by itself."""
        deadline = time.monotonic() + LIMIT_S
        while select.select([self.fd], [], [], max(0, deadline - time.monotonic()))[0] and self.read():
            pass
        assert time.monotonic() < deadline, repr(self.text)
        self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self.fd)
        return self.status

    def close(self):
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            os.close(self.fd)


class Server:
    """Its locks are in the ensemble that the environment names, if it does (tests/quorum/on_zookeeper.sh)."""

    def __init__(self, *args, listen="unix://{dir}/s", store="embedded:{dir}/data", fsync="everysec",
                 comes="event=ready"):
        self.dir = tempfile.mkdtemp(prefix="lc-", dir="/tmp")
        hosts = os.environ.get("LOCKSTOCK_TEST_ENSEMBLE")
        if hosts:
            args += ("--lock-store", f"zookeeper://{hosts}{self.dir}")
        with open(f"{self.dir}/log", "w") as log:
            self.process = subprocess.Popen(
                [LOCKSTOCKD, "--listen", listen.format(dir=self.dir), "--store", store.format(dir=self.dir),
                 "--fsync", fsync, *args], stdout=log, stderr=subprocess.STDOUT)
        try:
            wait_until(lambda: comes in self.log() or self.process.poll() is not None)
            assert self.process.poll() is None, "it has ended"
        except AssertionError as why:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"{why}: {self.log()}") from None
        self.url = re.search(r"event=listening.*url=(\S+)", self.log()).group(1)

    def log(self):
        with open(f"{self.dir}/log") as log:
            return log.read()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(LIMIT_S)
        subprocess.run(["rm", "-rf", self.dir], check=True)
        assert code == 0, code


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
    sys.exit(not unittest.TextTestRunner().run(suite).wasSuccessful())
