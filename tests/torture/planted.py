#!/usr/bin/python3
"""Bugs planted into lockstockd, each of which the torture suite must find within a minute:

  planted.py --build build/asan [pattern]     all, or those whose names contain the pattern

A bug of the function library (Lua) is a text of it replaced in a copy of the program's file, a comment of the library
shortened or spaces added so that nothing moves. One in C is a changed line in a built copy of the tree. Exit 0: all
were found."""
import argparse
import os
import re
import subprocess
import sys
import tempfile
import time

from processes import HERE, SOURCE

LIMIT_S = 60
# Seconds of torture and the faults of each run: the second run may find a bug that the first misses.
TRIES = ((8, []), (12, ["--faults", ""]))
# Seeds with which the first partition begins soon, and is longer than a failover.
PARTITION = tuple((9, ["--store", "sentinel", "--flag=--wait-replicas=2", "--flag=--wait-ms=200", "--faults",
                       "primary_isolated", "--seed", seed]) for seed in ("370", "201"))
COPIES = ((20, ["--faults", "messages_doubled"]),)

LUA = [
    # the bug, the file, the text and its replacement
    ("oversold", "if quantity > item[AVAILABLE] then return 5 end", ""),
    ("a repeated order is sold again", "if text then return known_order", "if false then return known_order"),
    ("sold units are not counted", "item[SOLD] = item[SOLD] + way.sold * quantity", ""),
    ("orders are missing in the ledger", "note(s, way.outcome, sku, lines[i + 1], id, '')", ""),
    ("what was sold is told as sold out", "reply = left\n",
     "reply = left % 5 == 0 and {'SOLD_OUT', left} or left\n"),
    ("no limit a buyer", "if item[LIMIT] > 0 and held + quantity > item[LIMIT] then return 4 end", ""),
    ("cancelled units still count for the buyer", "CANCELLED = {1, -1, 0, -1}", "CANCELLED = {1, -1, 0, 0}"),
    ("holds end without a trace", "move_order(s, 'EXPIRED', id, order, '')", ""),
    ("a repeated adjustment counts again", "local record = load_record(s, key, 'adjustment')", "local record"),
    ("a repeated return counts again",
     "put_text(s, key, cmsgpack.pack({'return', id, lines, answer}), order[KEEP])", ""),
    ("an ended hold is sold without stock",
     "if not item or quantity > item[AVAILABLE] then sold_out = 'SOLD_OUT' end", ""),
    ("returns are not checked", "if quantity > left then return nil end", ""),
    ("the ledger is read with gaps", "return left > 0 and at or '(' .. at, left", "return '(' .. at, left"),
    ("fences do not rise", "math.max(last + 1, now)", "math.max(0 + 1, 7)"),
    ("leases end early", "EXCLUSIVE, now + lease_ms * 1000, 1, 0, token, now)",
     "EXCLUSIVE, now + lease_ms * 100, 1, 0, token, now)"),
    ("two exclusive holders", "if wanted.mode == 'E' or wanted.mode ~= lock.mode", "if wanted.mode ~= lock.mode"),
    ("too many permits", "lock.used + wanted.permits > lock.capacity", "lock.used >= lock.capacity"),
    ("a released token may hold again", "write_spent(token_key, now)", ""),
    ("the last who waits is first", "math.max(now, last + 1), wait_ms", "4e15 - now, wait_ms"),
    ("nobody is woken", "return write('PUBLISH', channel_of(server), table.concat({...}, ' '))", "return 1"),
    ("renewals of a lost lease", "return {'LOST', 0}", "return {'RENEWED', 900}"),
    ("two attempts at once", "if not has_lease(record, now) then return nil end", "if true then return nil end"),
    ("attempts are taken over early", "lease_end = now + lease_ms * 1000, retain", "lease_end = now + lease_ms * 10, retain"),
    ("a superseded result is stored",
     "return record and record.fence == tonumber(fence) and record or nil", "return record"),
    ("a refused Enter sells", "if e.targets ~= '' then fences, refused = take_locks(e) end",
     "if e.order then services.stock.close(e.order) e.order.touched = nil end\n  if e.targets ~= '' then fences, refused = take_locks(e) end"),
    ("a refused Enter is charged", "if e.stock ~= '' and (e.again or not e.over) then",
     "if e.limits then services.ratelimit.checks.close(e.limits) end if e.stock ~= '' and (e.again or not e.over) then"),
    ("who was taken over confirms", "local s = stock ~= '' and ours and", "local s = stock ~= '' and"),
    ("what is done is done again", "if record.state == 'C' or record.state == 'F' then", "if record.state == 'F' then"),
    ("attempts share a fence", "attempt, fence = attempt + 1, math.max(fence + 1, now)", "attempt, fence = attempt + 1, fence"),
    ("one more than the limit", "local room = rule.limit - cost", "local room = rule.limit"),
    ("a window lets the last one through", "return r[3] + cost <= rule.limit and now", "return r[3] <= rule.limit and now"),
    ("a bucket without its cost", "spacing(rule, rule.burst - cost)", "spacing(rule, rule.burst)"),
    ("refused though there is room", "* UNITS + units + cost", "* UNITS + units + 2 * cost"),
    ("what has ended counts on", "if text == '' and c < chunk_of(next - 1) then units = units_from(log, c + 1, next) end", ""),
    ("numbers of a sequence twice", "s.last = s.last + how_many", "s.last = s.last + 1"),
    ("an order that comes twice at once is sold twice", "local text = s.texts and s.texts[key]", "local text = false"),
]
C = [
    ("ids of a server twice", "server/services/id_snowflake.c", "i < count; i++, s->next++)",
     "i < count; i++, s->next += i & 1)"),
    ("told before replicas have it", "server/store/shard.c", ".wait_replicas = from->wait_replicas,",
     ".wait_replicas = 0,"),
    ("read before replicas have it", "server/store/pipeline.c", "if (!confirms) {",
     'if (!confirms || strncmp(c->call.function, "stock_get", 9) == 0 ||\n'
     '        strncmp(c->call.function, "stock_await", 11) == 0) {'),
]
TRIES_OF = {"an order that comes twice at once is sold twice": COPIES, "told before replicas have it": PARTITION,
            "read before replicas have it": PARTITION}


