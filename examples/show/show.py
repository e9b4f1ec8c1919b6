#!/usr/bin/env python3
"""A flash sale in two shops at once, to watch and to disturb, in a terminal and on a web page (page.py). Exits with 0 only
if lockstock's counts are exact.

It starts a lockstockd with an embedded Redis (fsync always), two lockstockd on the same Redis, and the clients of both
shops (client.c), which print the answers that their buyers get. It restarts what the keys kill.
"""
import argparse
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import webbrowser

import facts
from facts import EXACT, NAIVE, SHOPS
from page import Page
from screen import Screen, line

CLIENTS = 4
WAVE = 32  # buyers who come at the same time: one for each thread of the clients (client.c)
DOWN_S = 0.7
MOMENT_S = 2  # how long a key waits at most for a process that is in the middle of a call
FREEZE_S, FREEZE_MAX_S = 1, 5
STUCK_S, SILENT_S = 5, 30
START_S = 20
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Failure(Exception):
    """Ends the show with status 1."""


class Buyer:
    """One buyer's answer. States: away, waits, asks, bought, sold-out, none."""
    state, asked, lost, replayed, came_at = "away", False, False, False, 0


class Side:
    """The buyers of one shop, and the holder of its lock (shop by hand) or of its till (lockstock's)."""

    def __init__(self, n):
        self.buyers = [Buyer() for _ in range(n)]
        self.holder = None  # a Player
        self.frozen, self.frozen_at, self.followed = None, 0, False
        self.waited_ms = []  # of the buyers with an answer
        self.told_at = 0

    def count(self, *states):
        return sum(buyer.state in states for buyer in self.buyers)

    def lost(self):
        return [buyer for buyer in self.buyers if buyer.lost]

    def known(self):
        return sum(buyer.state in ("bought", "sold-out") for buyer in self.lost())


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


class Player:
    """A child process: RUNS, STRUCK when it is killed, then DOWN for a while; DONE after a clean end."""

    def __init__(self, name, command, side=None, index=0):
        self.name, self.command, self.side, self.index = name, command, side, index
        self.life, self.process, self.back_at, self.text = "DOWN", None, 0, b""


