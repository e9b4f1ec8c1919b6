#!/usr/bin/env python3
# promise CL4
# promise CL5
"""lockstock run, once and limit: what they run, and what happens to it when holders die, freeze or lose their locks.

    cli_run.py LOCKSTOCK LOCKSTOCKD
"""
import os
import re
import signal
import socket
import subprocess
import sys

from cli_scene import LIMIT_S, LOCKSTOCK, OK, OTHER, REFUSED, UNAVAILABLE, USAGE, Case, Terminal, gone, main, wait_until

SHORT = "400ms"  # the lease of a holder that is to lose it
AROUND, LOST, CANNOT_RUN, NO_PROGRAM = 120, 120, 126, 127
PY = sys.executable

# Enters a room, in which it must be alone, prints "in", and stays until a file exists, or forever. A second process in
# the room writes the file "overlap". It ignores SIGTERM.
ROOM = """
import fcntl, os, signal, sys, time
room, until = sys.argv[1:3]
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.alarm(120)  # should nobody end it
door = os.open(room + "/door", os.O_CREAT | os.O_RDWR)
try:
    fcntl.flock(door, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    open(room + "/overlap", "w").close()
print("in", os.getpid(), os.environ["LOCKSTOCK_FENCE"], flush=True)
while not os.path.exists(room + "/" + until):
    time.sleep(0.01)
"""


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as children:
        return [int(child) for child in children.read().split()]


class Room(Case):
    """Runs of the program above under one lock."""

    def setUp(self):
        super().setUp()
        self.room = f"{self.server.dir}/{self.env['LOCKSTOCK_NAMESPACE']}"
        os.mkdir(self.room)
        self.started = []

    def tearDown(self):
        for process in self.started:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.communicate(timeout=LIMIT_S)
        self.assertFalse(os.path.exists(f"{self.room}/overlap"), "two were in the room")

    def enter(self, until="done", lease="30s", wait="40s", shell=False):
        program = [PY, "-c", ROOM, self.room, until]
        if shell:
            program = ["sh", "-c", '"$@"; exit 0', "sh", *program]
        process = self.start("run", "--lock", "room", "--lease", lease, "--wait", wait, "--", *program)
        self.started.append(process)
        return process

    def is_in(self, process):
        """Waits for it; its pid and its fence."""
        line = process.stdout.readline().split()
        self.assertEqual(line[:1], [b"in"], process.stderr.read() if not line else line)
        return int(line[1]), int(line[2])

    def leave(self, name="done"):
        open(f"{self.room}/{name}", "w").close()

    def test_one_after_the_other(self):
        processes = [self.enter() for _ in range(3)]
        self.leave()
        for process in processes:
            process.wait(LIMIT_S)
            self.assertEqual(process.returncode, OK, process.stderr.read())

    # promise CL1
    def test_a_killed_holder_takes_down_all_child_processes(self):
        first = self.enter("never", SHORT, shell=True)
        program, fence = self.is_in(first)
        second = self.enter()
        first.kill()
        _, later = self.is_in(second)
        self.assertTrue(gone(program))
        self.assertGreater(later, fence)
        self.leave()
        self.assertEqual(second.wait(LIMIT_S), OK)

    # promise CL1: programs of two `lockstock run` never run at the same time, also if a holder is killed or its
    #   keeper is frozen past the lease, and this includes all their child processes; a lock that is taken away ends the
    #   program within a second, and never with 0
    def test_a_keeper_that_is_frozen_past_its_lease(self):
        first = self.enter("never", SHORT, shell=True)
        program, _ = self.is_in(first)
        second = self.enter()
        keeper = next(child for child in children_of(first.pid) if b"ROOM" not in self.command(child) and
                      self.command(child).startswith(os.fsencode(LOCKSTOCK)))
        os.kill(keeper, signal.SIGSTOP)
        self.is_in(second)
        self.assertTrue(gone(program))
        self.assertEqual(first.wait(LIMIT_S), LOST)
        self.assertIn(b"lock is lost", first.stderr.read())
        self.assertTrue(gone(keeper))
        self.leave()

    def command(self, pid):
        with open(f"/proc/{pid}/cmdline", "rb") as line:
            return line.read()

    # promise CL1
    def test_processes_frozen_past_the_lease_end_when_resumed(self):
        first = self.enter("never", SHORT)
        program, fence = self.is_in(first)
        second = self.enter()
        everything = [*children_of(first.pid), first.pid]
        for pid in everything:
            os.kill(pid, signal.SIGSTOP)
        os.unlink(f"{self.room}/door")  # two are in the room, which is correct: nothing can end a frozen process
        _, later = self.is_in(second)
        self.assertGreater(later, fence)  # by which the one that is late is known
        for pid in everything:
            os.kill(pid, signal.SIGCONT)
        self.assertEqual(first.wait(LIMIT_S), LOST)
        self.assertTrue(gone(program))
        self.leave()

    def test_the_first_process_frozen_keeps_the_lock(self):
        first = self.enter(lease="4s")
        self.is_in(first)
        os.kill(first.pid, signal.SIGSTOP)
        self.assertIn("timed-out", self.out("lock", "acquire", "room", "--lease", "1s", "--wait", "6s", code=REFUSED))
        self.leave()
        os.kill(first.pid, signal.SIGCONT)
        self.assertEqual(first.wait(LIMIT_S), OK)

    # promise CL1
    def test_a_lock_that_is_taken_away_ends_the_program(self):
        first = self.enter("never", lease="10m")  # a third of it, when it would be renewed, is longer than the limit
        program, _ = self.is_in(first)
        self.out("lock", "force-release", "room")
        self.assertEqual(first.wait(LIMIT_S), LOST)
        self.assertTrue(gone(program))
        said = first.stderr.read()
        self.assertIn(b"it was taken away", said)
        self.assertNotIn(b"no renewal was confirmed", said)  # it did not wait for that

    def test_a_lost_lock_is_reported_after_a_successful_program(self):
        first = self.enter(lease="30s", shell=True)  # its program exits with 0
        self.is_in(first)
        self.out("lock", "force-release", "room")
        self.leave()
        self.assertEqual(first.wait(LIMIT_S), LOST)
        self.assertIn(b"lockstock: the lock is lost: it was taken away", first.stderr.read())


