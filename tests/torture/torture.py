#!/usr/bin/python3
"""Many clients, faults chosen by a seed, and a check of all that was answered (docs/torture.md):

  torture.py --build build/asan [--store embedded|redis|sentinel|cluster|zookeeper] [--seconds 60] [--seed N] [--clients 6]
             [--faults a,b] [--keep DIR] [--server LOCKSTOCKD] [--flag=--wait-replicas=1]

Exit 0: no fault found; 1: the faults are in the output, and the history is in the directory that it names."""
import argparse
import asyncio
import json
import logging
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

import check
import check_stock
from load import GATE, GROUPS, LOCKS, SPLIT, Load
from nemesis import Nemesis
from processes import SOURCE, Caller, Program, RedisFiles, free_port, is_free, link_of, now_ns, until
from stores import store_of

SERVERS = 2
ASKED_AT_ONCE = 200
BACK_S = 20  # until all is back to where it was, at most, after the last fault


class World:
    """All processes of a run."""

    def __init__(self, arguments, folder):
        self.arguments, self.folder = arguments, folder
        build = arguments.build
        self.files = RedisFiles(folder, os.path.join(build, "tests/support/libshifted-clock.so"),
                                os.path.join(build, "tests/torture/libsynced-bytes.so"))
        self.store = store_of(arguments.store, folder, self.files, arguments.zookeeper)
        self.servers, self.callers = [], []
        self.wires = []  # before each server's tcp

    async def start(self):
        await self.store.start(SERVERS)
        urls = [self._urls(i) for i in range(SERVERS)]
        for i, url in enumerate(urls):
            program = self.arguments.server or os.path.join(self.arguments.build, "server/lockstockd")
            server = Program([program, "--listen", ",".join(url.values()), "--store", self.store.urls[i],
                              "--drain-ms", "1000", "--sweep-ms", "2000", *self.store.flags.get(i, []),
                              *self.arguments.flag],
                             f"{self.folder}/server{i}.log", self.store.server_env(i), b"event=ready")
            self.servers.append(server)
            self.store.servers = self.servers
            await server.start()
        ports = [str(free_port()) for _ in urls]
        tcp = [url["tcp"].rpartition(":")[2] for url in urls]
        for i, port in enumerate(ports):
            link = link_of(f"wire{i}", f"{self.folder}/wire.log", port, tcp[i], tcp[1 - i])
            self.wires.append(link)
            await link.start()
            await until("link", lambda: not is_free(int(port)))
            urls[i]["tcp"] = f"tcp://127.0.0.1:{port}"
        for name, words in self._callers(urls):
            caller = Caller(name, words, f"{self.folder}/callers.log")
            caller.is_doubled = name.startswith("tcp")
            self.callers.append(caller)
            await caller.start()

    def _urls(self, i):
        return {"tcp": f"tcp://127.0.0.1:{free_port()}", "unix": f"unix://{self.folder}/server{i}",
                "grpc": f"grpc://127.0.0.1:{free_port()}", "ws": f"ws://127.0.0.1:{free_port()}/lockstock"}

    def _callers(self, urls):
        program = os.path.join(self.arguments.build, "tests/torture/torture_caller")
        a, b = urls
        yield "tcp-a", [program, f"{a['tcp']},{b['tcp']}"]
        yield "tcp-b", [program, f"{b['tcp']},{a['tcp']}"]
        yield "unix-a", [program, f"{a['unix']},{b['unix']}"]
        yield "ws-b", [program, f"nng+{b['ws']},nng+{a['ws']}"]
        if subprocess.run(["/usr/bin/python3", "-c", "import grpc"], capture_output=True).returncode != 0:
            print("without gRPC: /usr/bin/python3 has no grpcio")
            return
        stubs = os.path.join(self.folder, "stubs")
        os.mkdir(stubs)
        protos = [os.path.join(at, name) for at, _, names in os.walk(os.path.join(SOURCE, "proto")) for name in names
                  if name.endswith(".proto")]
        subprocess.run(["protoc", "-I", os.path.join(SOURCE, "proto"), "--python_out", stubs, *protos], check=True)
        targets = ",".join(url["grpc"].removeprefix("grpc://") for url in urls)
        yield "grpc", ["/usr/bin/python3", os.path.join(os.path.dirname(__file__), "grpc_caller.py"), stubs, targets]

    async def stop(self):
        wrong = []
        for caller in self.callers:
            status = await caller.close()
            if status != 0:
                wrong.append(f"caller {caller.name} ended with {status}; see callers.log")
        for wire in self.wires:
            await wire.close()
        for server in reversed(self.servers):
            status = await server.stop()
            if status != 0:
                wrong.append(f"lockstockd ended with {status} after SIGTERM; see {server.log}")
        await self.store.close()
        return wrong


