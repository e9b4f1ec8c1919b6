#!/usr/bin/env python3
"""examples/show plays its sale to the end whatever is killed meanwhile: each side accounts for every buyer, lockstock's is
exact, and no process or file is left. Time, and how often the naive shop oversells, are not checked.

    show.py SHOW CLIENT LOCKSTOCKD
"""
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest

SHOW = [sys.argv[1], "--client", sys.argv[2], "--lockstockd", sys.argv[3]]
PATIENCE_S = 100
SMALL = ["--buyers", "240", "--phones", "200", "--seconds", "3"]


def number(text):
    return int(text.replace(",", ""))


def processes_with(text):
    """Processes whose arguments or executable name it, as show's children do."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if text.encode() in file.read():
                    found.append(int(pid))
        except OSError:
            pass
    return found


class Table(dict):
    """The numbers at the end: label -> (by hand, lockstock)."""

    def __init__(self, text):
        super().__init__()
        for line in text.replace("\r", "").split("\n"):
            row = re.fullmatch(r"  (\S.*?|  \S.*?) {2,}(no way to|-|-?[\d,]+(?: / \d+)?) +([\d,]+(?: / \d+)?)", line)
            if row:
                self[row[1].strip()] = (row[2], row[3])

    def of(self, label, side):
        return number(self[label][side])


class Show(unittest.TestCase):
    def setUp(self):
        self.tmp = tempfile.TemporaryDirectory(dir="/tmp", prefix="ls-")
        self.addCleanup(self.tmp.cleanup)
        self.env = {**os.environ, "TMPDIR": self.tmp.name, "LC_ALL": "C.UTF-8", "TERM": "xterm"}

    def all_gone(self):
        """The directory is removed, and no process speaks of it any more."""
        end = time.monotonic() + PATIENCE_S
        while processes_with(self.tmp.name) and time.monotonic() < end:
            time.sleep(0.01)  # redis-server ends after the server that started it
        self.assertEqual(processes_with(self.tmp.name), [])
        left = [name for name in os.listdir(self.tmp.name) if not name.startswith('tsan.')]  # the sanitizer's own
        self.assertEqual(left, [])

    def adds_up(self, text, buyers, phones):
        table = Table(text)
        for side in (0, 1):
            told = sum(table.of(label, side) for label in ("bought", "were told sold out", "without an answer"))
            told += table.of("did not come any more", side) if "did not come any more" in table else 0
            self.assertEqual(told, buyers, text)
            self.assertEqual(table.of("buyers", side), buyers)
            self.assertEqual(table.of("oversold", side), max(0, table.of("bought", side) - phones), text)
        self.assertEqual(table.of("without an answer", 1), 0, text)
        self.assertEqual(table.of("oversold", 1), 0, text)
        self.assertEqual(table.of("bought", 1), phones, text)
        self.assertEqual(table.of("answers lost: MAYBE", 1),
                         table.of("known afterwards, by the order id", 1), text)
        over = table.of("oversold", 0)
        self.assertIn(f"By hand: {over:,} sold that were not there." if over else "By hand: not oversold", text)
        self.assertIn(f"lockstock is exact: {table.of('bought', 1):,} sold by its item, "
                      f"{table.of('bought', 1):,} orders in its ledger", text)
        return table


    def run_show(self, *args, status=0, env=None):
        done = subprocess.run([*SHOW, *args], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env or self.env, timeout=PATIENCE_S,
                              check=False)
        out, err = done.stdout.decode(), done.stderr.decode()
        self.assertEqual(done.returncode, status, out + err)
        self.all_gone()
        return out, err

    def test_every_key_is_survived(self):
        out, err = self.run_show(*SMALL, "--press", "10:f,30:c,40:s,50:s,60:r,80:c")
        self.assertEqual(err, "")
        self.assertNotIn("\x1b", out)
        table = self.adds_up(out, 240, 200)
        for said in ("lockstock's client . is frozen, and holds its till", "kill -9 of client . of each shop|kill -9 of lockstock's client",
                     "kill -9 of server 1", "kill -9 of server 2", "kill -9 of Redis", "server 1 is started again",
                     "Redis runs again", "a late write to the till was refused"):
            self.assertRegex(out, said)
        self.assertGreater(table.of("answers lost: MAYBE", 1), 0, out)
        self.assertGreater(table.of("late writes refused, by the fence", 1), 0, out)
        lines = re.findall(r"^ *[\d.]+ s  by hand: (.*) \| lockstock: (.*)$", out, re.M)
        self.assertGreater(len(lines), 2)
        for side in (0, 1):
            bought, sold_out, waiting, gave_up = map(int, re.findall(r"\d+", lines[-1][side])[:4])
            self.assertEqual(bought + sold_out + waiting + gave_up, 240)
            self.assertEqual(bought, table.of("bought", side))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
