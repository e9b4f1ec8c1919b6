#!/usr/bin/env python3
# promise CL4
"""Commands for operators: lock release --force, lock exec, stock ledger and watch, status, bench.

    cli_hands.py LOCKSTOCK LOCKSTOCKD
"""
import contextlib
import json
import os
import signal
import socket
import subprocess
import threading
import time

from cli_scene import LIMIT_S, LOCKSTOCK, LOCKSTOCKD, OK, OTHER, REFUSED, UNAVAILABLE, UNKNOWN, USAGE, Case, main, wait_until


def field(number, value):
    """A field of a message: bytes, or a small number."""
    if isinstance(value, bytes):
        return bytes([number << 3 | 2, len(value)]) + value
    return bytes([number << 3, value])


class OldServer:
    """Answers every call with the same page."""
    # of the ledger, with an entry and no next_after
    LEDGER = field(1, 1) + field(2, field(1, b"1-1000") + field(2, 1) + field(3, b"phone") + field(4, 5))
    ITEMS = field(1, field(1, b"phone")) + field(2, b"next")

    def __init__(self, page):
        self.result = field(4, page)

    def __enter__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"tcp://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.serve, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.listener.close()

    def serve(self):
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            with peer, peer.makefile("rwb") as stream:
                stream.write(b"\0SP\0\0\x31\0\0")
                stream.flush()
                stream.read(8)
                while header := stream.read(8):
                    request = stream.read(int.from_bytes(header, "big"))
                    reply = request[:4] + field(1, self.result)
                    stream.write(len(reply).to_bytes(8, "big") + reply)
                    stream.flush()


class LateServer:
    """A proxy in front of a server: keeps requests, answers nothing, and passes them on when told to."""
    GREETING = {"client": b"\0SP\0\0\x30\0\0", "server": b"\0SP\0\0\x31\0\0"}

    def __init__(self, server):
        self.path, self.server, self.kept = f"{server.dir}/late", server.url.removeprefix("unix://"), []

    def __enter__(self):
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen()
        threading.Thread(target=self.keep, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.listener.close()
        os.unlink(self.path)

    def urls(self):
        return f"unix://{self.path},unix://{self.server}"

    def keep(self):
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.keep_of, args=(peer,), daemon=True).start()

    def keep_of(self, peer):
        with peer, peer.makefile("rb") as stream, contextlib.suppress(OSError):  # who sent nothing may be gone
            peer.sendall(self.GREETING["server"])
            stream.read(8)
            while header := stream.read(9):  # one byte before the length, on unix sockets
                self.kept.append(header + stream.read(int.from_bytes(header[1:], "big")))

    def deliver(self):
        """Each is answered when it returns."""
        with socket.socket(socket.AF_UNIX) as peer:
            peer.connect(self.server)
            with peer.makefile("rwb") as stream:
                stream.write(self.GREETING["client"])
                stream.flush()
                stream.read(8)
                for message in self.kept:
                    stream.write(message)
                    stream.flush()
                    header = stream.read(9)
                    stream.read(int.from_bytes(header[1:], "big"))


# promise M6
class LateCopies(Case):
    def refused(self, late, *args, code):
        """A call whose first try went to the server that does not answer."""
        while not late.kept:
            out, err = self.run_cli("--server", late.urls(), *args, code=None)
            if late.kept:
                self.assertEqual(self.code, code, out + err)
        return err

    def test_a_refused_acquire_takes_nothing_later(self):
        token = self.json("lock", "acquire", "door", "--lease", "10m")["token"]
        with LateServer(self.server) as late:
            self.refused(late, "lock", "acquire", "door", "--lease", "10m", code=REFUSED)
            self.out("lock", "release", "door", "--token", token)
            late.deliver()
        self.assertEqual(self.json("lock", "inspect", "door")["holders"], [])

    def test_a_run_without_the_lock_takes_nothing_later(self):
        token = self.json("lock", "acquire", "door", "--lease", "10m")["token"]
        with LateServer(self.server) as late:
            self.refused(late, "run", "--lock", "door", "--lease", "10m", "--", "true", code=120 + REFUSED)
            self.out("lock", "release", "door", "--token", token)
            late.deliver()
        self.assertEqual(self.json("lock", "inspect", "door")["holders"], [])

    def test_an_unanswered_order_may_have_been_applied(self):
        for command, done, more in (("deduct", "deducted", ()), ("reserve", "reserved", ("--hold", "10m"))):
            order = ("stock", command, "o1", "--line", f"{command}=1", "--group", command, *more)
            self.out("stock", "put", command, "0")
            with LateServer(self.server) as late:
                err = self.refused(late, *order, code=UNKNOWN)
                self.assertIn("it may have been applied", err)
                self.out("stock", "put", command, "1")
                late.deliver()
            self.assertIn(done, self.out(*order))