async def ask(load, method, request, missing=None):
    """The final state of a thing; faults have ended. `missing`: the value for NOT_FOUND."""
    end = time.monotonic() + BACK_S
    while True:
        entry = await load.call(method, request, caller=load.callers[0])
        load.history.pop()  # it is no part of it
        if entry["code"] == "OK":
            return entry["a"]
        if entry["code"] == "NOT_FOUND":
            return missing
        if time.monotonic() > end:
            raise RuntimeError(f"{method} {request}: {entry['code']}, {entry.get('why')}, long after the last fault")


async def ask_each(load, method, requests):
    """The same for many, a few at a time: each has all of BACK_S."""
    few = asyncio.Semaphore(ASKED_AT_ONCE)

    async def one(request):
        async with few:
            return await ask(load, method, request, {})
    return await asyncio.gather(*(one(request) for request in requests))


async def settled(load, back_s):
    """Waits until the ledger of the group in buckets says that nothing is reserved."""
    end, reserved = time.monotonic() + back_s, 1
    while reserved and time.monotonic() < end:
        reserved, after = 0, "0-0"
        while (page := await ask(load, "StockService/ReadLedger",
                                 {"group": SPLIT, "after": after, "limit": 1000})).get("entries"):
            after = page["nextAfter"]
            for entry in page["entries"]:
                reserved += int(entry["quantity"]) * check_stock.EFFECT[entry["kind"].removeprefix("LEDGER_KIND_")][1]


async def witness(load, back_s):
    """The final state: items, ledgers, orders, locks, results."""
    end = time.monotonic() + back_s
    while True:
        items = {group: (await ask(load, "StockService/ListItems", {"group": group}))["items"] for group in GROUPS}
        locks = {}
        for group in LOCKS:
            for name in (("left", "right") if group == "pair" else (group,)):
                locks[group, name] = await ask(load, "LockService/Inspect", {"group": group, "name": name})
        busy = any(int(item.get("reserved", 0)) for group in items.values() for item in group)
        busy = busy or any(lock.get("holders") or int(lock.get("waiters", 0)) for lock in locks.values())
        if not busy or time.monotonic() > end:
            break
        await asyncio.sleep(0.1)
    ledgers = {}
    for group in GROUPS:
        # Holds that are over are in the ledger at the next write to the group at the latest (docs/ledger.md).
        end = {"group": group, "sku": GROUPS[group][0], "delta": 1, "adjustmentId": f"end-{group}"}
        entry = await load.call("StockService/Adjust", end, caller=load.callers[0])
        if entry["code"] != "OK":
            raise RuntimeError(f"{end}: {entry}")
        items[group] = (await ask(load, "StockService/ListItems", {"group": group}))["items"]
        ledger = ledgers[group] = []
        if group == SPLIT:  # there it is per bucket: another server's sweep finds what a dead server left
            await settled(load, back_s)
        while entries := (await ask(load, "StockService/ReadLedger", {
                "group": group, "after": ledger[-1]["id"] if ledger else "0-0", "limit": 1000})).get("entries"):
            ledger += entries
    orders = {}
    for group, names in load.orders.items():
        answers = await ask_each(load, "StockService/GetOrder", [{"group": group, "orderId": name} for name in names])
        orders.update({f"{group}/{name}": answer.get("order") for name, answer in zip(names, answers)})
    results = {}
    keys = sorted({entry["r"]["key"] for entry in load.history if entry.get("m") == "Begin"} |
                  {entry["r"]["once"]["key"] for entry in load.history if entry.get("m") == "Guard.Enter" and "once" in entry["r"]})
    answers = await ask_each(load, "IdempotencyService/Get",
                             [{"scope": "pay", "key": key, "group": GATE if key.startswith("gate") else ""} for key in keys])
    results.update(zip(keys, answers))
    return {"items": items, "ledgers": ledgers, "followed": load.followed, "orders": orders, "results": results,
            "locks": [{"group": group, "name": name, "is": lock} for (group, name), lock in locks.items()]}


