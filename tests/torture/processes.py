"""The programs of a torture run: lockstockd, redis-servers, callers. Each is started here, ended by its pid, and
killed by the kernel when this process dies first."""
import asyncio
import contextlib
import ctypes
import json
import os
import random
import signal
import socket
import struct
import subprocess
import time

READY_S = 60
HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
_libc = ctypes.CDLL(None)
_given = set()


def die_with_parent():
    _libc.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def is_free(port):
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind(("127.0.0.1", port))
            return True
        except OSError:
            return False


def free_port():
    """Below the ports that the system gives to clients."""
    while True:
        port = random.SystemRandom().randrange(22000, 32000)
        if port not in _given and is_free(port):
            _given.add(port)
            return port


async def until(what, true, limit_s=READY_S):
    end = time.monotonic() + limit_s
    while not true():
        if time.monotonic() > end:
            raise RuntimeError(f"no {what} after {limit_s} s")
        await asyncio.sleep(0.02)


async def run(*words, env=None, limit_s=90, text=None):
    """Returns the output of a command; raises when it failed."""
    child = await asyncio.create_subprocess_exec(*words, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                                 stderr=subprocess.STDOUT, env=env, preexec_fn=die_with_parent)
    try:
        out, _ = await asyncio.wait_for(child.communicate(text), limit_s)
    except asyncio.TimeoutError:
        child.kill()
        raise RuntimeError(f"{' '.join(words)}: still runs after {limit_s} s")
    if child.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: {out.decode(errors='replace').strip()}")
    return out.decode(errors="replace")


class Program:
    """One that is started again and again with the same arguments; its output goes to a file."""

    def __init__(self, words, log, env=None, ready=None):
        self.words, self.log, self.env, self.ready = words, log, env, ready
        self.pid_file = log.removesuffix(".log") + ".pid"
        self.process = None
        self.busy = asyncio.Lock()  # one at a time kills it and starts it

    async def start(self):
        with open(self.log, "ab") as out:
            begin = out.tell()
            self.process = await asyncio.create_subprocess_exec(*self.words, stdin=subprocess.DEVNULL, stdout=out,
                                                                stderr=out, env=self.env, preexec_fn=die_with_parent)
        with open(self.pid_file, "w") as out:
            out.write(str(self.process.pid))

        def has_said():
            if self.process.returncode is not None:
                raise RuntimeError(f"{self.words[0]} ended with {self.process.returncode}; see {self.log}")
            with open(self.log, "rb") as said:
                said.seek(begin)
                return self.ready in said.read()
        if self.ready:
            await until("ready " + self.words[0], has_said)

    @property
    def pid(self):
        return self.process.pid if self.process and self.process.returncode is None else 0

    def signal(self, number):
        if self.pid:
            with contextlib.suppress(ProcessLookupError):  # it has already ended
                os.kill(self.pid, number)

    async def kill(self):
        self.signal(signal.SIGKILL)
        if self.process:
            await self.process.wait()

    async def stop(self):
        """SIGTERM; gives its status."""
        self.signal(signal.SIGTERM)
        return await asyncio.wait_for(self.process.wait(), READY_S)


class ClockShift:
    """The time of day of one program, put forward and back."""

    def __init__(self, path):
        self.path = path
        self.set(0)

    def set(self, seconds):
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)  # in place: it is mapped
        os.pwrite(fd, struct.pack("<q", seconds * 1_000_000), 0)
        os.close(fd)

    def env(self, env, library):
        sanitizer = env.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
        return dict(env, LD_PRELOAD=library, SHIFTED_CLOCK=self.path, ASAN_OPTIONS=sanitizer)