class Show:
    def __init__(self, options):
        self.options = options
        self.sides = [Side(options.buyers), Side(options.buyers)]
        self.news = []
        self.left, self.late, self.stuck, self.quits, self.why = options.phones, 0, False, False, None
        self.opened_at = self.redis_struck = self.failed = None
        self.next_server = 0
        self.dir = tempfile.mkdtemp(prefix="lockstock-show-")
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("LOCKSTOCK_")}
        self.redis = f"{self.dir}/data/redis.sock"
        self.urls = [f"unix://{self.dir}/{i}.sock" for i in (1, 2)]
        self.keeper = Player("the keeper of Redis",
                             self.serve(f"unix://{self.dir}/keeper.sock", f"embedded:{self.dir}/data"))
        self.consoles = [f"http://127.0.0.1:{free_port()}" for _ in self.urls]
        self.servers = [Player(f"server {i + 1}", self.serve(f"{url},{self.consoles[i]}", f"unix://{self.redis}", "--console"))
                        for i, url in enumerate(self.urls)]
        self.clients = [[], []]

    def serve(self, urls, store, *flags):
        return [self.options.lockstockd, "--listen", urls, "--store", store, "--fsync", "always", *flags]

    # ---- processes ----------------------------------------------------------------------

    def log(self, player):
        return os.path.join(self.dir, player.name + ".log")

    def start(self, player):
        """setpriv: the kernel ends it with the show. A new session: Ctrl-C does not reach it."""
        pipe = subprocess.DEVNULL if player.side is None else subprocess.PIPE
        with open(self.log(player), "ab") as log:
            player.process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *player.command], stdin=pipe,
                                              stdout=log if player.side is None else pipe, stderr=log, env=self.env,
                                              start_new_session=True)
        player.life, player.text = "RUNS", b""
        if player.side is not None:
            self.send_buyers(player, "waits", "asks")

    def send_buyers(self, player, *states):
        """Sends it its buyers in these states, and those who come now. The last one ends its input. If one has asked
        an earlier client, the answer is lost."""
        pipe, now = player.process.stdin, time.monotonic()
        if pipe.closed:
            return
        come = 0 if self.quits or not self.opened_at else \
            (now - self.opened_at) / self.options.seconds * self.options.buyers // WAVE * WAVE + WAVE
        lines, last = [], True
        for i in range(player.index, self.options.buyers, CLIENTS):
            buyer = self.sides[player.side].buyers[i]
            if buyer.state == "away" and i < come:
                buyer.came_at = now
            elif buyer.state not in states:
                last = last and (buyer.state != "away" or self.quits)
                continue
            buyer.lost |= buyer.state == "asks"
            buyer.state = "waits"
            lines.append(f"{i} {int(buyer.asked)}\n")
        try:
            pipe.write("".join(lines).encode())
            pipe.flush()
            if last:
                pipe.close()
        except BrokenPipeError:
            pass  # it has ended; look_after reads its status

    def run_client(self, *args, text=""):
        """Runs a client to its end; returns the words of its line."""
        done = subprocess.run([self.options.client, *args], input=text.encode(), capture_output=True, env=self.env,
                              check=False)
        if done.returncode != 0:
            raise Failure(done.stderr.decode().strip() or f"{self.options.client} ended with {done.returncode}")
        return done.stdout.decode().split()

    def open(self):
        """Starts Redis and the servers, puts the phones on sale, and starts the clients."""
        self.start(self.keeper)
        end = time.monotonic() + START_S
        while self.ask_redis(f"SET naive:shelf {self.options.phones}") != "+OK":
            self.look_after(self.keeper)
            if time.monotonic() > end:
                raise Failure("Redis does not start")
            time.sleep(0.01)
        for server in self.servers:
            self.start(server)
        _, self.run, self.group = self.run_client("put", ",".join(self.urls), str(self.options.phones), str(self.options.buyers))
        for i in range(CLIENTS):
            urls = ",".join(self.urls[::-1 if i % 2 else 1])  # half of the clients prefer each server
            for side, command in ((NAIVE, ["naive", self.redis]),
                                  (EXACT, ["exact", urls, self.run, self.group, str(self.options.buyers)])):
                player = Player(f"{SHOPS[side]} client {i + 1}", [self.options.client, *command], side, i)
                self.clients[side].append(player)
                self.start(player)
        self.opened_at = time.monotonic()

    def ask_redis(self, command):
        """Sends one command; returns the answer, or "" if there is none."""
        try:
            with socket.socket(socket.AF_UNIX) as redis:
                redis.settimeout(1)
                redis.connect(self.redis)
                redis.sendall(command.encode() + b"\r\n")
                return redis.recv(4096).decode().strip()
        except OSError:
            return ""

    def redis_pid(self):
        found = re.search(r"process_id:(\d+)", self.ask_redis("INFO server"))
        return found and int(found[1])

    # ---- the clients' lines ---------------------------------------------------------------

    def all_clients(self):
        return self.clients[NAIVE] + self.clients[EXACT]

    def listen(self, seconds, *others):
        """Reads lines of clients for so long at most; returns the members of `others` that can be read."""
        pipes = {player.process.stdout: player for player in self.all_clients() if not player.process.stdout.closed}
        readable = select.select([*pipes, *others], [], [], seconds)[0]
        for pipe in readable:
            if pipe in pipes:
                self.read(pipes[pipe])
        return [other for other in others if other in readable]

    def read(self, player):
        data = os.read(player.process.stdout.fileno(), 65536)
        if not data:
            player.process.stdout.close()
        *lines, player.text = (player.text + data).split(b"\n")
        for words in lines:
            self.heard(player, words.decode().split(" "))

    def heard(self, player, words):
        side = self.sides[player.side]
        what, buyer = words[0], side.buyers[int(words[1])] if words[0] in ("asks", "lost", "told") else None
        if what == "asks":
            buyer.state, buyer.asked = "asks", True
        elif what == "lost":
            buyer.lost = True
        elif what == "told":
            buyer.state, buyer.replayed = words[2], words[3] == "1"
            side.told_at = time.monotonic()
            side.waited_ms.append(int((side.told_at - buyer.came_at) * 1000))
        elif what == "hold":
            side.holder = player
        elif what == "done" and side.holder is player:
            side.holder = None
        elif what == "wrote" and player is not side.frozen:
            side.followed = True
        elif what == "late":
            self.late += 1
            self.news.append("a late write to the till was refused, by its fence")
        elif what == "left":
            self.left = int(words[1])

    def listen_and_send(self, seconds):
        for player in self.all_clients():
            if player.life == "RUNS" and player is not self.sides[player.side].frozen:
                self.send_buyers(player)
        self.listen(seconds)

    # ---- progress ----------------------------------------------------------------------------

    def look_after(self, player):
        if player.life in ("RUNS", "STRUCK") and player.process.poll() is not None:
            status = player.process.returncode
            self.read_rest(player)
            if player.life == "STRUCK":
                player.life, player.back_at = "DOWN", time.monotonic() + DOWN_S
                if player.side is not None and self.sides[player.side].holder is player:
                    self.sides[player.side].holder = None
            else:
                player.life = "DONE"
                if player.side is None or status != 0:
                    self.failed = player
                    raise Failure(f"{player.name} ended unexpectedly, "
                                  + (f"signal {-status}" if status < 0 else f"exit status {status}"))
        if player.life == "DOWN" and time.monotonic() >= player.back_at:
            if player.side is None:
                self.news.append(f"{player.name} is started again")
            elif player.side == EXACT:
                self.news.append("new clients continue: lockstock's asks again by the same order ids")
            self.start(player)

    def read_rest(self, player):
        while player.side is not None and not player.process.stdout.closed:
            self.read(player)

    def tick(self):
        for player in [self.keeper, *self.servers, *self.all_clients()]:
            self.look_after(player)
        self.listen_and_send(0)
        if self.redis_struck and self.redis_pid() not in (None, self.redis_struck):
            self.news.append("Redis runs again, with all that was acknowledged (appendfsync always)")
            self.redis_struck = None
        for side in self.sides:
            self.thaw(side)
        self.give_up()

    def thaw(self, side):
        seconds = time.monotonic() - side.frozen_at
        followed = side.followed or side is self.sides[NAIVE]
        if side.frozen and seconds >= FREEZE_S and (followed or seconds >= FREEZE_MAX_S):
            os.kill(side.frozen.process.pid, signal.SIGCONT)
            self.news.append(f"{side.frozen.name} continues, and writes what it was about to write")
            side.frozen = None

    def give_up(self):
        """Ends the shop by hand if no buyer got an answer for long: a dead client's lock has no end, or Redis is gone."""
        side = self.sides[NAIVE]
        if side.count("asks") == 0 or not side.told_at:
            side.told_at = time.monotonic()
        silent = time.monotonic() - side.told_at
        if silent > SILENT_S or (silent > STUCK_S and self.ask_redis("PTTL naive:lock") == ":-1"):
            self.stuck = True
        if self.stuck or self.quits:
            self.end_clients(NAIVE)

    def end_clients(self, side):
        for player in self.clients[side]:
            if player.life in ("RUNS", "STRUCK"):
                player.process.kill()
                player.process.wait()
                self.read_rest(player)
            player.life = "DONE"
        self.sides[side].frozen = None
        for buyer in self.sides[side].buyers:
            if buyer.state in ("waits", "asks") or (buyer.state == "away" and self.stuck):
                buyer.state = "none"

    def is_over(self):
        return all(player.life == "DONE" for player in self.all_clients()) and all(server.life == "RUNS" for server in self.servers)

    def percent(self):
        return self.sides[EXACT].count("bought", "sold-out") * 100 // self.options.buyers

    def state(self, **more):
        """The state that page.js draws."""
        hand, ours = (side.count("bought") for side in self.sides)
        twice = facts.missed(self)
        console = next((url for url, server in zip(self.consoles, self.servers) if server.life == "RUNS"), self.consoles[0])
        return {"buyers": self.options.buyers, "phones": self.options.phones, "headlines": facts.headlines(self),
                "rows": [[facts.text(value) for value in row] for row in facts.rows(self)],
                "parts": [[hand - twice, twice, self.left], [ours, 0, self.options.phones - ours]], "news": self.news[-6:],
                "console": f"{console}/console/#/stock?group={self.group}&sku=good-0", "over": False, **more}

    # ---- keys ----------------------------------------------------------------------------------

    def press(self, key):
        keys = {"s": self.kill_server, "r": self.kill_redis, "c": self.kill_client, "f": self.freeze_holders, "q": self.quit}
        if key in keys:
            keys[key]()

    def quit(self):
        self.quits = True
        self.news.append("no more buyers come; those who wait at lockstock's still get their answer")

    def client_in_the_middle(self):
        """Waits for a client with a running call at lockstock, and returns it; else one that runs."""
        end = time.monotonic() + MOMENT_S
        while True:
            self.listen_and_send(0.01)
            running = [player for player in self.clients[EXACT]
                       if player.life == "RUNS" and player is not self.sides[EXACT].frozen]
            buyers = self.sides[EXACT].buyers
            for player in running:
                if any(buyer.state == "asks" for buyer in buyers[player.index::CLIENTS]):
                    return player
            if not running or time.monotonic() > end:
                return running[-1] if running else None

    @staticmethod
    def strike(player):
        player.process.kill()
        player.life = "STRUCK"

    def kill_server(self):
        server = self.servers[self.next_server]
        if server.life != "RUNS":
            self.news.append(f"{server.name} is down already")
            return
        self.next_server = 1 - self.next_server
        self.client_in_the_middle()
        self.strike(server)
        self.news.append(f"kill -9 of {server.name} (process {server.process.pid})")

    def kill_redis(self):
        pid = self.redis_pid()
        if not pid:
            self.news.append("Redis is down already")
            return
        self.client_in_the_middle()
        os.kill(pid, signal.SIGKILL)
        self.redis_struck = pid
        self.news.append(f"kill -9 of Redis (process {pid}), which both shops use")

    def kill_client(self):
        ours = self.client_in_the_middle()
        if not ours:
            self.news.append("no client runs any more")
            return
        self.strike(ours)  # at once: its call is under way now
        naive = self.clients[NAIVE][ours.index]
        if naive.life == "RUNS" and naive is not self.sides[NAIVE].frozen:
            self.strike(naive)
        self.news.append(f"kill -9 of client {ours.index + 1} of each shop (process {naive.process.pid} and {ours.process.pid})")

    def freeze_holders(self):
        """Stops the holder of the lock by hand and the holder of the till before they write."""
        for number, side in enumerate(self.sides):
            if not side.frozen:
                self.freeze(number, side)

    def freeze(self, number, side):
        thing = "till" if number == EXACT else "lock"
        end = time.monotonic() + MOMENT_S
        while time.monotonic() < end:
            self.listen_and_send(0.01)
            player = side.holder
            if player and player.life == "RUNS":
                os.kill(player.process.pid, signal.SIGSTOP)
                os.waitid(os.P_PID, player.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
                self.listen(0)
                if side.holder is player and player.process.poll() is None:
                    side.frozen, side.frozen_at, side.followed = player, time.monotonic(), False
                    self.news.append(f"{player.name} is frozen, and holds its {thing}")
                    return
                os.kill(player.process.pid, signal.SIGCONT)
        self.news.append(f"no client holds {SHOPS[number]} {thing} now")

    # ---- the end ---------------------------------------------------------------------------------

    def check(self):
        """Compares all answers. Sets `why` if they are not exact; else returns the numbers of the item and the ledger."""
        exact = self.sides[EXACT]
        states = "".join(f"{i} {buyer.state}\n" for i, buyer in enumerate(exact.buyers) if buyer.state in ("bought", "sold-out"))
        verdict = self.run_client("check", ",".join(self.urls), self.run, self.group, str(self.options.phones),
                                  str(self.options.buyers), text=states)
        if verdict[0] == "flaw":
            self.why = " ".join(verdict[1:])
        elif exact.count("away", "bought", "sold-out") != self.options.buyers:
            self.why = "a buyer has no answer"
        return verdict[1:]

    def close(self):
        """Returns False if a server did not end cleanly."""
        for side in (NAIVE, EXACT):
            self.end_clients(side)
        clean = True
        for player in [*self.servers, self.keeper]:
            if player.life == "RUNS":
                player.process.terminate()
                try:
                    good = player.process.wait(15) == 0
                except subprocess.TimeoutExpired:
                    player.process.kill()
                    good = False
                self.failed = self.failed or (None if good else player)
                clean = clean and good
            if player.process:
                player.process.wait()
        if self.failed:
            with open(self.log(self.failed), encoding="utf-8", errors="replace") as log:
                sys.stderr.write(f"--- the end of the log of {self.failed.name} ---\n{log.read()[-4000:]}")
        shutil.rmtree(self.dir, ignore_errors=True)
        return clean


# ---- the program ------------------------------------------------------------------------------------


def between(least, most):
    def parse(text):
        value = int(text)
        if not least <= value <= most:
            raise ValueError
        return value
    return parse


def presses(text):
    """"30:s,50:r": percents, with keys."""
    return sorted((between(0, 100)(percent), "srcfq"["srcfq".index(key)])
                  for percent, key in (item.split(":") for item in text.split(",")))


def parse():
    build = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../build/release")
    parser = argparse.ArgumentParser(prog="show", description="keys: s kills (-9) a server, r Redis, c a client; "
                                     "f freezes the holders of the locks; q quits")
    parser.add_argument("--buyers", type=between(1, 20000), default=3840, help="of each shop (3840)")
    parser.add_argument("--phones", type=between(1, 1000000), default=3200, help="that each shop has (3200)")
    parser.add_argument("--seconds", type=between(1, 3600), default=48, help="during which the buyers come (48)")
    parser.add_argument("--press", type=presses, metavar="LIST", default=[],
                        help="presses keys: 30:s,50:r is s when 30 %% of the buyers have their answer, r when 50 %% have")
    parser.add_argument("--lines", action="store_true", help="print a line a second, as without a terminal")
    parser.add_argument("--lockstockd", default=f"{build}/server/lockstockd", help="the server's path")
    parser.add_argument("--client", default=f"{build}/examples/show/show_client", help="show_client's path")
    return parser.parse_args()


def play(show, screen, page):
    next_line = told = 0
    script, over = list(show.options.press), False
    while not over:
        show.tick()
        over = show.is_over()
        page.show(show.state())
        if screen:
            screen.show(show)
        else:
            for news in show.news[told:]:
                print("         " + news)
            told = len(show.news)
            if time.monotonic() >= next_line or over:
                print(f"{time.monotonic() - show.opened_at:6.1f} s  " + ", ".join(
                    f"{label} {hand} / {ours}" for label, hand, ours in facts.rows(show)[:7]), flush=True)
                next_line = time.monotonic() + 1
        keys = []
        while script and show.percent() >= script[0][0]:
            keys.append(script.pop(0)[1])
        end = time.monotonic() + 0.1
        while not keys and not over and time.monotonic() < end:
            if show.listen(max(0, end - time.monotonic()), *(screen.keys() if screen else [])):
                keys += screen.read_keys()
            keys += page.read_keys()
        for key in keys:
            show.press(key)


def run(show, screen, page):
    print(f"The same on a page: {page.url}", flush=True)
    if os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        webbrowser.open(page.url)
    try:
        show.open()
        if screen:
            screen.enter()
        play(show, screen, page)
    finally:
        if screen:
            screen.leave()
    verdicts = facts.verdicts(show, show.check())
    page.show(show.state(over=True, end=" ".join(verdicts)), is_last=True)
    print("\n" + "\n".join(map(line, [("", "by hand", "lockstock"), *facts.rows(show)])) + "\n")
    for style, verdict in zip((31, 31 if show.why else 32), verdicts):
        print(f"\033[1;{style}m{verdict}\033[0m" if screen else verdict, flush=True)
    return 1 if show.why else 0


def main():
    options = parse()
    live = not options.lines and sys.stdout.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb")

    for number in SIGNALS:
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    show, page = Show(options), Page()
    try:
        status = run(show, Screen() if live else None, page)
    except SystemExit as ended:
        status = ended.code
    except (Failure, OSError) as failure:
        print(f"show: {failure}", file=sys.stderr)
        status = 1
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    page.close()
    if not show.close():
        print("show: a server did not end cleanly", file=sys.stderr)
        status = 1
    sys.exit(status)


if __name__ == "__main__":
    main()
