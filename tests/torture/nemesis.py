"""Injects faults chosen by the seed, and ends them. Every fault is in the history with its beginning and end."""
import asyncio
import os
import signal

from processes import now_ns

PAUSE_S = 2          # between two faults of a kind, at most
QUIET_SHARE = 0.08   # of the pauses are long ones,
QUIET_S = 6          # in which promises for undisturbed times can be checked
STEP_US = 1_500_000  # of the clock, at most


class Nemesis:
    def __init__(self, world, rng, history, only=None):
        self.world, self.rng, self.history, self.only = world, rng, history, only
        self.counts = {}
        self.failed = []

    def all(self):
        """Faults of processes and of Redis in general, and faults specific to this store."""
        own = [name[len("do_"):] for name in dir(self) if name.startswith("do_")]
        if self.world.store.common is not None:
            own = self.world.store.common
        own = [name for name in own if name != "redis_stopped" or name in self.world.store.faults]
        special = [name for name in self.world.store.faults if name not in own]
        return [[name for name in sorted(names) if self._is_chosen(name)] for names in (own, special)]

    def _is_chosen(self, name):
        return name not in self.world.store.not_by_itself if self.only is None else name in self.only

    async def rampage(self, end_s):
        """Both kinds at once, each one after the other."""
        self.quiet_until = 0
        await asyncio.gather(*(self.one_after_the_other(names, end_s) for names in self.all() if names))

    async def one_after_the_other(self, names, end_s):
        loop = asyncio.get_running_loop()
        while loop.time() < end_s:
            if self.rng.random() < QUIET_SHARE:
                self.quiet_until = max(self.quiet_until, loop.time() + QUIET_S)
            await asyncio.sleep(max(self.rng.random() * PAUSE_S, self.quiet_until - loop.time()))
            await self.fault(self.rng.choice(names))

    async def fault(self, name):
        record = {"fault": name, "b": now_ns(), "e": None}
        self.history.append(record)
        act = getattr(self, "do_" + name, None) or getattr(self.world.store, name)
        try:
            told = await (act() if hasattr(self, "do_" + name) else act(self.rng))
            record.update(told or {})
            self.counts[name] = self.counts.get(name, 0) + 1
        except (RuntimeError, OSError) as failure:  # a command to a Redis that another fault had stopped
            record["failed"] = str(failure)[-200:]
            self.failed.append(record)
        record["e"] = now_ns()

    # Processes of ours and of callers.

    async def do_server_killed(self):
        server = self.rng.choice(self.world.servers)
        async with server.busy:
            await server.kill()
            await asyncio.sleep(self.rng.choice([0, self.rng.random()]))
            await server.start()

    async def do_server_ended(self):
        server = self.rng.choice(self.world.servers)
        async with server.busy:
            status = await server.stop()
            await server.start()
        if status != 0:
            return {"violation": f"lockstockd ended with {status} after SIGTERM"}

    async def _freeze(self, who, longest_s):
        who.signal(signal.SIGSTOP)
        await asyncio.sleep(self.rng.random() * longest_s)
        who.signal(signal.SIGCONT)

    async def do_server_stopped(self):
        server = self.rng.choice(self.world.servers)
        async with server.busy:
            await self._freeze(server, 3)

    async def do_caller_killed(self):
        caller = self.rng.choice(self.world.callers)
        await caller.kill()
        await caller.start()

    async def do_messages_doubled(self):
        wire, ms = self.rng.choice(self.world.wires), self.rng.choice([0, self.rng.randint(1, 1000)])
        await wire.call("double", {"ms": ms, "other": self.rng.random() < 0.5}, 0)
        await asyncio.sleep(self.rng.random() * 3)
        await wire.call("pass", {}, 0)
        await asyncio.sleep(ms / 1000)

    async def do_caller_stopped(self):
        await self._freeze(self.rng.choice(self.world.callers), 2)

    # Redis.

    async def do_redis_stopped(self):
        pids = self.world.store.pids()
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        await asyncio.sleep(self.rng.random() * 3)
        for pid in pids:
            os.kill(pid, signal.SIGCONT)

    async def do_clients_killed(self):
        await self.world.store.command("CLIENT", "KILL", "TYPE", self.rng.choice(["normal", "pubsub"]))

    async def do_clients_paused(self):
        await self.world.store.command("CLIENT", "PAUSE", str(self.rng.randint(50, 2000)), self.rng.choice(["ALL", "WRITE"]))

    async def do_functions_flushed(self):
        await self.world.store.command("FUNCTION", "FLUSH", "SYNC")

    async def do_memory_short(self):
        await self.world.store.command("CONFIG", "SET", "maxmemory", "1")
        await asyncio.sleep(self.rng.random() * 1.5)
        await self.restore()

    async def do_file_rewritten(self):
        await self.world.store.command("BGREWRITEAOF")

    async def do_clock_stepped(self):
        self.world.files.step_clock(self.rng.randint(-STEP_US, STEP_US))

    async def restore(self):
        for _ in range(200):
            try:
                return await self.world.store.restore()
            except RuntimeError:
                await asyncio.sleep(0.05)
        raise RuntimeError("Redis stays away")

    async def heal(self):
        """All is as it was at the beginning."""
        for server in self.world.servers:
            server.signal(signal.SIGCONT)
        await self.world.store.heal()
        await self.restore()
        await self.world.store.agree()
