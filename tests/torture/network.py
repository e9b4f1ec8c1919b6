#!/usr/bin/python3
"""The network of a set: network.py HOST SET FOLDER. It listens at HOST on the ports of all nodes in SET (of redis-set.sh
with --announce HOST, or of an ensemble), also on those of a cluster's bus or of elections, and passes on to 127.0.0.1. A
node is known by the address that it connects from, or by its process, since MIGRATE and members of an ensemble connect from
127.0.0.1; its name is its port. lockstockd is known by its process, its name is that of FOLDER/name.pid. Others are
refused.

Commands come on stdin, one a line like caller.c's ("m" and "r"), and each is answered:

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
ELECTION = b"\xff\xff\xff\xff\xff\xff\0"  # so a member of an ensemble begins; it says where to call it back
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
                if data.startswith(ELECTION):
                    data = data.replace(b"127.0.0.1", HOST.encode())  # as long, or its length would be wrong
                writer.write(data)
                await writer.drain()
            await self.until_open(way)
        except (ConnectionError, RuntimeError):
            pass
        finally:
            writer.transport.abort()


def process_with(inode):
    """The name of the lockstockd or the node that has this socket."""
    found = [(os.path.basename(path).removesuffix(".pid"), path) for path in glob.glob(f"{FOLDER}/*.pid")]
    found += [(os.path.basename(os.path.dirname(path)), path) for path in glob.glob(f"{SET}/*/pid")]
    for name, path in found:
        with open(path) as file:
            fds = glob.glob(f"/proc/{file.read().strip()}/fd/*")
        for fd in fds:
            try:
                if os.readlink(fd) == f"socket:[{inode}]":
                    return name
            except OSError:  # it has just been closed
                pass
    return None


def at_other_end(theirs, mine):
    """The name of who connected, by both addresses."""
    _, high, low, last = (int(part) for part in theirs[0].split("."))
    if (high, low, last) != (0, 0, 1):
        return str(high * 256 + low)
    wanted = [f"{struct.unpack('=I', inet_aton(host))[0]:08X}:{port:04X}" for host, port in (theirs, mine)]
    with open("/proc/net/tcp") as table:
        for line in table:
            words = line.split()
            if words[1:3] == wanted:
                return process_with(words[9])
    return None


async def serve(node, port, reader, writer):
    who = await asyncio.to_thread(at_other_end, writer.get_extra_info("peername"), writer.get_extra_info("sockname"))
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
