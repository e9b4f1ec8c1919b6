"""A lock that a Python program holds passes to a C program and a Node program in the order of their requests:
in_turn.py LOCKSTOCK NODE_DRIVER. C is `lockstock run`, on the C client."""
import subprocess
import sys
import threading
import unittest

import lockstock
import lockstock.testing
from lockstock.v1 import lock_pb2

from run import Program

LOCKSTOCK, NODE_DRIVER = sys.argv[1:3]


class InTurn(unittest.TestCase):
    def setUp(self):
        self.server = lockstock.testing.server()
        self.addCleanup(self.server.close)
        self.ls = lockstock.connect(self.server.url)
        self.addCleanup(self.ls.close)

    def run_c(self):
        """`cat` holds the lock until its standard input ends."""
        process = subprocess.Popen([LOCKSTOCK, "run", "--server", self.server.url, "--lock", "x", "--wait", "100s", "--",
                                    "sh", "-c", "echo $LOCKSTOCK_FENCE; exec cat"],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        return lambda: int(process.stdout.readline()), process.stdin.close

    def run_node(self):
        program = Program(["node", NODE_DRIVER])
        self.addCleanup(program.close)
        program.ask("connect", client="c", url=self.server.url)
        granted = program.start("lock", client="c", id="x", names=["x"], lease=60, wait=100)
        return lambda: granted().fence, lambda: program.ask("release", id="x")

    def when_waiting(self, count):
        while self.ls.calls.lock.inspect(lock_pb2.InspectRequest(name="x")).waiters != count:
            threading.Event().wait(0.02)

    def test_python_then_c_then_node_and_the_other_way_round(self):
        for order in ((self.run_c, self.run_node), (self.run_node, self.run_c)):
            with self.ls.lock("x", lease=60, wait=100) as held:
                waiting = []
                for run in order:
                    waiting.append(run())
                    self.when_waiting(len(waiting))
            (first_fence, release_first), (second_fence, release_second) = waiting
            fence = first_fence()
            self.assertGreater(fence, held.fence)
            self.when_waiting(1)  # the second has not got it
            release_first()
            self.assertGreater(second_fence(), fence)
            release_second()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