class Run(Case):
    def run_locked(self, *program, code=OK, flags=()):
        return self.run_cli("run", "--lock", "a", *flags, "--", *program, code=code)

    # promise CL2
    def test_the_exit_code_is_the_programs(self):
        self.assertEqual(self.run_locked("echo", "hello")[0], "hello\n")
        self.run_locked("sh", "-c", "exit 7", code=7)
        self.run_locked("sh", "-c", "kill -9 $$", code=128 + 9)
        self.assertIn("No such file", self.run_locked("/nonexistent/program", code=NO_PROGRAM)[1])
        self.assertIn("ermission denied", self.run_locked("/etc/passwd", code=CANNOT_RUN)[1])
        self.assertEqual(self.out("lock", "ls"), "")

    def test_environment_of_the_program(self):
        out, _ = self.run_locked("sh", "-c", "echo $LOCKSTOCK_LOCK $LOCKSTOCK_FENCE")
        name, fence = out.split()
        self.assertEqual(name, "a")
        self.assertEqual(self.json("lock", "inspect", "a")["lastFence"], fence)
        out = self.out("run", "--lock", "a", "--", "cat", stdin=b"standard input")
        self.assertEqual(out, "standard input")

    def test_its_own_exit_codes(self):
        self.out("lock", "acquire", "a", "--lease", "1m")
        self.assertIn("others hold the lock", self.err("run", "--lock", "a", "--", "true", code=AROUND + REFUSED))
        self.err("run", "--lock", "a", "--wait", "1ms", "--", "true", code=AROUND + REFUSED)
        self.err("run", "--", "true", code=AROUND + USAGE)
        self.err("run", "--lock", "a", code=AROUND + USAGE)
        self.assertIn("lockstock: --lease: must be 10ms to", self.err("run", "--lock", "a", "--lease", "1ms", "--", "true", code=AROUND + USAGE))
        self.err("run", "--lock", "a", "--colour", "--", "true", code=AROUND + USAGE)
        for args in (("run", "--lock", "a", "--lock", "b"), ("lock", "exec", "a", "--lock", "b"), ("once", "--key", "a", "--key", "b"),
                     ("run", "--lock", "a", "--wait", "0s", "--wait", "1s")):
            self.assertIn("given more than once", self.err(*args, "--", "true", code=AROUND + USAGE))
        for flags in (("--lock", "x" * 200), ("--lock", "x" * 200, "--group", "g")):
            self.assertIn("lockstock: --lock: must be", self.err("run", *flags, "--", "true", code=AROUND + USAGE))
        self.assertIn("lockstock: --group: must be", self.err("run", "--lock", "a", "--group", "x" * 200, "--", "true", code=AROUND + USAGE))
        self.err("run", "--lock", "a", "--server", "unix:///nonexistent/s", "--timeout", "50ms", "--", "true",
                 code=AROUND + UNAVAILABLE)
        self.assertIn("LOCKSTOCK_FENCE", self.out("run", "--help"))

    # promise CL2: exit codes and signals are passed on; at a terminal ^C arrives once, and the program ends with
    #   `lockstock`
    def test_signals_are_passed_on(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
            process = self.start("run", "--lock", "b", "--", "sh", "-c", f"trap 'echo got; exit 9' {number.value}; echo up; "
                                 "while :; do sleep 0.05; done")
            self.assertEqual(process.stdout.readline(), b"up\n")
            process.send_signal(number)
            out, _ = process.communicate(timeout=LIMIT_S)
            self.assertEqual((out, process.returncode), (b"got\n", 9))
        self.assertEqual(self.out("lock", "ls"), "")

    def test_a_signal_ends_the_wait(self):
        self.out("lock", "acquire", "c", "--lease", "1m")
        process = self.start("run", "--lock", "c", "--wait", "1h", "--", "true")
        wait_until(lambda: self.json("lock", "inspect", "c")["waiters"] == "1")
        process.terminate()
        process.communicate(timeout=LIMIT_S)
        self.assertEqual(process.returncode, 128 + signal.SIGTERM)
        wait_until(lambda: self.json("lock", "inspect", "c")["waiters"] == "0")

    def test_a_signal_releases_a_lock_granted_just_before(self):
        self.out("lock", "acquire", "c", "--lease", "1m")
        process = self.start("run", "--lock", "c", "--lease", "6s", "--wait", "1h", "--", "echo", "ran")
        wait_until(lambda: self.json("lock", "inspect", "c")["waiters"] == "1")
        os.kill(process.pid, signal.SIGSTOP)
        self.out("lock", "force-release", "c")
        # Renewed: so the process that waited knows that it was granted.
        wait_until(lambda: any(int(holder["heldMs"]) + int(holder["leaseMs"]) > 6000
                               for holder in self.json("lock", "inspect", "c").get("holders", [])))
        process.terminate()
        os.kill(process.pid, signal.SIGCONT)
        out, _ = process.communicate(timeout=LIMIT_S)
        self.assertEqual((out, process.returncode), (b"", 128 + signal.SIGTERM))
        self.assertFalse(self.json("lock", "inspect", "c").get("holders"))

    # promise CL2
    def test_at_a_terminal(self):
        """The program has the terminal and gets each ^C once. Several are sent, because two in quick succession count
        as one."""
        script = "import signal, sys\nboth = [signal.SIGINT, signal.SIGUSR1]\nsignal.pthread_sigmask(signal.SIG_BLOCK, both)\n" \
                 "print(sys.stdin.isatty(), flush=True)\nn = 0\nwhile signal.sigwait(both) == signal.SIGINT:\n" \
                 " n += 1\n print(f'heard {n}', flush=True)\nprint('told', n, flush=True)\n"
        def told(text):
            """The terminal's echo of ^C may come in the midst of a line."""
            terminal.wait(r"(?:\^C)*".join(map(re.escape, text)))

        terminal = self.at_terminal(script)
        told("True\r\n")
        for n in range(1, 31):
            terminal.type("\x03")
            told(f"heard {n}\r\n")
        os.kill(terminal.pid, signal.SIGUSR1)  # lockstock passes it on after the earlier ones
        told("told 30\r\n")
        self.assertEqual(terminal.end(), OK)

    # promise CL2
    def test_at_a_terminal_the_program_dies_with_it(self):
        script = "import os, signal, time\nsignal.signal(signal.SIGHUP, signal.SIG_IGN)\n" \
                 "print('pid', os.getpid(), flush=True)\nwhile True: time.sleep(1)\n"
        terminal = self.at_terminal(script)
        program = int(terminal.wait(r"pid (\d+)").group(1))
        os.kill(terminal.pid, signal.SIGKILL)
        wait_until(lambda: gone(program))

    def at_terminal(self, script):
        terminal = Terminal(LOCKSTOCK, "run", "--lock", "d", "--", PY, "-c", script, env=self.env)
        self.addCleanup(terminal.close)
        return terminal


class Once(Case):
    def once(self, *program, code=OK, flags=("--key", "k")):
        return self.run_cli("once", *flags, "--", *program, code=code)

    # promise CL3
    def test_a_result_is_kept_with_its_exit_code(self):
        count = f"{self.server.dir}/count"
        script = f"echo x >> {count}; printf 'a\\000b'; echo to-errors >&2; exit 3"
        self.assertEqual(self.once("sh", "-c", script, code=3), ("a\0b", "to-errors\n"))
        self.assertEqual(self.once("sh", "-c", script, code=3), ("a\0b", ""))
        self.assertEqual(self.once("true", code=3)[0], "a\0b")
        self.assertEqual(self.once("echo", "other", flags=("--key", "k2"))[0], "other\n")
        with open(count) as lines:
            self.assertEqual(len(lines.readlines()), 1)

    # promise CL3
    def test_output_that_cannot_be_written(self):
        """Its result is stored all the same, also if nobody reads its output."""
        count = f"{self.server.dir}/{self.env['LOCKSTOCK_NAMESPACE']}"
        script = f"seq 1 100000; echo x >> {count}"
        for output in ("| true", ">/dev/full"):
            for _ in range(2):
                done = subprocess.run(["bash", "-c", f'"$@" {output}; exit ${{PIPESTATUS[0]}}', "bash", LOCKSTOCK, "once", "--key",
                                       output, "--", "sh", "-c", script], env=self.env,
                                      capture_output=True, timeout=LIMIT_S, check=False)
                self.assertEqual(done.returncode, AROUND + OTHER, done.stderr)
                self.assertEqual(done.stderr.count(b"lockstock: standard output: cannot be written\n"), 1, done.stderr)
        with open(count) as lines:
            self.assertEqual(len(lines.readlines()), 2)
        self.once("sh", "-c", "kill -s PIPE $$", code=128 + signal.SIGPIPE)  # which the program does not ignore

    def test_many_at_once_run_it_once(self):
        count = f"{self.server.dir}/many"
        processes = [self.start("once", "--key", "k", "--wait", "30s", "--", "sh", "-c", f"echo x >> {count}; echo done")
                     for _ in range(4)]
        for process in processes:
            out, err = process.communicate(timeout=LIMIT_S)
            self.assertEqual((out, process.returncode), (b"done\n", OK), err)
        with open(count) as lines:
            self.assertEqual(len(lines.readlines()), 1)

    # promise CL3
    def test_a_retryable_failure_runs_again(self):
        self.once("sh", "-c", "exit 75", code=75)
        self.once("sh", "-c", "kill -9 $$", code=137)
        self.once("/nonexistent/program", code=NO_PROGRAM)
        self.assertEqual(self.once("sh", "-c", "echo $LOCKSTOCK_ATTEMPT")[0], "4\n")

    def test_an_exit_code_above_128_is_not_taken_for_a_signal(self):
        self.once("sh", "-c", "echo first; exit 255", code=255)
        self.assertEqual(self.once("echo", "second", code=255)[0], "first\n")

    def test_a_lost_attempt_has_time_to_end(self):
        """Also a stopped one; a program that writes all the time has as much time as others."""
        for stopped in ("", "kill -STOP $$;"):
            script = "trap 'for i in 1 2 3; do /bin/echo x; done; echo end; exit 3' TERM; echo up;" \
                     f"{stopped} while :; do sleep 0.02; done"
            self.assertIn(b"end\n", self.lost(script))

    def test_a_lost_attempt_that_does_not_end_is_killed(self):
        self.lost("trap '' TERM; echo up; while :; do sleep 0.02; done")

    def test_a_lost_attempt_is_never_a_success(self):
        """The lease is so short that some are lost before the program starts."""
        processes = [self.start("once", "--key", f"brief{i}", "--lease", "10ms", "--", "sleep", "0.5") for i in range(20)]
        for process in processes:
            _, err = process.communicate(timeout=LIMIT_S)
            self.assertFalse(process.returncode == OK and b"is lost" in err, err)

    def test_processes_of_the_program_end_with_lockstock(self):
        process = self.start("once", "--key", "k", "--", "sh", "-c", "sleep 1000 & echo $!; wait")
        program = int(process.stdout.readline())
        process.kill()
        process.communicate(timeout=LIMIT_S)
        wait_until(lambda: gone(program))

    def lost(self, script):
        """Returns its output; its result is not stored."""
        process = self.start("once", "--key", "k", "--lease", "600ms", "--", "sh", "-c", script)
        self.assertEqual(process.stdout.readline(), b"up\n")
        self.out("idempotency", "delete", "lockstock-once", "k")
        out, err = process.communicate(timeout=LIMIT_S)
        self.assertEqual(process.returncode, LOST, err)
        return out

    # promise CL3
    def test_a_final_failure_prints_no_control_characters(self):
        fence = self.json("idempotency", "begin", "lockstock-once", "k", "--lease", "1m")["fence"]
        self.out("idempotency", "fail", "lockstock-once", "k", "--fence", fence, "--kind", "final", "--detail", "\x1b[2J\n")
        self.assertIn("for good: ?[2J?\n", self.err("once", "--key", "k", "--", "true", code=AROUND + REFUSED))

    def test_refusals(self):
        self.once("true", flags=("--key", "k", "--fingerprint", "a"))
        self.assertIn("another request", self.err("once", "--key", "k", "--fingerprint", "b", "--", "true",
                                                  code=AROUND + REFUSED))
        process = self.start("once", "--key", "busy", "--", "sh", "-c", "echo up; while :; do sleep 0.05; done")
        self.assertEqual(process.stdout.readline(), b"up\n")
        self.assertIn("another attempt", self.err("once", "--key", "busy", "--", "true", code=AROUND + REFUSED))
        process.terminate()
        process.communicate(timeout=LIMIT_S)
        self.assertEqual(process.returncode, 128 + signal.SIGTERM)
        self.assertEqual(self.once("echo", "again", flags=("--key", "busy"))[0], "again\n")
        self.err("once", "--", "true", code=AROUND + USAGE)
        self.err("once", "--key", "x", code=AROUND + USAGE)

    def test_long_output_is_cut_in_the_replay(self):
        script = "head -c 300000 /dev/zero | tr '\\000' x"
        done = subprocess.run([LOCKSTOCK, "once", "--key", "k", "--", "sh", "-c", script], env=self.env, capture_output=True,
                              timeout=LIMIT_S, check=True)
        self.assertEqual(len(done.stdout), 300000)
        self.assertIn(b"only its first", done.stderr)
        done = subprocess.run([LOCKSTOCK, "once", "--key", "k", "--", "true"], env=self.env, capture_output=True,
                              timeout=LIMIT_S, check=True)
        self.assertEqual(len(done.stdout), 256 * 1024)
        self.assertIn(b"the output is cut", done.stderr)


class Limit(Case):
    # promise CL3: `once` keeps the output and exit code of a program, but not temporary failures; `limit` runs
    #   nothing over the limit
    def test_only_as_often_as_the_rate_says(self):
        limit = ("limit", "--key", "mail", "--rate", "2/1h")
        self.assertEqual(self.out(*limit, "--", "echo", "sent"), "sent\n")
        self.run_cli(*limit, "--", "sh", "-c", "exit 4", code=4)
        self.assertRegex(self.err(*limit, "--", "echo", "sent", code=AROUND + REFUSED), "mail: over the limit, try again in [23]")
        self.assertIn("limit ever allows", self.err("limit", "--key", "other", "--rate", "2/h", "--cost", "3", "--", "true",
                                               code=AROUND + REFUSED))
        self.assertEqual(self.out("limit", "--key", "often", "--rate", "1/10ms", "--wait", "20s", "--", "echo", "1"), "1\n")
        self.assertEqual(self.out("limit", "--key", "often", "--rate", "1/10ms", "--wait", "20s", "--", "echo", "2"), "2\n")

    def test_its_timeout(self):
        with socket.socket(socket.AF_UNIX) as silent:
            path = f"{self.server.dir}/silent"
            silent.bind(path)
            silent.listen()
            self.env["LOCKSTOCK_SERVER"] = f"unix://{path}"
            limit = ("limit", "--key", "a", "--rate", "1/s")
            patient = self.start(*limit, "--timeout", "10m", "--", "true")
            with silent.accept()[0]:
                self.err(*limit, "--", "true", code=AROUND + UNAVAILABLE)  # began later
                self.assertIsNone(patient.poll())
                patient.kill()
                patient.communicate(timeout=LIMIT_S)

    def test_a_policy(self):
        self.out("rate-limit", "put", "login", "algorithm=fixed-window,limit=1,period=1h")
        self.out("limit", "--key", "ann", "--policy", "login", "--", "true")
        self.err("limit", "--key", "ann", "--policy", "login", "--", "true", code=AROUND + REFUSED)

    def test_an_error_names_the_flag(self):
        for flag, args in (("--key", ("--key", "x" * 200, "--rate", "1/s")), ("--rate", ("--key", "a", "--rate", "1/1000d")),
                           ("--group", ("--key", "a", "--rate", "1/s", "--group", "x" * 200)),
                           ("--policy", ("--key", "a", "--policy", "x" * 200))):
            self.assertIn(f"lockstock: {flag}: must be", self.err("limit", *args, "--", "true", code=AROUND + USAGE))

    def test_an_unknown_policy(self):
        self.assertEqual(self.err("limit", "--key", "a", "--policy", "typo", "--", "true", code=AROUND + USAGE),
                         "lockstock: --policy: no such policy\n")

    def test_usage_errors(self):
        for args in (("--rate", "1/s"), ("--key", "a"), ("--key", "a", "--rate", "1"), ("--key", "a", "--rate", "0/s"),
                     ("--key", "a", "--rate", "1/x"), ("--key", "a", "--rate", "1/.5s"), ("--key", "a", "--rate", "1/e3s"),
                     ("--key", "a", "--rate", "1/s", "--policy", "p"), ("--key", "a", "--burst", "2", "--policy", "p")):
            self.err("limit", *args, "--", "true", code=AROUND + USAGE)
        self.err("limit", "--key", "a", "--rate", "1/s", code=AROUND + USAGE)
        self.err("limit", "--key", "a", "--rate", "1/s", "--", "/nonexistent/program", code=NO_PROGRAM)


if __name__ == "__main__":
    main()
