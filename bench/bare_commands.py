#!/usr/bin/env python3
"""The least that a function can cost: counts the instructions of Redis for each call with callgrind, of

    script   the row's minimal script
    bare     a function that runs only the Redis commands of ours, with all arguments as constants
    ours     the function of the library

so bare / script is a ratio that no library with the same keys can be below.

    bench/bare_commands.py LIBRARY [--rows=deduct,check_sliding_log,pair,hand_off] [--calls=320]

Rows and ways are those of bench/function_instructions.py. Prints thousands for each call, and ratios to the script.
"""
import random
import re

from function_cpu import Bench, GiveBack, Take
from function_instructions import Counted, ways_of_row
from programs import Redis, arguments, calls_of

ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "a": b"\a", "b": b"\b"}


def words_of(line):
    """The words of a line of MONITOR, as bytes."""
    return [re.sub(rb'\\(x..|.)', lambda m: bytes([int(m[1][1:], 16)]) if m[1][:1] == b"x"
                   else ESCAPES.get(m[1].decode(), m[1]), word)
            for word in re.findall(rb'"((?:[^"\\]|\\.)*)"', line)]


class Monitor:
    def __init__(self, redis):
        self.redis, self.stream = redis, Redis(of=redis)
        self.stream.call("MONITOR")

    def commands_of(self, fcall):
        """The commands that an FCALL runs."""
        self.redis.call(*fcall)
        self.redis.call("ECHO", "end")
        found = []
        while not (line := self.stream.file.readline()).rstrip().endswith(b'"ECHO" "end"'):
            words = words_of(line.partition(b"] ")[2])
            if b"[0 lua] " in line and words[0] != b"CLUSTER":  # asked once
                found.append(words)
        return found


def literal(word):
    return b'"' + b"".join(b"\\%03d" % byte for byte in word) + b'"'


def bare_library(lists, n_replies):
    """Function f<i> runs the i-th list of commands."""
    text = [b"#!lua name=bare\n"]
    for i, (commands, n) in enumerate(zip(lists, n_replies)):
        text.append(b"redis.register_function('f%d', function()\nlocal c = redis.call\n" % i)
        text += [b"c(" + b",".join(map(literal, words)) + b")\n" for words in commands]
        text.append(b"return {" + b"1," * n + b"} end)\n")
    return b"".join(text)


class Scripts:
    """An Acquire and a Release as minimal scripts."""

    def __init__(self, b):
        Take().prepare(b)
        self.b, self.sha = b, [b.redis.call("SCRIPT", "LOAD", one.script) for one in (Take, GiveBack)]

    def __call__(self, calls):
        commands = []
        for _ in range(calls):
            name, value, ms = Take().words(self.b)
            commands += [("EVALSHA", self.sha[0], 1, name, value, ms), ("EVALSHA", self.sha[1], 1, name, value)]
        return commands


def ways(b, name):
    return ({"script": Scripts(b)} if name in ("pair", "hand_off") else {}) | ways_of_row(b, name)


def commands_of(redis, library, name, way, calls):
    random.seed(1)
    return ways(Bench(redis, library), name)[way](calls)


def bare(library, name, way, calls):
    """Returns instructions of the bare function for all calls."""
    with Redis() as first:
        commands, monitor = commands_of(first, library, name, way, calls), Monitor(first)
        lists = [monitor.commands_of(words) for words in commands]
    with Counted() as redis:
        commands_of(redis, library, name, way, calls)  # the same keys
        redis.call("FUNCTION", "LOAD", bare_library(lists, map(calls_of, commands)))
        return redis.count([("FCALL", f"f{i}", 1, words[3]) for i, words in enumerate(commands)])


def ours(library, name, way, calls):
    with Counted() as redis:
        return redis.count(commands_of(redis, library, name, way, calls))


def main():
    (library,), flags = arguments()
    calls = int(flags.get("calls", 320))
    for name in flags.get("rows", "deduct,check_sliding_log,pair,hand_off").split(","):
        with Redis() as redis:
            names = list(ways(Bench(redis, library), name))
        script = ours(library, name, "script", calls)
        print(f"{name:20} script   {script / calls / 1000:7.1f}", flush=True)
        for way in names[1:]:
            for what, count in (("bare", bare), ("ours", ours)):
                n = count(library, name, way, calls)
                print(f"{name:20} {way:9} {what} {n / calls / 1000:7.1f} {n / script:5.2f}", flush=True)


if __name__ == "__main__":
    main()
