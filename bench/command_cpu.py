#!/usr/bin/env python3
"""What the parts of a function cost Redis, in microseconds that its thread ran: an FCALL that does nothing, its words,
its reply, and each command or step of Lua in a loop. Asserts nothing.

    bench/command_cpu.py [library] [--rounds=9]

Starts a redis-server of its own on a unix socket, with the function library beside if it is named: Lua's collector goes over
that too. Everything is in the processor's caches here, so what a function really costs is more.
"""
import statistics

from programs import Redis, arguments

KEY, VALUE, PIPELINED, CALLS, FEW, MANY = "ls:{default/thing}:lock:n:", "v" * 70, 16, 320, 10, 110

STEPS = {
    "TIME, as a number": "local t = redis.call('TIME') local n = t[1] * 1000000 + t[2]",
    "GET, none": "redis.call('GET', k)",
    "GET": "redis.call('GET', kept)",
    "SET KEEPTTL": "redis.call('SET', kept, v, 'KEEPTTL')",
    "SET PX": "redis.call('SET', kept, v, 'PX', '600000')",
    "SET PX NX GET, new": "n = n + 1 redis.call('SET', k .. n, v, 'NX', 'GET', 'PX', '600000')",
    "INCR": "redis.call('INCR', k .. 'i')",
    "APPEND of 12 bytes": "redis.call('APPEND', k .. 'a', '123456789012')",
    "GETRANGE of 384 bytes": "redis.call('GETRANGE', k .. 'a', 12, 395)",
    "XADD": "redis.call('XADD', k .. 'x', '*', '1', v)",
    "EXISTS, none": "redis.call('EXISTS', k)",
    "a new string": "n = n + 1 local s = k .. n",
    "struct.pack of 9": "local s = struct.pack('<BBBdddddd', 2, 69, 0, 1, 2, 3, 4, 5, 6)",
    "pcall of a function": "pcall(nothing, k)",
}

REPLIES = {"1": "1", "{1}": "{1}", "{{1}}": "{{1}}", "{{'RELEASED', 0}}": "{{'RELEASED', 0}}"}
WORDS = [6, "00000000000000000000000000000001", "owner", 60000, 0, ".", "thing"]


def library():
    text = "#!lua name=command_cpu\nlocal n = 0\nlocal function nothing(a) return a end\n"
    for i, step in enumerate(STEPS.values()):
        text += (f"redis.register_function('step{i}', function(keys, args) local k, v, kept = keys[1], args[1], keys[1] .. 'kept' "
                 f"for _ = 1, args[2] do {step} end return nothing(1) end)\n")
    for i, reply in enumerate(REPLIES.values()):
        text += f"redis.register_function('reply{i}', function() return {reply} end)\n"
    return text


def cost(redis, words):
    """Of one such command."""
    before = redis.ran_us()
    redis.many([words] * CALLS, PIPELINED)
    return (redis.ran_us() - before) / CALLS


def main():
    named, flags = arguments()
    with Redis() as redis:
        for path in named:
            with open(path, "rb") as f:
                redis.call("FUNCTION", "LOAD", f.read())
        redis.call("FUNCTION", "LOAD", library())
        sha = redis.call("SCRIPT", "LOAD", "return 1").decode()
        redis.call("SET", KEY + "kept", VALUE, "PX", 10**9)
        redis.call("SET", KEY + "a", VALUE * 20)
        whole = {"EVALSHA of one key": ["EVALSHA", sha, 1, KEY], "FCALL of one key": ["FCALL", "reply0", 1, KEY],
                 f"... with {len(WORDS)} words": ["FCALL", "reply0", 1, KEY, *WORDS]}
        whole |= {f"... with the reply {r}": ["FCALL", f"reply{i}", 1, KEY] for i, r in list(enumerate(REPLIES))[1:]}
        found = {name: [] for name in (*whole, *STEPS)}
        for _ in range(int(flags.get("rounds", 9))):
            for name, words in whole.items():
                found[name].append(cost(redis, words))
            for i, name in enumerate(STEPS):
                few, many = (cost(redis, ["FCALL", f"step{i}", 1, KEY, VALUE, times]) for times in (FEW, MANY))
                found[name].append((many - few) / (MANY - FEW))
            redis.call("DEL", KEY + "x")
            redis.call("SET", KEY + "a", VALUE * 20)
        for name, us in found.items():
            print(f"{name:36} {statistics.median(us):5.2f} us   least {min(us):5.2f}")


if __name__ == "__main__":
    main()
