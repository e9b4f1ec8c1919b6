"""Shared by the measurements: a Redis of their own, connections to it, and calls of the function library."""
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time


class Redis:
    """A redis-server on a unix socket in a temporary directory, and a connection; or one more connection to it."""

    def __init__(self, wrapper=(), of=None):
        self.process = None
        if of:
            self.path = of.path
        else:
            self.directory = tempfile.TemporaryDirectory(prefix="lks-bench-")
            self.path = os.path.join(self.directory.name, "sock")
            words = [word.format(dir=self.directory.name) for word in wrapper]
            self.process = subprocess.Popen(
                [*words, "redis-server", "--port", "0", "--unixsocket", self.path, "--save", "", "--dir",
                 self.directory.name, "--hz", "1"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.socket = socket.socket(socket.AF_UNIX)
        while self.socket.connect_ex(self.path) != 0:
            time.sleep(0.01)
        self.file = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        self.directory.cleanup()

    def ran_us(self):
        """Microseconds of CPU of its thread; other load of the machine does not count."""
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/schedstat") as f:
            return int(f.read().split()[0]) // 1000

    def send_all(self, commands):
        out = []
        for words in commands:
            out.append(b"*%d\r\n" % len(words))
            for word in words:
                word = word if isinstance(word, bytes) else str(word).encode()
                out.append(b"$%d\r\n%s\r\n" % (len(word), word))
        self.socket.sendall(b"".join(out))

    def reply(self):
        line = self.file.readline()[:-2]
        kind, rest = line[:1], line[1:]
        if kind == b"+":
            return rest
        if kind == b"-":
            return Exception(rest.decode())
        if kind == b":":
            return int(rest)
        n = int(rest)
        if n < 0:
            return None
        return self.file.read(n + 2)[:-2] if kind == b"$" else [self.reply() for _ in range(n)]

    def many(self, commands, at_once=1000):
        """Returns the replies. Exits on an error reply."""
        replies = []
        for at in range(0, len(commands), at_once):
            part = commands[at:at + at_once]
            self.send_all(part)
            replies += [self.reply() for _ in part]
        for words, reply in zip(commands, replies):
            if isinstance(reply, Exception):
                sys.exit(f"{words[:2]}: {reply}")
        return replies

    def call(self, *words):
        return self.many([words])[0]

    def number(self, section, name):
        """Returns a number of INFO."""
        return int(re.search(rf"{name}:(\d+)", self.call("INFO", section).decode()).group(1))


class Library:
    """The function library, loaded into a Redis."""

    def __init__(self, redis, path):
        self.redis, self.n = redis, 0
        with open(path, "rb") as file:
            self.text = file.read()
        self.digest = re.search(rb"lockstock_(\w+)", self.text).group(1).decode()
        redis.call("FUNCTION", "LOAD", "REPLACE", self.text)

    def next(self):
        self.n += 1
        return self.n

    def base(self, group):
        return f"ls:{{default/{group}}}:"

    def fcall(self, function, subs):
        """Returns a command; subs: (group, arguments) of each call. Calls of one group share a base."""
        same = len({group for group, _ in subs}) == 1
        bases = [self.base(group) for group, _ in (subs[:1] if same else subs)]
        words = ["FCALL", f"{function}_{self.digest}", len(bases), *bases]
        for _, args in subs:
            words += [len(args), *args]
        return tuple(words)

    def cost(self, commands, at_once=16):
        """Returns the microseconds of CPU of Redis' thread. Exits on an error."""
        before = self.redis.ran_us()
        replies = self.redis.many(commands, at_once)
        for words, reply in zip(commands, replies):
            for one in reply if calls_of(words) > 1 and isinstance(reply, list) else [reply]:
                if isinstance(one, list) and one and one[0] == b"ERR":
                    sys.exit(f"{words[1]}: {one}")
        return self.redis.ran_us() - before

    def commands(self):
        """Returns the number of commands that functions and scripts ran."""
        stats = self.redis.call("INFO", "commandstats").decode()
        calls = {name: int(n) for name, n in re.findall(r"cmdstat_([\w|]+):calls=(\d+)", stats)}
        return sum(n for name, n in calls.items() if name not in ("fcall", "evalsha", "info", "config|resetstat"))


def calls_of(words):
    """Returns the number of calls in a command."""
    if words[0] != "FCALL":
        return 1
    n, at = 0, 3 + int(words[2])
    while at < len(words):
        n, at = n + 1, at + 1 + int(words[at])
    return n


def arguments():
    """Returns the words of the command line, and its flags as a dictionary ("--rounds=7")."""
    flags = dict(([*word[2:].split("="), ""])[:2] for word in sys.argv[1:] if word.startswith("--"))
    return [word for word in sys.argv[1:] if not word.startswith("--")], flags


def order(i):
    return f"0192f3a4-7b1c-7c3e-8d2f-{i:012d}"


def token(i):
    return f"{i:032x}"