async def torture(arguments, folder):
    world = World(arguments, folder)
    rng = random.Random(arguments.seed)
    await world.start()
    load = Load(world.callers, random.Random(rng.random()))
    only = arguments.faults.split(",") if arguments.faults is not None else None
    nemesis = Nemesis(world, random.Random(rng.random()), load.history, only)
    wall_ns = time.time_ns() - now_ns()
    await load.set_up()
    tasks = load.tasks(arguments.clients)
    loop = asyncio.get_running_loop()
    if any(nemesis.all()):
        await nemesis.rampage(loop.time() + arguments.seconds)
    else:
        await asyncio.sleep(arguments.seconds)
    try:
        await nemesis.heal()
        load.ending = True
        await asyncio.wait_for(asyncio.gather(*tasks), BACK_S * 2)
        seen = await witness(load, arguments.back)
    except (RuntimeError, asyncio.TimeoutError):
        tell_failed(nemesis)
        raise
    record = {"seed": arguments.seed, "store": arguments.store, "wall_ns": wall_ns, "history": load.history,
              "witness": seen, "stopping": await world.stop(), "may_lose": world.store.may_lose(arguments.flag)}
    with open(os.path.join(folder, "history.json"), "w") as out:
        json.dump(record, out)
    return record, nemesis


def tell_failed(nemesis):
    for failed in nemesis.failed:
        print(f"  could not do: {failed['fault']}: {failed['failed']}")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--build", default=os.path.join(SOURCE, "build/asan"))
    parser.add_argument("--store", default="embedded", choices=["embedded", "redis", "sentinel", "cluster", "zookeeper"])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--clients", type=int, default=6, help="of each kind")
    parser.add_argument("--faults", default=None, help="only these, with commas; empty: none")
    parser.add_argument("--server", default=None)
    parser.add_argument("--flag", action="append", default=[], help="one more of lockstockd's")
    parser.add_argument("--zookeeper", default=None, help="the class path of another ZooKeeper than Debian's; then all faults are done")
    parser.add_argument("--back", type=float, default=BACK_S, help="seconds until all must be back")
    parser.add_argument("--keep", default=None, help="where the history and the logs stay")
    arguments = parser.parse_args()
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # it would report each write to a killed caller
    arguments.build = os.path.abspath(arguments.build)
    if arguments.seed is None:
        arguments.seed = random.SystemRandom().randrange(1 << 31)
    folder = tempfile.mkdtemp(prefix="lks-torture-")
    print(f"torture: {arguments.store}, {arguments.seconds:g} s, seed {arguments.seed}", flush=True)
    good = False
    try:
        record, nemesis = asyncio.run(torture(arguments, folder))
        report = check.check(record)
        good = not report.wrong
        calls = [entry for entry in record["history"] if "m" in entry]
        codes = {}
        for entry in calls:
            codes[entry["code"]] = codes.get(entry["code"], 0) + 1
        print(f"{len(calls)} calls:", ", ".join(f"{count} {code}" for code, count in sorted(codes.items())))
        print(f"{sum(nemesis.counts.values())} faults:",
              ", ".join(f"{n} {name}" for name, n in sorted(nemesis.counts.items())))
        tell_failed(nemesis)
        print(report.text())
    except (RuntimeError, asyncio.TimeoutError) as failure:
        print(f"WRONG: {failure or 'calls do not end'}")
    finally:
        if arguments.keep:  # "": nothing stays
            shutil.copytree(folder, arguments.keep, ignore=shutil.ignore_patterns("*.sock", "server?", "link?", "control"))
        if good or arguments.keep is not None:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            print(f"the history and the logs are in {folder}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