class RedisFiles:
    """A wrapper before the real redis-server in PATH: it can move the clock of all servers that it starts forward and
    back, and remove data that had not reached the disk."""

    def __init__(self, folder, clock_library, synced_library):
        self.folder = folder
        self.clock = os.path.join(folder, "clock.so")
        self.bin, self.synced = os.path.join(folder, "bin"), os.path.join(folder, "synced")
        os.mkdir(self.bin)
        os.mkdir(self.synced)
        self.shift = os.path.join(folder, "shift")
        self.step_us = 0
        self._write_shift()
        links = []
        for name, library in (("clock.so", clock_library), ("synced.so", synced_library)):
            links.append(os.path.join(folder, name))  # LD_PRELOAD takes no path with a space in it
            os.symlink(library, links[-1])
        path = os.path.join(self.bin, "redis-server")
        with open(path, "w") as script:
            script.write(f"#!/bin/sh\nexport LD_PRELOAD='{':'.join(links)}' SHIFTED_CLOCK='{self.shift}' "
                         f"SYNCED_BYTES='{self.synced}'\nPATH=${{PATH#*:}}\nexec redis-server \"$@\"\n")
        os.chmod(path, 0o700)
        self.env = dict(os.environ, PATH=self.bin + ":" + os.environ["PATH"])

    def _write_shift(self):
        # In place: it is mapped.
        fd = os.open(self.shift, os.O_RDWR | os.O_CREAT, 0o600)
        os.pwrite(fd, struct.pack("<q", self.step_us), 0)
        os.close(fd)

    def step_clock(self, us):
        self.step_us += us
        self._write_shift()

    def lose_unsynced(self, data, rng):
        """After redis-server was killed: cuts each file of its AOF to what had reached the disk, or a little more of
        what may have. Gives how many bytes are gone."""
        lost = 0
        folder = os.path.join(data, "appendonlydir")
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            status = os.stat(path)
            try:
                with open(os.path.join(self.synced, str(status.st_ino)), "rb") as note:
                    synced = struct.unpack("<q", note.read(8))[0]
            except FileNotFoundError:
                continue
            if name.endswith(".manifest") or status.st_size <= synced:
                continue
            keep = rng.randint(synced, status.st_size)
            lost += status.st_size - keep
            os.truncate(path, keep)
        return lost


async def mend_aof(data):
    """The repair that docs/store.md describes for a killed redis-server."""
    manifest = os.path.join(data, "appendonlydir", "appendonly.aof.manifest")
    if os.path.exists(manifest):
        await run("redis-check-aof", "--fix", manifest, text=b"y\n" * 8)


class Caller:
    """A process that makes calls over one wire (caller.c, or grpc_caller.py, with the same lines)."""

    def __init__(self, name, words, log):
        self.name, self.words, self.log = name, words, log
        self.is_doubled = False  # its messages may be sent twice by others than it
        self.process = None
        self.open = {}
        self.last = 0

    async def start(self):
        with open(self.log, "ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *self.words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, limit=1 << 24,
                preexec_fn=die_with_parent)
        self.reader = asyncio.create_task(self._read(self.process))

    async def _read(self, process):
        while line := await process.stdout.readline():
            if not line.endswith(b"\n"):
                break  # killed while it wrote
            answer = json.loads(line)
            waiting = self.open.pop(answer["k"], None)
            if waiting and not waiting.done():
                waiting.set_result(answer)
        await process.wait()
        if process is self.process:
            for waiting in self.open.values():
                if not waiting.done():
                    waiting.set_result({"code": "LOST", "applied": "MAYBE"})
            self.open.clear()

    async def call(self, method, request, timeout_ms):
        """{"code", "applied", "a" or "why", "b", "e"}; LOST when the caller died."""
        process = self.process
        if process.returncode is not None:
            return None
        self.last += 1
        k = self.last
        waiting = self.open[k] = asyncio.get_running_loop().create_future()
        line = json.dumps({"k": k, "m": method, "t": timeout_ms, "r": request}) + "\n"
        try:
            process.stdin.write(line.encode())
        except (BrokenPipeError, ConnectionResetError):
            self.open.pop(k, None)
            return None
        return await waiting

    def signal(self, number):
        if self.process.returncode is None:
            os.kill(self.process.pid, number)

    async def kill(self):
        self.signal(signal.SIGKILL)
        await self.reader

    async def close(self):
        self.process.stdin.close()
        await asyncio.wait_for(self.reader, READY_S)
        return self.process.returncode


def link_of(name, log, *addresses):
    """link.py, which takes commands like a caller."""
    return Caller(name, ["/usr/bin/python3", os.path.join(HERE, "link.py"), *addresses], log)
