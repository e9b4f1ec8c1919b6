#!/usr/bin/python3
"""A socket before another: link.py LISTEN TARGET [OTHER], each the path of a unix socket or a port of 127.0.0.1. With OTHER
it is in front of lockstockd, on the wire tcp://. Commands come on stdin, one a line like caller.c's ("m"
and "r"), and each is answered:

  pass            lets all through, from now on
  cut {after}     ends all connections, after so many more bytes of answers
  delay {ms}      lets each piece through so much later
  hold {drop}     lets nothing through until pass; with drop all connections that it had then end instead
  refuse          ends all connections, and new ones at once
  double {ms, other}  sends every second message again, so much later, on a connection of its own, to TARGET or to OTHER;
                  the answer is not read
"""
import asyncio
import itertools
import json
import sys

SP_GREETING = b"\0SP\0\0\x30\0\0"  # docs/wire.md
LENGTH_BYTES = 8

state = {"m": "pass", "r": {}}
changed = asyncio.Event()
connections = set()
answers_left = None
messages = itertools.count()
copies = set()


def connect(address):
    if address.isdigit():
        return asyncio.open_connection("127.0.0.1", int(address))
    return asyncio.open_unix_connection(address)


async def message_of(reader):
    length = await reader.readexactly(LENGTH_BYTES)
    return length + await reader.readexactly(int.from_bytes(length, "big"))


async def pieces(reader, whole):
    """What comes, `whole`: message by message."""
    try:
        if whole:
            yield await reader.readexactly(len(SP_GREETING))
        while data := await (message_of(reader) if whole else reader.read(65536)):
            yield data
    except asyncio.IncompleteReadError:
        pass


async def send_again(message, ms, other):
    await asyncio.sleep(ms / 1000)
    try:
        reader, writer = await connect(sys.argv[3 if other else 2])
    except OSError:
        return
    try:
        writer.write(SP_GREETING + message)
        await reader.readexactly(len(SP_GREETING))
        await message_of(reader)
    except (OSError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.transport.abort()


def end_all():
    for writer in list(connections):
        writer.transport.abort()


async def pump(reader, writer, is_answer):
    global answers_left
    try:
        async for data in pieces(reader, len(sys.argv) > 3 and not is_answer):
            while state["m"] == "hold":
                await changed.wait()
            if state["m"] == "delay":
                await asyncio.sleep(state["r"]["ms"] / 1000)
            if state["m"] == "double" and not is_answer and data != SP_GREETING and next(messages) % 2:
                copy = asyncio.create_task(send_again(data, **state["r"]))
                copies.add(copy)
                copy.add_done_callback(copies.discard)
            if is_answer and answers_left is not None:
                answers_left -= len(data)
                if answers_left <= 0:
                    writer.write(data[:answers_left or None])
                    await asyncio.sleep(0)
                    answers_left = None
                    end_all()
                    break
            writer.write(data)
            await writer.drain()
    except (ConnectionError, RuntimeError):
        pass
    finally:
        writer.transport.abort()


async def serve(reader, writer):
    if state["m"] == "refuse":
        writer.transport.abort()
        return
    try:
        to_reader, to_writer = await connect(sys.argv[2])
    except OSError:
        writer.transport.abort()
        return
    connections.update((writer, to_writer))
    await asyncio.gather(pump(reader, to_writer, False), pump(to_reader, writer, True))
    connections.difference_update((writer, to_writer))
    to_writer.transport.abort()


async def main():
    global state, changed, answers_left
    if sys.argv[1].isdigit():
        await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1]))
    else:
        await asyncio.start_unix_server(serve, sys.argv[1])
    told = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(told), sys.stdin)
    while line := await told.readline():
        before, state = state, json.loads(line)
        if state["m"] == "cut" and state["r"]["after"] == 0 or state["m"] == "refuse" or before["r"].get("drop"):
            end_all()
        elif state["m"] == "cut":
            answers_left = state["r"]["after"]
        changed.set()
        changed = asyncio.Event()
        print(json.dumps({"k": state["k"], "code": "OK", "applied": "YES", "a": {}}), flush=True)


asyncio.run(main())
