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

    def fcall(self, function, subs):
        """Returns a command; subs: (group, arguments) of each call. Calls of one group share a base."""
        same = len({group for group, _ in subs}) == 1
        bases = [f"ls:{{default/{group}}}:" for group, _ in (subs[:1] if same else subs)]
        words = ["FCALL", f"{function}_{self.digest}", len(bases), *bases]
        for _, args in subs:
            words += [len(args), *args]
        return tuple(words)

    def run(self, group, function, args):
        self.redis.call(*self.fcall(function, [(group, args)]))
