#!/usr/bin/env python3
"""A flash sale in two shops at once, to watch and to disturb, in a terminal and on a web page (page.py). Exits with 0 only
if lockstock's counts are exact.

It starts a lockstockd with an embedded Redis (fsync always), two lockstockd on the same Redis, and the clients of both
shops (client.c), which print the answers that their buyers get. It restarts what the keys kill.
"""
import argparse
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import webbrowser

from page import Page
from screen import Screen, draw, status_line
from table import EXACT, NAIVE, TITLES, missed, oversold, print_table, verdict

CLIENTS = 4
THREADS = 8  # of a client, as in client.c
DOWN_S = 0.7
MOMENT_S = 2  # how long a key waits at most for a process that is in the middle of a call
FREEZE_S, FREEZE_MAX_S = 1, 5
STUCK_S, SILENT_S = 5, 30
SCRIPT = "6:s,18:c,30:f,42:r,54:s,66:c,78:f"  # keys that are pressed while the page is open
START_S = 20
SHOPS = ("the naive shop's", "lockstock's")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Failure(Exception):
    """Ends the show with status 1."""


class Buyer:
    """One buyer's answer. States: away, asks, bought, sold-out, none."""
    state, lost, replayed, waited_ms = "away", False, False, 0


class Side:
    """The buyers of one shop, and the holder of its lock (naive shop) or of its till (lockstock's)."""

    def __init__(self, n):
        self.buyers = [Buyer() for _ in range(n)]
        self.holder = None  # a Player
        self.frozen, self.frozen_at, self.followed = None, 0, False
        self.waited = []  # waits in the current quarter of a second
        self.quarters = []  # the longest wait of nine of ten buyers in each quarter
        self.told_at = 0

    def count(self, state):
        return sum(buyer.state == state for buyer in self.buyers)

    def lost(self, *states):
        return sum(buyer.lost and (not states or buyer.state in states) for buyer in self.buyers)

    def known(self):
        return self.lost("bought", "sold-out")

    def replayed(self):
        return sum(buyer.replayed for buyer in self.buyers)


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
        self.left, self.late, self.stuck = options.phones, 0, False
        self.opens_at = None
        self.ready = 0
        self.redis_struck = None
        self.next_server = 0
        self.quarter = self.failed = None
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
            self.send_buyers(player)

    def arrival_ms(self, index):
        """Buyers come in waves, to both shops at the same time."""
        return int(self.options.seconds * 1000 * (index - index % (CLIENTS * THREADS)) / self.options.buyers)

    def send_buyers(self, player):
        """Sends it its buyers without an answer. If one has asked, the answer is lost."""
        lines = []
        for i in range(player.index, self.options.buyers, CLIENTS):
            buyer = self.sides[player.side].buyers[i]
            buyer.lost |= buyer.state == "asks"
            if buyer.state in ("away", "asks"):
                lines.append(f"{i} {int(buyer.state == 'asks')} {self.arrival_ms(i)}\n")
        self.send(player, "".join(lines))
        if self.opens_at:
            self.send_open(player)

    def send_open(self, player):
        self.send(player, f"open {int(self.opens_at * 1000)}\n")

    @staticmethod
    def send(player, text):
        try:
            player.process.stdin.write(text.encode())
            player.process.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended; look_after reads its status

    def run_client(self, *args, text=""):
        """Runs a client to its end; returns its lines."""
        done = subprocess.run([self.options.client, *args], input=text.encode(), capture_output=True, env=self.env,
                              check=False)
        if done.returncode != 0:
            raise Failure(done.stderr.decode().strip() or f"{self.options.client} ended with {done.returncode}")
        return [line.split(" ") for line in done.stdout.decode().splitlines()]

    def open(self):
        """Starts Redis and the servers, puts the phones on sale, and starts the clients."""
        self.start(self.keeper)
        self.await_start(lambda: self.ask_redis(f"SET naive:shelf {self.options.phones}") == "+OK")
        for server in self.servers:
            self.start(server)
        (_, self.run, self.group), = self.run_client("put", ",".join(self.urls), str(self.options.phones),
                                                     str(self.options.buyers))
        for i in range(CLIENTS):
            urls = ",".join(self.urls[::-1 if i % 2 else 1])  # half of the clients prefer each server
            for side, command in ((NAIVE, ["naive", str(i), self.options.naive, self.redis]),
                                  (EXACT, ["exact", str(i), urls, self.run, self.group, str(self.options.buyers)])):
                player = Player(f"{SHOPS[side]} client {i + 1}", [self.options.client, *command], side, i)
                self.clients[side].append(player)
                self.start(player)

    def await_start(self, condition):
        end = time.monotonic() + START_S
        while not condition():
            self.look_after(self.keeper)
            if time.monotonic() > end:
                raise Failure("Redis does not start")
            time.sleep(0.01)

    def ask_redis(self, command):
        """Sends one command; returns a line of the answer, or "" without an answer."""
        try:
            with socket.socket(socket.AF_UNIX) as redis:
                redis.settimeout(1)
                redis.connect(self.redis)
                redis.sendall(command.encode() + b"\r\n")
                return redis.recv(256).decode().split("\r\n")[0]
        except OSError:
            return ""

    def redis_pid(self):
        """The pid of the running Redis; None while there is none but the killed one."""
        keeper = self.keeper.process.pid
        try:
            with open(f"/proc/{keeper}/task/{keeper}/children", encoding="ascii") as children:
                for pid in map(int, children.read().split()):
                    with open(f"/proc/{pid}/comm", encoding="utf-8") as name:
                        if name.read().strip() == "redis-server" and pid != self.redis_struck:
                            return pid
        except OSError:
            pass  # it has just ended
        return None

    # ---- the clients' lines ---------------------------------------------------------------

    def all_clients(self):
        return self.clients[NAIVE] + self.clients[EXACT]

    def listen(self, seconds, *others):
        """Reads lines of clients for so long at most; returns the members of `others` that can be read."""
        pipes = {player.process.stdout: player for player in self.all_clients()
                 if player.process and not player.process.stdout.closed}
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
        for line in lines:
            self.heard(player, line.decode().split(" "))

    def read_rest(self, player):
        while not player.process.stdout.closed:
            self.read(player)

    def heard(self, player, words):
        side = self.sides[player.side]
        what, buyer = words[0], side.buyers[int(words[1])] if words[0] in ("asks", "lost", "told") else None
        if what == "ready":
            self.ready += 1
        elif what == "asks":
            buyer.state = "asks"
        elif what == "lost":
            buyer.lost = True
        elif what == "told":
            buyer.state, buyer.waited_ms, buyer.replayed = words[2], int(words[3]), words[4] == "1"
            side.waited.append(buyer.waited_ms)
            side.told_at = time.monotonic()
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

    # ---- progress ----------------------------------------------------------------------------

    def look_after(self, player):
        if player.life in ("RUNS", "STRUCK") and player.process.poll() is not None:
            status = player.process.returncode
            if player.side is not None:
                self.read_rest(player)
            if player.life == "STRUCK":
                player.life, player.back_at = "DOWN", time.monotonic() + DOWN_S
                if player.side is not None and self.sides[player.side].holder is player:
                    self.sides[player.side].holder = None
            elif player.side is not None and status == 0:
                player.life = "DONE"
            else:
                player.life, self.failed = "DONE", player
                raise Failure(f"{player.name} ended unexpectedly, "
                              + (f"signal {-status}" if status < 0 else f"exit status {status}"))
        if player.life == "DOWN" and time.monotonic() >= player.back_at:
            if player.side is None:
                self.news.append(f"{player.name} is started again")
            elif player.side == EXACT:
                self.news.append("new clients continue: lockstock's asks again by the same order ids")
            self.start(player)

    def tick(self):
        for player in [self.keeper, *self.servers, *self.all_clients()]:
            self.look_after(player)
        if self.redis_struck and self.redis_pid():
            self.news.append("Redis runs again, with all that was acknowledged (appendfsync always)")
            self.redis_struck = None
        for side in self.sides:
            self.thaw(side)
        if not self.opens_at and self.ready == 2 * CLIENTS:
            self.opens_at = time.monotonic()
            for player in self.all_clients():
                self.send_open(player)
        self.give_up()
        self.measure()

    def thaw(self, side):
        seconds = time.monotonic() - side.frozen_at
        followed = side.followed or side is self.sides[NAIVE]
        if side.frozen and seconds >= FREEZE_S and (followed or seconds >= FREEZE_MAX_S):
            os.kill(side.frozen.process.pid, signal.SIGCONT)
            self.news.append(f"{side.frozen.name} continues, and writes what it was about to write")
            side.frozen = None

    def give_up(self):
        """Ends the naive shop if no buyer got an answer for long: a dead client's lock has no end, or Redis is gone."""
        side = self.sides[NAIVE]
        if self.stuck or not self.opens_at or side.count("asks") == 0:
            side.told_at = time.monotonic() if not self.stuck else 0
            return
        silent = time.monotonic() - side.told_at
        if silent > SILENT_S or (silent > STUCK_S and self.options.naive == "setnx"
                                 and self.ask_redis("PTTL naive:lock") == ":-1"):
            self.stuck = True
        if self.stuck:
            for player in self.clients[NAIVE]:
                if player.life == "RUNS":
                    self.send(player, "stop\n")

    def measure(self):
        """Records for each quarter of a second the longest wait of nine of ten buyers who got an answer."""
        now = int(time.monotonic() * 4)
        self.quarter = self.quarter or now
        for _ in range(self.quarter, now):
            for side in self.sides:
                side.waited.sort()
                side.quarters.append(side.waited[(len(side.waited) - 1) * 9 // 10] if side.waited else None)
                side.waited = []
        self.quarter = now

    def is_over(self):
        return all(player.life == "DONE" for player in self.all_clients())

    def percent(self):
        side = self.sides[EXACT]
        return (side.count("bought") + side.count("sold-out")) * 100 // self.options.buyers

    def state(self, **more):
        """The state that page.js draws."""
        def told(number, side):
            return {"bought": side.count("bought"), "sold_out": side.count("sold-out"), "waiting": side.count("asks"),
                    "gave_up": side.count("none"), "lost": side.lost(), "known": side.known(),
                    "waited_ms": next((ms for ms in reversed(side.quarters) if ms is not None), None), "oversold": oversold(self, number),
                    "twice": missed(self) if number == NAIVE else 0, "left": self.left}
        running = next((i for i, server in enumerate(self.servers) if server.life == "RUNS"), 0)
        return {"buyers": self.options.buyers, "phones": self.options.phones, "form": TITLES[self.options.naive],
                "sides": [told(number, side) for number, side in enumerate(self.sides)], "news": self.news[-20:],
                "here": self.options.buyers - max(side.count("away") for side in self.sides), "stuck": self.stuck,
                "late": self.late, "over": False,
                "console": f"{self.consoles[running]}/console/#/stock?group={self.group}&sku=good-0", **more}

    # ---- keys ----------------------------------------------------------------------------------

    def client_in_the_middle(self):
        """Waits for a client with a running call at lockstock, and returns it; else one that runs."""
        end = time.monotonic() + MOMENT_S
        while True:
            self.listen(0)
            running = [player for player in self.clients[EXACT]
                       if player.life == "RUNS" and player is not self.sides[EXACT].frozen]
            buyers = self.sides[EXACT].buyers
            for player in running:
                if any(buyer.state == "asks" for buyer in buyers[player.index::CLIENTS]):
                    return player
            if not running or time.monotonic() > end or all(b.state not in ("away", "asks") for b in buyers):
                return running[-1] if running else None
            self.listen(0.01)

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
        if not pid or self.redis_struck:
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
            self.news.append(f"kill -9 of client {ours.index + 1} of each shop "
                             f"(process {naive.process.pid} and {ours.process.pid})")
        else:
            self.news.append(f"kill -9 of {ours.name} (process {ours.process.pid})")

    def freeze_holders(self):
        """Stops the holder of the naive lock and the holder of the till before they write."""
        for number, side in enumerate(self.sides):
            if not side.frozen and (number == EXACT or self.options.naive != "decr"):
                self.freeze(number, side)

    def freeze(self, number, side):
        thing = "till" if number == EXACT else "lock"
        end = time.monotonic() + MOMENT_S
        while time.monotonic() < end:
            self.listen(0)
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
            self.listen(0.01)
        self.news.append(f"no client holds {SHOPS[number]} {thing} now")

    KEYS = {"s": kill_server, "r": kill_redis, "c": kill_client, "f": freeze_holders}

    # ---- the end ---------------------------------------------------------------------------------

    def end_clients(self):
        for player in self.all_clients():
            if player.life in ("RUNS", "STRUCK"):
                player.process.kill()
                player.process.wait()
                self.read_rest(player)
            player.life = "DONE"

    def check(self):
        """Gets the missing answers and compares. Returns the error, or the numbers of the item and the ledger."""
        self.end_clients()
        for server in self.servers:  # starts killed servers at once
            if server.life == "STRUCK":
                server.process.wait()
            if server.life != "RUNS":
                self.start(server)
        for buyer in self.sides[NAIVE].buyers:
            buyer.state = "none" if buyer.state == "asks" else buyer.state
        exact = self.sides[EXACT]
        for buyer in exact.buyers:
            buyer.lost |= buyer.state == "asks"
        states = "".join(f"{i} {buyer.state}\n" for i, buyer in enumerate(exact.buyers) if buyer.state != "away")
        *told, verdict = self.run_client("check", ",".join(self.urls), self.run, self.group, str(self.options.phones),
                                         str(self.options.buyers), text=states)
        for _, index, state, _, replayed in told:
            buyer = exact.buyers[int(index)]
            buyer.state, buyer.replayed = state, replayed == "1"
        if verdict[0] == "flaw":
            return " ".join(verdict[1:]), None
        if exact.count("away") + exact.count("bought") + exact.count("sold-out") != self.options.buyers:
            return "buyers and answers do not add up", None
        if exact.lost() != exact.known():
            return "a lost answer is still not known", None
        return None, (int(verdict[1]), int(verdict[2]))

    def close(self):
        """Returns False if a server did not end cleanly."""
        self.end_clients()
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
    """"30:s,50:r": percents in rising order, with keys."""
    found = [(between(0, 100)(item.split(":")[0]), item.split(":")[1]) for item in text.split(",")]
    if found != sorted(found, key=lambda press: press[0]) or any(key not in [*Show.KEYS, "q"] for _, key in found):
        raise ValueError
    return found


def parse():
    here = os.path.dirname(os.path.realpath(__file__))
    build = os.path.normpath(os.path.join(here, "../../build/release"))
    parser = argparse.ArgumentParser(prog="show", description="keys: s kills (-9) a server, r Redis, c a client; "
                                     "f freezes the holders of the locks; q quits")
    parser.add_argument("--buyers", type=between(1, 100000), default=3840, help="of each shop (3840)")
    parser.add_argument("--phones", type=between(1, 1000000), default=3200, help="that each shop has (3200)")
    parser.add_argument("--seconds", type=between(1, 3600), default=48, help="during which the buyers come (48)")
    parser.add_argument("--naive", choices=list(TITLES), default="setnx", help="how the naive shop sells: under a "
                        "lock by SETNX and EXPIRE, or by GETSET; or without a lock by GET, then DECR (setnx)")
    parser.add_argument("--press", type=presses, metavar="LIST", default=[],
                        help="presses keys: 30:s,50:r is s when 30 %% of the buyers have their answer, r when 50 %% "
                        "have; without it, until a key is pressed, the show presses some while the page is open")
    parser.add_argument("--lines", action="store_true", help="print a line a second, as without a terminal")
    parser.add_argument("--lockstockd", default=f"{build}/server/lockstockd", help="the server's path")
    parser.add_argument("--client", default=f"{build}/examples/show/show_client", help="show_client's path")
    return parser.parse_args()


def play(show, screen, page):
    next_line, told, quits = 0, 0, False
    script, own = list(show.options.press), presses(SCRIPT)
    while True:
        show.tick()
        page.show(show.state())
        now = time.monotonic()
        over = show.is_over()
        if screen:
            told = min(len(show.news), told + screen.NEWS)  # each line is on at least one screen
            screen.show(draw(show, told, screen.size(), screen.utf8))
        else:
            for line in show.news[told:]:
                print("         " + line)
            told = len(show.news)
            if now >= next_line or over or quits:
                print(status_line(show), flush=True)
                next_line = now + 1
        if over or quits:
            return quits
        keys = []
        while script and show.percent() >= script[0][0]:
            keys.append(script.pop(0)[1])
        while own and show.percent() >= own[0][0]:
            key = own.pop(0)[1]
            keys += [key] if page.is_open() and not show.options.press else []
        end = now + 0.1
        while not keys and time.monotonic() < end:
            if show.listen(max(0, end - time.monotonic()), *(screen.keys() if screen else [])):
                keys += screen.read_keys()
                own = []
            pressed = page.read_keys()
            keys += pressed
            own = [] if pressed else own
        for key in keys:
            quits = quits or key == "q"
            if key in show.KEYS:
                show.KEYS[key](show)


def run(show, screen, page):
    quits = False
    print(f"The same on a page: {page.url}", flush=True)
    if os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        webbrowser.open(page.url)
    try:
        show.open()
        if screen:
            screen.enter()
        quits = play(show, screen, page)
    finally:
        if screen:
            screen.leave()
    if quits:
        print("\nStopped by q. Waiting buyers of lockstock still get their answer, and the sales so far are checked.")
    why, numbers = show.check()
    page.show(show.state(over=True, why=why, verdict=verdict(show, why)), is_last=True)
    print_table(show, why, numbers, colour=screen)
    return 1 if why else 0


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
