#!/usr/bin/env python3
# promise CL8: each command and each method runs at a terminal; `watch` draws what fits, follows its size, and
#   restores it however it ends; elsewhere it writes rows
"""lockstock at a pseudo-terminal: each command and each method, and the live table of watch.

    cli_terminal.py LOCKSTOCK LOCKSTOCKD
"""
import json
import os
import re
import signal
import socket
import termios
import time

import cli_rpc
from cli_scene import LIMIT_S, LOCKSTOCK, OK, REFUSED, UNAVAILABLE, USAGE, Case, Terminal, main, wait_until

ENTER, LEAVE = "\x1b[?1049h\x1b[?25l\x1b[?7l", "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"


class EachMethodAtATerminal(cli_rpc.EachMethod):
    def run_cli(self, *args, code=OK, **_):
        """Output and errors come together."""
        terminal = Terminal(LOCKSTOCK, *args, env=self.env)
        self.addCleanup(terminal.close)
        self.called.add(args[:2])
        self.code, text = terminal.end(), terminal.text.replace("\r\n", "\n")
        self.assertEqual(self.code, code, f"{args}: {text}")
        return text, text


class AtATerminal(Case):
    def terminal(self, *args, **kwargs):
        terminal = Terminal(LOCKSTOCK, *args, env=self.env, **kwargs)
        self.addCleanup(terminal.close)
        return terminal

    def at_terminal(self, args, code=OK):
        terminal = self.terminal(*args)
        self.assertEqual(terminal.end(), code, f"{args}: {terminal.text}")
        return terminal.text.replace("\r\n", "\n")

    def test_each_command(self):
        self.out("stock", "put", "phone", "10")
        for name, args, code in (
                ("run", ["--lock", "door", "--", "true"], OK), ("once", ["--key", "k", "--", "true"], OK),
                ("limit", ["--key", "k", "--rate", "10/s", "--", "true"], OK), ("lock exec", ["door", "--", "false"], REFUSED),
                ("stock ledger", ["phone"], OK), ("stock watch", ["none"], REFUSED), ("status", [], OK), ("doctor", [], None),
                ("completion", ["bash"], OK), ("metrics", [], OK), ("watch", ["--times", "1"], OK), ("bench", ["--help"], None)):
            terminal = self.terminal(*name.split(), *args)
            ended = terminal.end()
            if code is not None:  # a doctor of a busy machine finds it slow; the program that measures may not be there
                self.assertEqual(ended, code, f"{name}: {terminal.text}")
            self.at_terminal([*name.split(), "--help"], code=ended if name == "bench" else OK)
        listed = set(re.findall(r"(?m)^  lockstock ([a-z]+(?: [a-z]+)?)\b", self.out("--help")))
        self.assertEqual(listed, {"run", "once", "limit", "lock exec", "guard run", "stock ledger", "stock watch", "status",
                                  "doctor", "metrics", "completion bash", "watch", "bench"})

    def test_errors_are_a_line(self):
        self.assertEqual(self.at_terminal(["lock", "acquire", "--none"], USAGE), "lockstock: --none: unknown flag; see --help\n")
        self.assertIn("UNAVAILABLE", self.at_terminal(["lock", "ls", "--server", "unix:///nonexistent/s", "--timeout", "100ms"],
                                                      UNAVAILABLE))

    def test_the_live_table(self):
        self.out("stock", "put", "phone", "10")
        self.out("lock", "acquire", "door", "--lease", "1m")
        waiting = self.start("lock", "acquire", "door", "--lease", "1m", "--wait", "1m")
        terminal = self.terminal("watch", "--every", "20ms")
        terminal.wait(re.escape(ENTER))
        terminal.wait(r"SERVER +CALL +STORE")
        terminal.wait(re.escape(self.server.url) + r" +[\d.]+ ms +[\d.]+ ms")
        terminal.wait(r"door +exclusive +1 +1  ")
        terminal.wait(r"phone +10 +0 +0  open")
        self.out("stock", "deduct", "o1", "--group", "phone", "--line", "phone=2")
        terminal.wait(r"phone +8 +0 +2  open")
        waiting.kill()
        waiting.communicate()
        terminal.wait(r"door +exclusive +1 +0  ")
        terminal.resize(12, 30)
        at = len(terminal.text)
        drawing = terminal.wait(r"\x1b\[Hlockstock watch   [-\d :]{,12}\x1b[^J]*\x1b\[J", at).group(0)  # one of after the change
        for line in drawing.split("\r\n"):
            self.assertLessEqual(len(re.sub(r"\x1b\[[\d?]*[a-zA-Z]", "", line)), 30, line)
        terminal.type("q")
        self.assertEqual(terminal.end(), OK)
        self.assertTrue(terminal.text.endswith(LEAVE), terminal.text[-80:])

    def test_a_terminal_that_changes_its_size_while_it_does_not_read(self):
        terminal = self.terminal("watch", "--every", "1ms")
        terminal.wait(r"SERVER +CALL +STORE")

        def is_held_up():
            """In a call to the system with standard output, and not just for a moment."""
            for _ in range(50):
                with open(f"/proc/{terminal.pid}/syscall") as syscall:
                    if syscall.read().split()[1:2] != ["0x1"]:
                        return False
                time.sleep(0.001)
            return True
        for rows in (12, 13):  # the first ends a write that is partly done, the second one that has not begun
            wait_until(is_held_up)
            terminal.resize(rows, 30)
        terminal.type("q")
        self.assertEqual(terminal.end(), OK)

    def test_a_table_that_is_too_long(self):
        for n in range(12):
            self.out("stock", "put", f"item-{n:02}", "1")
        terminal = self.terminal("watch", "--times", "1", rows=14)
        self.assertEqual(terminal.end(), OK)
        self.assertLessEqual(terminal.text.count("\n"), 13)
        self.assertIn("item-00", terminal.text)
        self.assertRegex(terminal.text, r"and \d+ more")
        terminal = self.terminal("watch", "--times", "1", rows=4)
        self.assertEqual(terminal.end(), OK)
        self.assertEqual(terminal.text.count("\n"), 3)

    def test_a_table_of_more_than_a_hundred(self):
        names = [f"lock-{n:03}" for n in range(101)]
        for n in range(0, 101, 16):
            self.out("lock", "acquire", *names[n:n + 16], "--group", "g", "--lease", "1h")
        for rows in (7 + 100, 7 + 101):
            terminal = self.terminal("watch", "--times", "1", rows=rows)
            self.assertEqual(terminal.end(), OK)
            self.assertEqual(terminal.text.count("\n"), rows - 1)
            self.assertIn(f"and at least {7 + 102 - rows} more", terminal.text)
        self.assertRegex(self.out("watch", "--times", "1").splitlines()[-1], "  lock    and more$")
        line = json.loads(self.out("watch", "--times", "1", "--json"))
        self.assertEqual((len(line["locks"]), line["more_locks"], line["more_items"]), (100, True, False))

    def test_ends_of_the_table(self):
        for end, code in ((lambda t: t.type("\x03"), OK), (lambda t: t.type("\x1c"), -signal.SIGQUIT),
                          (lambda t: os.kill(t.pid, signal.SIGTERM), -signal.SIGTERM),
                          (lambda t: os.kill(t.pid, signal.SIGINT), OK)):
            terminal = self.terminal("watch", "--every", "1h")
            terminal.wait(r"ITEM")
            terminal.wait(r"\x1b\[J")
            self.assertFalse(termios.tcgetattr(terminal.fd)[3] & termios.ECHO)
            end(terminal)
            deadline = time.monotonic() + LIMIT_S
            while LEAVE not in terminal.text and time.monotonic() < deadline and terminal.read():
                pass
            self.assertTrue(termios.tcgetattr(terminal.fd)[3] & termios.ECHO)
            self.assertEqual(terminal.end(), code)
            self.assertTrue(terminal.text.endswith(LEAVE), terminal.text[-80:])

    def test_a_server_that_is_away(self):
        terminal = self.terminal("watch", "--every", "20ms", "--server", f"unix:///nonexistent/s,{self.server.url}")
        terminal.wait(r"nonexistent/s +down +down")
        terminal.wait(re.escape(self.server.url) + r" +[\d.]+ ms")
        terminal.type("q")
        self.assertEqual(terminal.end(), OK)

    def test_rows(self):
        self.out("stock", "put", "phone", "10")
        self.out("stock", "put", "a-long-name-" * 8, "10")
        self.out("lock", "acquire", "a", "b", "--group", "g", "--lease", "1m")
        rows = self.out("watch", "--times", "2", "--every", "1ms").splitlines()
        self.assertEqual(len(rows), 10)
        for row in rows:
            self.assertRegex(row, r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  (server|lock  |item  )  \S")
        self.assertEqual([row.split()[2:7] for row in rows[1:3]], [["lock", "g/a", "exclusive", "1", "0"],
                                                                   ["lock", "g/b", "exclusive", "1", "0"]])
        self.assertIn("a-long-name-" * 8 + " ", rows[3])
        rows = self.out("watch", "--times", "1", "--prefix", "pho").splitlines()
        self.assertEqual([row.split()[2] for row in rows], ["server", "item"])

    def test_rows_in_json(self):
        self.out("stock", "put", "phone", "10")
        self.out("lock", "acquire", "door", "--lease", "1m")
        line = json.loads(self.out("watch", "--times", "1", "--json"))
        self.assertEqual(set(line), {"at_ms", "servers", "locks", "items", "more_locks", "more_items"})
        self.assertEqual(line["servers"][0]["server"], self.server.url)
        self.assertEqual([line["items"][0][name] for name in ("sku", "available", "state")], ["phone", 10, "open"])
        self.assertEqual([line["locks"][0][name] for name in ("name", "holders", "waiters")], ["door", 1, 0])
        out, err = self.run_cli("watch", "--times", "1", "--json", "--server", "unix:///nonexistent/s", "--timeout", "100ms",
                                code=UNAVAILABLE)
        self.assertEqual(json.loads(err)["error"]["reason"], "server_unreachable")
        line = json.loads(out)
        self.assertEqual([line["servers"][0]["call_ms"], line["locks"], line["items"]], [None, None, None])

    def test_a_silent_server_does_not_delay_the_end(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            process = self.start("watch", "--timeout", "100s", "--server", f"tcp://127.0.0.1:{silent.getsockname()[1]}")
            connection, _ = silent.accept()
            with connection:
                process.send_signal(signal.SIGINT)
                process.communicate(timeout=LIMIT_S)

    def test_rows_that_are_ended(self):
        process = self.start("watch", "--every", "1ms")
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=LIMIT_S)
        self.assertEqual(process.returncode, -signal.SIGINT)
        self.err("watch", "all", code=USAGE)


if __name__ == "__main__":
    main()
