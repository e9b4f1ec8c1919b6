"""Programs that a test in Python starts: lockstockd, redis-server and others. Their output is printed if the test fails."""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

LIMIT_S = 60


def wait_until(condition, seen=str):
    """Returns what the condition gives. `seen` says what there is instead, when it does not come."""
    deadline = time.monotonic() + LIMIT_S
    while not (value := condition()):
        assert time.monotonic() < deadline, f"it does not come: {seen()}"
        time.sleep(0.005)
    return value


def make_certificate(key, certificate, name="localhost"):
    """Files of a self-signed certificate."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1",
                    "-keyout", key, "-out", certificate, "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}"],
                   check=True, stderr=subprocess.DEVNULL)


class Program:
    """{dir} in its arguments is its temporary directory, where its output is the file `log`."""
    running = []

    def __init__(self, *command, ready="", **options):
        self.dir = tempfile.mkdtemp(prefix="lc-", dir="/tmp")  # the path of a unix socket must be short
        with open(f"{self.dir}/log", "w") as log:
            self.process = subprocess.Popen([str(word).replace("{dir}", self.dir) for word in command], stdout=log,
                                            stderr=subprocess.STDOUT, **options)
        self.running.append(self)
        try:
            self.await_log(ready)
        except AssertionError:
            self.end(signal.SIGKILL)
            raise

    def log(self):
        with open(f"{self.dir}/log") as log:
            return log.read()

    def await_log(self, pattern):
        """Returns the first match in its output."""

        def found():
            code, match = self.process.poll(), re.search(pattern, self.log())
            assert match or code is None, f"{self.process.args[0]} has ended with {code}: {self.log()}"
            return match

        return wait_until(found, self.log)

    def children(self):
        pid = self.process.pid
        with open(f"/proc/{pid}/task/{pid}/children") as children:
            return [int(child) for child in children.read().split()]

    def end(self, number):
        """Returns its exit code."""
        if self in self.running:
            self.running.remove(self)
            self.process.send_signal(number)
            self.process.wait(LIMIT_S)
            shutil.rmtree(self.dir)
        return self.process.returncode

    def stop(self):
        self.end(signal.SIGTERM)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind:
            self.print_log()
        self.stop()

    def print_log(self):
        print(f"The output of {self.process.args[0]}:\n{self.log()}", file=sys.stderr)


class Server(Program):
    """lockstockd. Its locks are in the ensemble that the environment names, if it does (on_set.py)."""

    def __init__(self, program, *flags, listen="unix://{dir}/s", store="embedded:{dir}/data", comes=r"event=ready\b",
                 **options):
        hosts = os.environ.get("LOCKSTOCK_TEST_ENSEMBLE")
        locks = ("--lock-store", f"zookeeper://{hosts}{{dir}}") if hosts else ()
        fsync = () if "--fsync" in flags else ("--fsync", "everysec")
        super().__init__(program, "--listen", listen, "--store", store, *fsync, *locks, *flags, ready=comes, **options)
        urls = re.findall(r"event=listening.*url=(\S+)", self.log())
        self.url = urls[0]
        self.address = dict(url.split("://") for url in urls)  # by scheme

    def port(self, scheme):
        return int(self.address[scheme].rpartition(":")[2])

    def stop(self):
        code = self.end(signal.SIGTERM)
        assert code == 0, code


class Redis(Program):
    def __init__(self, *settings):
        super().__init__("redis-server", "--port", "0", "--unixsocket", "{dir}/r", "--dir", "{dir}",
                         *(settings or ("--appendonly", "yes")), ready="ccept connections",
                         restore_signals=False)  # SIGXFSZ stays ignored: a write that is too long fails
        self.url = f"unix://{self.dir}/r"

    def stop(self):
        self.end(signal.SIGKILL)


class Result(unittest.TextTestResult):
    """Prints the output of the programs that run when a test fails."""

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.print_logs()

    def addError(self, test, err):
        super().addError(test, err)
        self.print_logs()

    def print_logs(self):
        for program in Program.running:
            program.print_log()