class Hands(Case):
    def test_lock(self):
        self.out("lock", "acquire", "door", "--lease", "1m", "--owner", "me")
        self.assertRegex(self.out("lock", "ls"), r" OWNER +WAITERS\ndoor .* me +0\n")
        self.assertRegex(self.out("lock", "release", "door", "--force"), r"OWNER +FENCE .*\nme +\d+ ")
        self.assertEqual(self.out("lock", "ls"), "")
        self.assertEqual(self.out("lock", "exec", "door", "--", "sh", "-c", "echo $LOCKSTOCK_LOCK"), "door\n")
        self.err("lock", "exec", "--", "true", code=120 + USAGE)
        self.assertIn("--lease TIME", self.out("lock", "exec", "--help"))
        self.assertIn("  exec ", self.out("lock", "--help"))

    def test_ledger(self):
        self.out("stock", "put", "phone", "10")
        self.out("stock", "deduct", "o1", "--group", "phone", "--line", "phone=2")
        lines = self.out("stock", "ledger", "phone").splitlines()
        self.assertEqual([line.split()[3:5] for line in lines[1:]], [["put", "10"], ["deducted", "2"]])
        self.assertEqual(lines[0].split(), ["TIME", "ID", "KIND", "QUANTITY", "SKU", "ORDER"])
        entries = [json.loads(line) for line in self.out("stock", "ledger", "--group", "phone", "--json").splitlines()]
        self.assertEqual([entry["kind"] for entry in entries], ["LEDGER_KIND_PUT", "LEDGER_KIND_DEDUCTED"])
        first = entries[0]["id"]
        self.assertEqual(len(self.out("stock", "ledger", "phone", "--after", first).splitlines()), 2)
        self.out("stock", "trim-ledger", first, "--group", "phone")
        self.assertIn("were trimmed", self.run_cli("stock", "ledger", "phone", "--after", "0-0", code=REFUSED)[1])
        self.err("stock", "ledger", code=USAGE)

    def test_a_ledger_whose_server_does_not_move_on(self):
        """Like servers without next_after: the same page is returned forever."""
        with OldServer(OldServer.LEDGER) as old:
            for follow in ((), ("--follow",)):
                out, err = self.run_cli("stock", "ledger", "phone", *follow, "--server", old.url, code=OTHER)
                self.assertEqual(len(out.splitlines()), 2)
                self.assertIn("the server returns the same page again", err)

    def test_a_list_whose_server_does_not_move_on(self):
        with OldServer(OldServer.ITEMS) as old:
            self.assertIn("the server returns the same page again", self.err("stock", "ls", "--server", old.url, code=OTHER))

    def test_a_ledger_that_is_followed(self):
        process = self.start("stock", "ledger", "phone", "--follow", "--json")
        for n in range(3):
            self.out("stock", "put", "phone", str(n + 1))
            self.assertEqual(json.loads(process.stdout.readline())["kind"], "LEDGER_KIND_PUT")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=LIMIT_S)
        self.assertEqual(process.returncode, -signal.SIGINT)

    def test_an_item_that_is_watched(self):
        self.err("stock", "watch", "phone", code=REFUSED)
        self.out("stock", "put", "phone", "10")
        process = self.start("stock", "watch", "phone", "--every", "10ms")
        self.assertEqual(process.stdout.readline().split(), [b"TIME", b"AVAILABLE", b"RESERVED", b"SOLD", b"STATE"])
        self.assertEqual(process.stdout.readline().split()[2:], [b"10", b"0", b"0", b"open"])
        self.out("stock", "reserve", "o1", "--group", "phone", "--line", "phone=2", "--hold", "1m")
        self.assertEqual(process.stdout.readline().split()[2:], [b"8", b"2", b"0", b"open"])
        process.terminate()
        process.communicate(timeout=LIMIT_S)

    def test_an_item_is_watched_while_its_server_is_away(self):
        self.out("stock", "put", "phone", "1")
        process = self.start("stock", "watch", "phone", "--every", "10ms", "--json", "--timeout", "300ms")
        self.assertEqual(json.loads(process.stdout.readline())["available"], "1")
        self.server.process.send_signal(signal.SIGSTOP)
        time.sleep(1)
        self.server.process.send_signal(signal.SIGCONT)
        self.out("stock", "put", "phone", "2")
        self.assertEqual(json.loads(process.stdout.readline())["available"], "2")
        process.terminate()
        process.communicate(timeout=LIMIT_S)

    def test_an_item_that_is_watched_in_json(self):
        self.out("stock", "put", "phone", "0")
        process = self.start("stock", "watch", "phone", "--every", "10ms", "--json")
        for n in range(5):
            self.assertEqual(json.loads(process.stdout.readline())["available"], str(n))
            self.out("stock", "put", "phone", str(n + 1))
        self.assertEqual(json.loads(process.stdout.readline())["available"], "5")
        self.out("stock", "rm", "phone")
        _, err = process.communicate(timeout=LIMIT_S)
        self.assertEqual(process.returncode, REFUSED, err)
        self.assertEqual(err.count(b"\n"), 1, err)  # a sanitizer's code is 1, too

    def test_status_of_a_url_with_quotes(self):
        url = 'unix:///nonexistent/"\\'
        out, _ = self.run_cli("status", "--server", url, "--timeout", "50ms", "--json", code=UNAVAILABLE)
        told = json.loads(out)
        self.assertIn("No such file or directory", told.pop("why"))
        self.assertEqual(told, {"server": url, "up": False, "store": False, "reason": "server_unreachable"})

    def test_status(self):
        out = self.out("status")
        self.assertRegex(out, rf"^SERVER +STATE +STORE\n{self.server.url} +up, [\d.]+ ms +up, [\d.]+ ms *\n$")
        both = f"unix:///nonexistent/s,{self.server.url}"
        out, _ = self.run_cli("status", "--server", both, "--timeout", "300ms", code=UNAVAILABLE)
        self.assertRegex(out, r"nonexistent/s +down +down .*No such file or directory\n.* +up, [\d.]+ ms +up, [\d.]+ ms *\n$")
        lines = self.run_cli("status", "--server", both, "--timeout", "300ms", "--json", code=UNAVAILABLE)[0].splitlines()
        self.assertEqual([(told["up"], "why" in told) for told in map(json.loads, lines)], [(False, True), (True, False)])
        self.assertEqual(self.run_cli("status", "--server", "tpc://x", code=USAGE)[0], "")
        self.err("status", "all", code=USAGE)

    def test_without_standard_files(self):
        """The channel's first descriptor does not take the place of a closed standard output."""
        closed = ("sh", "-c", 'exec "$@" >&- 2>"$0"', f"{self.server.dir}/errors", LOCKSTOCK)
        done = subprocess.run([*closed, "once", "--key", "k", "--", "printf", "1234567\\n"], stdin=subprocess.DEVNULL,
                              env=self.env, timeout=LIMIT_S, check=False)
        self.assertEqual(done.returncode, 120 + OTHER)
        with open(f"{self.server.dir}/errors") as errors:
            self.assertEqual(errors.read(), "lockstock: standard output: cannot be written\n")
        self.assertEqual(self.out("once", "--key", "k", "--", "false"), "1234567\n")

    def test_a_server_without_standard_files(self):
        url = f"unix://{self.server.dir}/closed"
        server = subprocess.Popen(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", LOCKSTOCKD, "--listen", url, "--store",
                                   f"embedded:{self.server.dir}/closed-data", "--fsync", "everysec"])
        try:
            wait_until(lambda: server.poll() is not None or "up" in self.run_cli("status", "--server", url, code=None)[0])
            self.out("stock", "put", "phone", "1", "--server", url)
        finally:
            server.terminate()
            self.assertEqual(server.wait(LIMIT_S), OK)

    def test_bench(self):
        os.symlink("/bin/echo", f"{self.server.dir}/lockstock-bench")
        if not os.path.exists(f"{LOCKSTOCK}-bench"):  # there is none beside it in a build directory
            out = self.out("bench", "deduct", "--seconds", "1", env={"PATH": self.server.dir})
            self.assertEqual(out, "deduct --seconds 1\n")
            self.err("bench", env={"PATH": "/nonexistent"}, code=127)
        # It would measure another server.
        self.assertIn("bench: flags must follow the command", self.err("--server", self.server.url, "bench", "deduct", code=USAGE))


if __name__ == "__main__":
    main()
