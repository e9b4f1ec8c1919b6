#!/usr/bin/env python3
"""examples/show plays its sale to the end, by lines and on a terminal, whatever is killed meanwhile: each side accounts
for every buyer, lockstock's is exact, and terminal, processes and files are left as they were found. Nothing is said of
time, nor of how often the naive shop oversells.

    show.py SHOW CLIENT LOCKSTOCKD Lines|Terminal|Ends
"""
import glob
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../support"))
import terminal  # noqa: E402

SHOW = [sys.argv[1], "--client", sys.argv[2], "--lockstockd", sys.argv[3]]
PATIENCE_S = 100
SMALL = ["--buyers", "240", "--phones", "200", "--seconds", "3"]
HELP = "q quit"
LEAVE = "\x1b[0m\x1b[?25h\x1b[?1049l"


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
            row = re.fullmatch(r"(\S.*?) {2,}(no way to|-|[\d,]+(?: / \d+)?) +([\d,]+(?: / \d+)?)", line)
            if row:
                self[row[1]] = (row[2], row[3])

    def of(self, label, side):
        return number(self[label][side])


class Case(unittest.TestCase):
    def setUp(self):
        self.tmp = tempfile.TemporaryDirectory(dir="/tmp", prefix="ls-")
        self.addCleanup(self.tmp.cleanup)
        self.env = {**os.environ, "TMPDIR": self.tmp.name, "LC_ALL": "C.UTF-8", "TERM": "xterm"}

    def all_gone(self):
        """The directory is removed, and no process refers to it any more."""
        end = time.monotonic() + PATIENCE_S
        while processes_with(self.tmp.name) and time.monotonic() < end:
            time.sleep(0.01)  # redis-server ends after the server that started it
        self.assertEqual(processes_with(self.tmp.name), [])
        left = [name for name in os.listdir(self.tmp.name) if not name.startswith('tsan.')]  # the sanitizer's own
        self.assertEqual(left, [])

    def adds_up(self, text, buyers, phones):
        table = Table(text)
        for side in (0, 1):
            self.assertEqual(sum(table.of(label, side) for label in ("bought", "told sold out", "no answer")), buyers, text)
            self.assertEqual(table.of("OVERSOLD", side), max(0, table.of("bought", side) - phones), text)
        self.assertEqual(table.of("no answer", 1), 0, text)
        self.assertEqual(table.of("OVERSOLD", 1), 0, text)
        self.assertEqual(table.of("bought", 1), phones, text)
        self.assertEqual(table.of("answers lost: MAYBE", 1), table.of("... known by the order id", 1), text)
        over = table.of("OVERSOLD", 0)
        self.assertIn(f"By hand: {over:,} sold that were not there." if over else "By hand: not oversold", text)
        self.assertIn(f"lockstock is exact: {table.of('bought', 1):,} sold by its item, "
                      f"{table.of('bought', 1):,} orders in its ledger", text)
        return table


class Lines(Case):
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
        for said in ("lockstock's client . is frozen, and holds its till", "kill -9 of client . of each shop",
                     "kill -9 of server 1", "kill -9 of server 2", "kill -9 of Redis", "server 1 is started again",
                     "Redis runs again", "a late write to the till was refused"):
            self.assertRegex(out, said)
        self.assertGreater(table.of("answers lost: MAYBE", 1), 0, out)
        self.assertGreater(table.of("late writes refused", 1), 0, out)
        lines = re.findall(r"^ *[\d.]+ s  bought (\d+) / (\d+), ", out, re.M)
        self.assertGreater(len(lines), 2)
        self.assertEqual(tuple(map(int, lines[-1])), (table.of("bought", 0), table.of("bought", 1)))


class OnTerminal(Case):
    """A show on a pseudo-terminal of its own."""

    def open(self, *args):
        self.terminal = terminal.Terminal(*SHOW, *args, env=self.env, columns=80)
        self.addCleanup(self.terminal.close)

    def wait_text(self, text):
        """Waits for new output; the screen is redrawn ten times a second."""
        self.terminal.wait(re.escape(text), len(self.terminal.text))

    def press(self, key, expected):
        self.terminal.type(key)
        self.wait_text(expected)

    def ends(self, status):
        self.assertEqual(self.terminal.end(), status, self.terminal.text[-3000:])
        self.text = self.terminal.text

    def is_restored(self):
        with open(pty.openpty()[1]) as another:
            self.assertEqual(self.terminal.settings, termios.tcgetattr(another))
        self.assertEqual(self.text.count("\x1b[?1049h"), 1)
        self.assertEqual(self.text.count("\x1b[?1049l"), 1)
        after = self.text.partition(LEAVE)[2]
        self.assertNotIn("\x1b[?25l", after)
        self.assertNotIn(";1H", after)
        return after

    def frames(self):
        """Whole screens, as lists of lines without colours."""
        screens = self.terminal.text.partition(LEAVE)[0].split("\x1b[1;1H")[1:]
        plain = [re.sub(r"\x1b\[[\d;]*m", "", screen) for screen in screens]
        return [re.split(r"\x1b\[\d+;1H", screen) for screen in plain]


class Terminal(OnTerminal):
    def test_every_key_and_a_narrow_window(self):
        self.open("--buyers", "320", "--phones", "250", "--seconds", "8")
        self.wait_text(HELP)
        self.press("f", "lockstock's client")
        self.press("c", "kill -9 of")
        self.press("s", "kill -9 of server 1")
        self.press("r", "kill -9 of Redis")
        for rows, columns in (10, 30), (1, 1):
            before = len(self.frames())
            self.terminal.resize(rows, columns)
            self.terminal.read_until(lambda before=before: len(self.frames()) > before + 3)
        self.terminal.resize(30, 120)
        self.wait_text(HELP)
        self.ends(0)
        sizes = {(len(frame), *{len(line) for line in frame}) for frame in self.frames()}
        self.assertEqual(sizes, {(24, 80), (10, 30), (1, 1), (30, 120)})
        self.assertTrue("\x1b[0;32m" in self.text and "\x1b[0;31m" in self.text, "no green and red")
        after = self.is_restored()
        self.adds_up(re.sub(r"\x1b\[[\d;]*m", "", after), 320, 250)
        self.all_gone()


class Ends(OnTerminal):
    def test_signals_end_it_in_order(self):
        for key, number_of in (("\x03", signal.SIGINT), (None, signal.SIGTERM), (None, signal.SIGHUP)):
            self.open(*SMALL)
            self.wait_text(HELP)
            if key:
                self.terminal.type(key)
            else:
                os.kill(self.terminal.pid, number_of)
            self.ends(128 + number_of)
            self.is_restored()
            self.all_gone()

    def test_q_ends_the_sale(self):
        self.open(*SMALL)
        self.wait_text(HELP)
        self.press("f", "lockstock's client")
        self.press("q", "no more buyers come")
        self.ends(0)
        self.assertIn("lockstock is exact", self.is_restored())
        self.all_gone()

    def test_lost_data_is_not_exact(self):
        self.open(*SMALL)
        self.wait_text("have come")
        path, = glob.glob(os.path.join(self.tmp.name, "*", "data", "redis.sock"))
        with socket.socket(socket.AF_UNIX) as redis:
            redis.connect(path)
            redis.sendall(b"FLUSHALL\r\n")
            self.assertEqual(redis.recv(16), b"+OK\r\n")
        self.ends(1)
        self.assertIn("lockstock is NOT EXACT", self.is_restored())
        self.all_gone()


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
