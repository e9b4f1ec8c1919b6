#!/usr/bin/python3
"""The network of a set: network.py HOST SET FOLDER. It listens at HOST on the ports of all nodes in SET (of redis-set.sh
with --announce HOST), also on those of a cluster's bus, and passes on to 127.0.0.1. Who connects is known by its process: a
node by SET/port/pid, lockstockd by FOLDER/name.pid. Its name is the port, or that name; nobody else is let through.

What it does is told on stdin, a line as caller.c's ("m" and "r"), and each is answered:

  block {pairs}   nothing passes from the first to the second of each pair; what is sent is kept. Without both ways
                  nobody connects
  pass {drop}     all passes again, also what was kept; with drop all connections that were in its way end instead
"""
import asyncio
import glob
import json
import os
import struct
import sys
from socket import inet_aton

BUS = 10000
LOOK_S = 0.02  # for nodes that are new
HOST, SET, FOLDER = sys.argv[1:]

blocked = set()
changed = asyncio.Event()
connections = set()


class Connection:
    def __init__(self, ends):
        self.ends = ends
        self.writers = []
        self.was_blocked = False

    def end(self):
        for writer in self.writers:
            writer.transport.abort()

    async def until_open(self, *ways):
        while not blocked.isdisjoint(ways):
            self.was_blocked = True
            await changed.wait()

    async def pump(self, reader, writer, way):
        try:
            while data := await reader.read(65536):
                await self.until_open(way)
                writer.write(data)
                await writer.drain()
            await self.until_open(way)
        except (ConnectionError, RuntimeError):
            pass
        finally:
            writer.transport.abort()


def members():
    """name: pid"""
    found = {}
    for path in glob.glob(f"{SET}/*/pid") + glob.glob(f"{FOLDER}/*.pid"):
        with open(path) as file:
            text = file.read()
        name = os.path.basename(os.path.dirname(path) if path.endswith("/pid") else path.removesuffix(".pid"))
        found[name] = int(text or 0)
    return found


def at_other_end(writer):
    """The name of who connected."""
    def field(address):
        host, port = address
        return f"{struct.unpack('=I', inet_aton(host))[0]:08X}:{port:04X}"

    mine, theirs = (field(writer.get_extra_info(what)) for what in ("sockname", "peername"))
    with open("/proc/net/tcp") as table:
        for line in table:
            words = line.split()
            if words[1:3] == [theirs, mine]:
                break
        else:
            return None
    for name, pid in members().items():
        try:
            for fd in os.listdir(f"/proc/{pid}/fd"):
                if os.readlink(f"/proc/{pid}/fd/{fd}") == f"socket:[{words[9]}]":
                    return name
        except OSError:  # it has ended, or closed one of them
            pass
    return None


async def serve(node, port, reader, writer):
    who = at_other_end(writer)
    if not who:
        writer.transport.abort()
        return
    there, back = (who, node), (node, who)
    connection = Connection({who, node})
    connection.writers.append(writer)
    connections.add(connection)
    try:
        await connection.until_open(there, back)
        if reader.at_eof() or writer.transport.is_closing():
            return
        to_reader, to_writer = await asyncio.open_connection("127.0.0.1", port)
        connection.writers.append(to_writer)
        await asyncio.gather(connection.pump(reader, to_writer, there), connection.pump(to_reader, writer, back))
    except OSError:
        pass
    finally:
        connection.end()
        connections.discard(connection)


async def listen():
    """At each node, as soon as there is one."""
    known = set()
    while True:
        if os.path.exists(f"{SET}/nodes"):
            with open(f"{SET}/nodes") as nodes:
                found = {line.split()[0] for line in nodes if line.endswith("\n")}
            for node in found - known:
                for port in (int(node), int(node) + BUS):
                    await asyncio.start_server(lambda r, w, node=node, port=port: serve(node, port, r, w), HOST, port)
            known |= found
        await asyncio.sleep(LOOK_S)


def obey(order):
    global blocked, changed
    blocked = {tuple(pair) for pair in order["r"].get("pairs", [])}
    for connection in list(connections):
        if connection.was_blocked and order["r"].get("drop"):
            connection.end()
        connection.was_blocked = False
    changed.set()
    changed = asyncio.Event()


async def main():
    told = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(told), sys.stdin)
    listening = asyncio.create_task(listen())
    while line := await told.readline():
        order = json.loads(line)
        obey(order)
        print(json.dumps({"k": order["k"], "code": "OK", "applied": "YES", "a": {}}), flush=True)
    listening.cancel()


asyncio.run(main())
