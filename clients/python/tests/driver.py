"""The driver of this package for clients/cases/run.py: driver.py threads|asyncio."""
import asyncio
import inspect
import json
import sys
import threading
import time

import lockstock
import lockstock.aio
from lockstock.v1 import guard_pb2, lock_pb2


def arguments(ask):
    names = ("lease", "wait", "shared", "group", "max_hold")
    return {name: ask[name] for name in names if name in ask}


def entry(ask):
    locks = guard_pb2.GuardLocks(targets=[lock_pb2.Target(name=name) for name in ask["names"]])
    return guard_pb2.EnterRequest(locks=locks, lease_ms=round(ask["lease"] * 1000), wait_ms=round(ask["wait"] * 1000))


def failure(error):
    if isinstance(error, asyncio.CancelledError):
        return {"error": "Cancelled"}
    told = {"error": type(error).__name__, "text": str(error)}
    for name in ("code", "applied", "reason", "field", "holder", "detail", "outcome"):
        if hasattr(error, name):
            told[name] = getattr(error, name)
    return told


def refused(ask, attempt):
    if ask.get("raise") == "error":
        raise ValueError("as told")
    if ask.get("raise") == "give up":
        raise lockstock.GiveUp("as told")
    return ask["result"]


class Driver:
    """`wait` gives the result of an operation: at once with threads, by `await` in asyncio."""

    def __init__(self, connect):
        self.connect = connect
        self.clients, self.locks, self.waits = {}, {}, {}

    async def wait(self, value):
        return await value if inspect.isawaitable(value) else value

    async def do(self, ask):
        return await getattr(self, "do_" + ask["do"])(ask) or {}

    async def do_connect(self, ask):
        self.clients[ask["client"]] = self.connect(ask["url"])

    def make_lock(self, ask):
        client = self.clients[ask["client"]]
        if "capacity" in ask:
            return client.semaphore(ask["names"][0], capacity=ask["capacity"], **arguments(ask))
        return client.lock(*ask["names"], **arguments(ask))

    async def do_lock(self, ask):
        lock = self.make_lock(ask)
        self.waits[ask["id"]] = asyncio.current_task() if self.connect is lockstock.aio.connect else None
        await self.wait(lock.acquire())
        self.locks[ask["id"]] = lock
        lost = threading.Event()
        lock.on_lost(lost.set)
        lock.told = lost
        return {"fence": lock.fence, "token": lock.token}

    async def do_release(self, ask):
        await self.wait(self.locks.pop(ask["id"]).release())

    async def do_state(self, ask):
        lock = self.locks[ask["id"]]
        return {"lost": lock.lost, "remaining": lock.remaining}

    async def do_lost(self, ask):
        told = self.locks[ask["id"]].told
        if self.connect is lockstock.aio.connect:
            await asyncio.get_running_loop().run_in_executor(None, told.wait)
        else:
            told.wait()

    async def do_deduct(self, ask):
        stock = self.clients[ask["client"]].stock
        return {"replayed": (await self.wait(stock.deduct(ask["order"], {ask["sku"]: ask["quantity"]}))).replayed}

    async def do_limit(self, ask):
        limit = self.clients[ask["client"]].limit
        return {"allowed": bool(await self.wait(limit(ask["key"], limit=ask["limit"], period=ask["period"])))}

    async def do_close(self, ask):
        await self.wait(self.clients.pop(ask["client"]).close(within=60))


class Threads(Driver):
    async def do_enter(self, ask):
        with self.clients[ask["client"]].enter(entry(ask)):
            pass

    async def do_once(self, ask):
        ran = []

        @self.clients[ask["client"]].once("cases", key=lambda: ask["key"], **arguments(ask))
        def function():
            ran.append(1)
            return refused(ask, lockstock.attempt())
        return {"result": function(), "ran": bool(ran)}

    async def do_reserve(self, ask):
        with self.clients[ask["client"]].reserve(ask["order"], {ask["sku"]: ask["quantity"]}, hold=60) as reservation:
            if ask["confirm"]:
                reservation.confirm()


class Asyncio(Driver):
    async def do_enter(self, ask):
        async with self.clients[ask["client"]].enter(entry(ask)):
            pass

    async def do_cancel(self, ask):
        self.waits[ask["id"]].cancel()

    async def do_block(self, ask):
        time.sleep(ask["seconds"])

    async def do_once(self, ask):
        ran = []

        @self.clients[ask["client"]].once("cases", key=lambda: ask["key"], **arguments(ask))
        async def function():
            ran.append(1)
            return refused(ask, lockstock.attempt())
        return {"result": await function(), "ran": bool(ran)}

    async def do_reserve(self, ask):
        async with self.clients[ask["client"]].reserve(ask["order"], {ask["sku"]: ask["quantity"]}, hold=60) as reservation:
            if ask["confirm"]:
                await reservation.confirm()


async def answer(driver, ask):
    try:
        told = await driver.do(ask)
    except (Exception, asyncio.CancelledError) as error:
        told = failure(error)
    sys.stdout.write(json.dumps({"seq": ask["seq"], **told}) + "\n")
    sys.stdout.flush()


def threads():
    driver = Threads(lockstock.connect)
    for line in sys.stdin:
        threading.Thread(target=lambda ask: lockstock._calls.Caller.run(answer(driver, ask)), args=(json.loads(line),),
                         daemon=True).start()


async def in_asyncio():
    driver, loop, tasks = Asyncio(lockstock.aio.connect), asyncio.get_running_loop(), set()
    while True:
        line = await loop.run_in_executor(None, sys.stdin.readline)
        if not line:
            return
        task = asyncio.ensure_future(answer(driver, json.loads(line)))
        tasks.add(task)
        task.add_done_callback(tasks.discard)


if __name__ == "__main__":
    if sys.argv[1] == "threads":
        threads()
    else:
        asyncio.run(in_asyncio())