def library_in(program):
    begin = program.index(b"#!lua name=lockstock_")
    return begin, program.index(b"\0", begin)


def plant_lua(program, find, replace):
    """A program of the same length with every place of the library's text replaced."""
    begin, end = library_in(program)
    text = program[begin:end].decode()
    if find not in text:
        raise RuntimeError(f"the function library has no such text: {find}")
    text = text.replace(find, replace)
    longer = len(text.encode()) - (end - begin)
    for comment in sorted(re.finditer(r"^-- [^\n]*$", text, re.M), key=lambda match: match.start() - match.end()):
        if longer <= 0:
            break
        cut = min(longer, comment.end() - comment.start() - 3)
        text = text[:comment.end() - cut] + text[comment.end():]
        longer -= cut
        break
    if longer > 0:
        raise RuntimeError(f"too long: {replace}")
    planted = program[:begin] + text.encode() + b"\n" * -longer + program[end:]
    assert len(planted) == len(program)
    return planted


class Tree:
    """A copy of the tree and its build of lockstockd."""

    def __init__(self, folder, build):
        self.source, self.build = os.path.join(folder, "source"), os.path.join(folder, "build")
        files = subprocess.run(["git", "-C", SOURCE, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                               check=True, capture_output=True).stdout
        os.mkdir(self.source)
        tar = subprocess.run(["tar", "-C", SOURCE, "-c", "--null", "--ignore-failed-read", "-T", "-"], input=files,
                             check=True, capture_output=True).stdout
        subprocess.run(["tar", "-C", self.source, "-x"], input=tar, check=True)
        with open(os.path.join(build, "CMakeCache.txt")) as cache:
            kept = re.findall(r"^(CMAKE_BUILD_TYPE|CMAKE_C_FLAGS|CMAKE_C_COMPILER_LAUNCHER|LOCKSTOCK_[A-Z_]+):(\w+)=(.+)$",
                              cache.read(), re.M)
        self._run("cmake", "-S", self.source, "-B", self.build, "-G", "Ninja",
                  *(f"-D{name}:{kind}={value}" for name, kind, value in kept))

    def _run(self, *words):
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(words)}:\n{(done.stdout + done.stderr)[-4000:]}")

    def plant(self, name, find, replace):
        path = os.path.join(self.source, name)
        with open(path) as file:
            text = file.read()
        if text.count(find) != 1:
            raise RuntimeError(f"{name} must have this text once: {find}")
        with open(path, "w") as file:
            file.write(text.replace(find, replace))
        try:
            self._run("cmake", "--build", self.build, "--target", "lockstockd")
            with open(os.path.join(self.build, "server/lockstockd"), "rb") as program:
                return program.read()
        finally:
            with open(path, "w") as file:
                file.write(text)


def found(program, tries, arguments, folder):
    """The output of the suite, or None; and the seconds that it took."""
    path = tempfile.mkdtemp(dir=folder) + "/lockstockd"  # the last one may still be ending
    with open(path, "wb") as file:
        file.write(program)
    os.chmod(path, 0o755)
    begin = time.monotonic()
    for seconds, faults in tries:
        left = LIMIT_S - (time.monotonic() - begin)
        if left < seconds + 5:
            break
        words = ["/usr/bin/python3", os.path.join(HERE, "torture.py"), "--build", arguments.build, "--server", path,
                 "--store", arguments.store, "--seconds", str(seconds), "--seed", "1", "--back", "6",
                 "--keep", "", *faults]
        done = subprocess.run(words, capture_output=True, text=True)
        wrong = re.findall(r"^WRONG.*$", done.stdout, re.M)
        if wrong:
            return "; ".join(wrong), time.monotonic() - begin
        if done.returncode != 0:
            raise RuntimeError(f"torture.py failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return None, time.monotonic() - begin


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--build", default=os.path.join(SOURCE, "build/asan"))
    parser.add_argument("--store", default="redis")
    parser.add_argument("pattern", nargs="?", default="")
    arguments = parser.parse_args()
    arguments.build = os.path.abspath(arguments.build)
    missed, n = [], 0
    with tempfile.TemporaryDirectory(prefix="lks-planted-") as folder:
        with open(os.path.join(arguments.build, "server/lockstockd"), "rb") as file:
            sound = file.read()
        tree = None
        for name, *change in LUA + C:
            if arguments.pattern not in name:
                continue
            n += 1
            if len(change) == 2:
                program = plant_lua(sound, *change)
            else:
                tree = tree or Tree(folder, arguments.build)
                program = tree.plant(*change)
            wrong, seconds = found(program, TRIES_OF.get(name, TRIES), arguments, folder)
            print(f"{'found' if wrong else 'MISSED'} after {seconds:.0f} s: {name}: {wrong}", flush=True)
            if not wrong or seconds > LIMIT_S:
                missed.append(name)
    print(f"{n - len(missed)} of {n} found within {LIMIT_S} s")
    return 1 if missed or not n else 0


if __name__ == "__main__":
    sys.exit(main())
