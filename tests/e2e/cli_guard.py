#!/usr/bin/env python3
"""lockstock guard run: a program between Enter and Leave; what is stored, and how the entry ends when the program,
its keeper or its locks are lost.

    cli_guard.py LOCKSTOCK LOCKSTOCKD
"""
import json
import os
import signal
import subprocess

from cli_scene import LIMIT_S, LOCKSTOCK, OK, REFUSED, UNAVAILABLE, USAGE, Case, gone, main, wait_until

AROUND, LOST, OTHER, CANNOT_RUN, NO_PROGRAM = 120, 120, 125, 126, 127
ONCE = ("--once", "scope=order,key=1")
LOCKS = ("--locks", "targets=door")
UP = "echo up; while :; do sleep 0.02; done"


class Guard(Case):
    def guard(self, *flags, run=("true",), code=OK):
        return self.run_cli("guard", "run", *flags, "--", *run, code=code)

    def shell(self, *flags, script, code=OK):
        return self.guard(*flags, run=("sh", "-c", script), code=code)[0]

    def begin(self, *flags, script=UP):
        """Starts one, and waits until its program runs."""
        process = self.start("guard", "run", *flags, "--", "sh", "-c", script)
        self.addCleanup(self.end, process)
        self.assertEqual(process.stdout.readline(), b"up\n")
        return process

    def end(self, process):
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=LIMIT_S)

    def wait_for(self, process):
        out, err = process.communicate(timeout=LIMIT_S)
        self.assertNotIn(b"Sanitizer", err)
        return process.returncode, out, err

    def stock(self):
        """How much of `phone` can be bought."""
        return int(self.json("stock", "get", "phone")["item"]["available"])

    def hold(self, order="order-1", ms=60000):
        return ("--stock", f'{{"orderId":"{order}","lines":[{{"sku":"phone","quantity":1}}],"holdMs":{ms}}}')

    # promise CL9: `guard run` runs a program between Enter and Leave: exit code 0 stores the result and confirms the
    #   stock, any other end leaves neither; a stored result is printed and the program does not run again
    def test_a_completed_attempt_is_replayed(self):
        self.out("stock", "put", "phone", "5")
        self.assertEqual(self.guard(*ONCE, *LOCKS, *self.hold(), "--result", "sold", run=("echo", "ran"))[0], "ran\n")
        self.assertEqual(self.stock(), 4)
        self.assertEqual(self.json("stock", "order", "order-1", "--group", "phone")["order"]["state"], "ORDER_STATE_CONFIRMED")
        self.assertEqual(self.out("lock", "ls"), "")
        self.assertEqual(self.guard(*ONCE, *LOCKS, *self.hold(), run=("echo", "ran"))[0], "sold")
        answer = json.loads(self.out("guard", "run", *ONCE, "--json", "--", "echo", "ran"))
        self.assertEqual(answer["outcome"], "ENTER_OUTCOME_REPLAY")
        self.assertEqual(self.stock(), 4)

    def test_the_output_is_the_result(self):
        self.assertEqual(self.shell(*ONCE, "--store-output", script="printf 'a\\nb'"), "a\nb")
        self.assertEqual(self.shell(*ONCE, "--store-output", script="echo other"), "a\nb")
        self.assertEqual(self.shell("--once", "scope=order,key=2", script="echo not stored"), "not stored\n")
        self.assertEqual(self.shell("--once", "scope=order,key=2", script="echo other"), "")

    # promise CL9
    def test_output_that_cannot_be_written(self):
        """Its result is stored all the same, also if nobody reads its output."""
        count = f"{self.server.dir}/count"
        for output in ("| true", ">/dev/full"):
            for _ in range(2):
                done = subprocess.run(["bash", "-c", f'"$@" {output}; exit ${{PIPESTATUS[0]}}', "bash", LOCKSTOCK, "guard", "run",
                                       "--once", f"scope=order,key={output}", "--store-output", "--", "sh", "-c",
                                       f"seq 1 100000; echo x >> {count}"], env=self.env, capture_output=True, timeout=LIMIT_S,
                                      check=False)
                self.assertEqual(done.returncode, OTHER, done.stderr)
                self.assertEqual(done.stderr.count(b"lockstock: standard output: cannot be written\n"), 1, done.stderr)
        with open(count) as lines:
            self.assertEqual(len(lines.readlines()), 2)

    def test_a_file_is_the_result(self):
        path = f"{self.server.dir}/receipt"
        flags = (*ONCE, "--result", f"@{path}")
        _, err = self.guard(*flags, code=OTHER)
        self.assertIn("--result: No such file", err)
        self.assertEqual(self.shell(*flags, script=f"echo paid >{path}; echo ran"), "ran\n")
        self.assertEqual(self.shell(*flags, script="echo ran"), "paid\n")

    def test_long_output_is_cut(self):
        done = subprocess.run([LOCKSTOCK, "guard", "run", *ONCE, "--store-output", "--", "sh", "-c",
                               "head -c 300000 /dev/zero | tr '\\000' x"], env=self.env, capture_output=True, timeout=LIMIT_S,
                              check=True)
        self.assertEqual(len(done.stdout), 300000)
        self.assertIn(b"only its first", done.stderr)
        out, err = self.run_cli("guard", "run", *ONCE, "--", "true", code=None)
        self.assertEqual((self.code, len(out)), (OK, 256 * 1024))
        self.assertIn("the output is cut", err)

    # promise CL9
    def test_a_failure_stores_nothing(self):
        self.out("stock", "put", "phone", "1")
        attempt = "echo $LOCKSTOCK_ATTEMPT; "
        flags = (*ONCE, *LOCKS, *self.hold(), "--store-output")
        self.assertEqual(self.shell(*flags, script=attempt + "exit 7", code=7), "1\n")
        self.assertEqual(self.stock(), 1)
        self.assertEqual(self.shell(*flags, script=attempt + "kill -9 $$", code=128 + 9), "2\n")
        self.assertIn("No such file", self.guard(*flags, run=("/nonexistent/program",), code=NO_PROGRAM)[1])
        self.assertIn("ermission denied", self.guard(*flags, run=("/etc/passwd",), code=CANNOT_RUN)[1])
        self.assertEqual(self.out("lock", "ls"), "")
        self.assertEqual(self.shell(*flags, script=attempt), "5\n")
        self.assertEqual(self.stock(), 0)

    def test_environment_of_the_program(self):
        out = self.shell(*ONCE, "--locks", '{"group":"g","targets":[{"name":"b"},{"name":"a"}]}', "--limits",
                         '{"rules":[{"key":"ann","limit":{"algorithm":"ALGORITHM_FIXED_WINDOW","limit":"5","periodMs":"3600000"}}]}',
                         script="echo $LOCKSTOCK_FENCE/$LOCKSTOCK_FENCES/$LOCKSTOCK_ATTEMPT/$LOCKSTOCK_ATTEMPT_FENCE/"
                                "$LOCKSTOCK_REMAINING/$LOCKSTOCK_ENTRY_TOKEN")
        fence, fences, attempt, attempt_fence, remaining, token = out.strip().split("/")
        self.assertEqual(fences.split()[0], fence)
        self.assertEqual(len(fences.split()), 2)
        self.assertEqual((attempt, remaining), ("1", "4"))
        self.assertGreater(int(attempt_fence), 0)
        self.assertGreaterEqual(len(token), 16)
        self.assertEqual(self.out("guard", "run", *LOCKS, "--", "cat", stdin=b"standard input"), "standard input")
        given = self.shell("given-as-a-word-0", *LOCKS, script="echo $LOCKSTOCK_ENTRY_TOKEN")
        self.assertEqual(given, "given-as-a-word-0\n")

    # promise CL9
    def test_refusals(self):
        self.out("lock", "acquire", "door", "--lease", "1m", "--owner", "ann")
        out, err = self.guard(*LOCKS, run=("echo", "ran"), code=AROUND + REFUSED)
        self.assertRegex(out, r"(?m)^outcome +busy$")
        self.assertNotIn("ran", out)
        self.assertEqual(err, "")
        self.assertEqual(out.replace("\n", " ").split()[:2], self.out("guard", "enter", *LOCKS, "--lease", "1m",
                                                                     code=REFUSED).split()[:2])
        self.out("stock", "put", "phone", "0")
        self.assertIn("out-of-stock", self.guard(*ONCE, *self.hold(), code=AROUND + REFUSED)[0])
        process = self.begin(*ONCE)
        self.assertIn("in-progress", self.guard(*ONCE, code=AROUND + REFUSED)[0])
        out = self.out("guard", "run", *ONCE, "--json", "--", "true", code=AROUND + REFUSED)
        self.assertIn("ENTER_OUTCOME_IN_PROGRESS", out)
        self.end(process)

    def test_a_final_failure_is_printed(self):
        token = "0123456789abcdef"
        self.out("guard", "enter", token, *ONCE, "--lease", "1m")
        self.out("guard", "leave", token, "final", *ONCE, "--detail", "card \x1b[2J")
        self.assertIn("for good: card ?[2J", self.err("guard", "run", *ONCE, "--", "true", code=AROUND + REFUSED))

    def test_usage_errors(self):
        for args in ((), ONCE, ("--result", "x", *LOCKS, "--", "true"), ("--store-output", *LOCKS, "--", "true"),
                     ("--result", "x", "--store-output", *ONCE, "--", "true"), ("--colour", *ONCE, "--", "true"),
                     ("--", "true"), (*LOCKS, "--lease", "1d2h", "--", "true")):
            self.err("guard", "run", *args, code=AROUND + USAGE)
        self.assertIn("lockstock: --lease: must be", self.err("guard", "run", *LOCKS, "--lease", "1ms", "--", "true",
                                                              code=AROUND + USAGE))
        self.assertIn("targets: must", self.err("guard", "run", "--locks", "{}", "--", "true",
                                                  code=AROUND + USAGE))
        self.err("guard", "run", *LOCKS, "--server", "unix:///nonexistent/s", "--timeout", "50ms", "--", "true",
                 code=AROUND + UNAVAILABLE)
        self.assertIn("--store-output", self.out("guard", "run", "--help"))
        self.assertIn("--locks", self.out("guard", "run", "--help"))

    # promise CL10: the entry is renewed while the program runs; when a lock is taken away, the keeper freezes or
    #   `lockstock` is killed, the program ends, and never with 0; signals are passed on
    def test_it_is_renewed(self):
        out = self.shell(*ONCE, *LOCKS, "--lease", "1s", "--result", "done", script="sleep 2; echo ran")
        self.assertEqual(out, "ran\n")
        self.assertEqual(self.guard(*ONCE)[0], "done")

    # promise CL10
    def test_a_lock_that_is_taken_away_ends_the_program(self):
        self.out("stock", "put", "phone", "1")
        process = self.begin(*ONCE, *LOCKS, *self.hold(), "--lease", "10m", "--store-output", script="echo up; sleep 100 & wait")
        self.assertEqual(self.stock(), 0)
        self.out("lock", "force-release", "door")
        code, _, err = self.wait_for(process)
        self.assertEqual(code, LOST)
        self.assertIn(b"lockstock: the entry is lost: ", err)
        self.assertEqual(self.stock(), 1)  # and it was left at once, not by its lease
        self.assertEqual(self.shell(*ONCE, *LOCKS, script="echo $LOCKSTOCK_ATTEMPT"), "2\n")

    # promise CL10
    def test_a_keeper_that_is_frozen_past_its_lease(self):
        process = self.begin(*ONCE, "--lease", "400ms")
        with open(f"/proc/{process.pid}/task/{process.pid}/children") as children:
            keeper, program = (int(child) for child in children.read().split())
        os.kill(keeper, signal.SIGSTOP)
        code, _, err = self.wait_for(process)
        self.assertEqual(code, LOST)
        self.assertIn(b"the entry is lost: no renewal was confirmed in time", err)
        self.assertTrue(gone(keeper) and gone(program))
        wait_until(lambda: self.run_cli("guard", "run", *ONCE, "--", "true", code=None) and self.code == OK)

    def test_an_attempt_that_was_deleted(self):
        process = self.begin(*ONCE, "--lease", "600ms")
        self.out("idempotency", "delete", "order", "1")
        self.assertEqual(self.wait_for(process)[0], LOST)

    def test_a_hold_that_ends_before_the_program(self):
        self.out("stock", "put", "phone", "1")
        _, err = self.guard(*self.hold(ms=200), run=("sleep", "1"), code=LOST)
        self.assertIn("the hold of the stock has ended", err)
        self.assertEqual(self.stock(), 1)

    # promise CL10
    def test_it_is_killed(self):
        process = self.begin(*ONCE, "--lease", "400ms", script="echo up; echo $$ >&2; while :; do sleep 0.02; done")
        program = int(process.stderr.readline())
        process.kill()
        wait_until(lambda: gone(program))
        self.assertEqual(self.shell(*ONCE, "--wait", "30s", script="echo $LOCKSTOCK_ATTEMPT"), "2\n")

    # promise CL10
    def test_signals_are_passed_on(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            process = self.begin(*ONCE, *LOCKS, script=f"trap 'echo got; exit 9' {number.value}; " + UP)
            process.send_signal(number)
            self.assertEqual(self.wait_for(process)[:2], (9, b"got\n"))
            self.assertEqual(self.out("lock", "ls"), "")
        process = self.begin(*ONCE)
        process.send_signal(signal.SIGINT)
        self.assertEqual(self.wait_for(process)[0], 128 + signal.SIGINT)
        self.assertEqual(self.shell(*ONCE, script="echo $LOCKSTOCK_ATTEMPT"), "4\n")

    def test_a_signal_ends_the_wait(self):
        """A process that waited for an attempt begins none."""
        first = self.begin(*ONCE)
        second = self.start("guard", "run", *ONCE, "--wait", "1h", "--lease", "10m", "--", "echo", "ran")
        self.out("lock", "acquire", "door", "--lease", "1m")
        third = self.start("guard", "run", *LOCKS, "--wait", "1h", "--", "echo", "ran")
        wait_until(lambda: self.json("lock", "inspect", "door")["waiters"] == "1")
        for process in (second, third):
            process.terminate()
            self.assertEqual(self.wait_for(process)[:2], (128 + signal.SIGTERM, b""))
        wait_until(lambda: self.json("lock", "inspect", "door")["waiters"] == "0")
        first.terminate()
        self.wait_for(first)
        self.assertEqual(self.shell(*ONCE, "--wait", "1s", script="echo $LOCKSTOCK_ATTEMPT"), "2\n")


if __name__ == "__main__":
    main()
