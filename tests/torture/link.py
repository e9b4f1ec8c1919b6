#!/usr/bin/python3
"""A unix socket before another: link.py LISTEN TARGET. What it does to its connections is told on stdin, a line as
caller.c's ("m" and "r"), and each is answered:

  pass            lets all through, from now on
  cut {after}     ends all connections, after so many more bytes of answers
  delay {ms}      lets each piece through so much later
  hold {drop}     lets nothing through until pass; with drop all connections that it had then end instead
  refuse          ends all connections, and new ones at once
"""
import asyncio
import json
import sys

state = {"m": "pass", "r": {}}
changed = asyncio.Event()
connections = set()
answers_left = None


def end_all():
    for writer in list(connections):
        writer.transport.abort()


async def pump(reader, writer, is_answer):
    global answers_left
    try:
        while data := await reader.read(65536):
            while state["m"] == "hold":
                await changed.wait()
            if state["m"] == "delay":
                await asyncio.sleep(state["r"]["ms"] / 1000)
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
        to_reader, to_writer = await asyncio.open_unix_connection(sys.argv[2])
    except OSError:
        writer.transport.abort()
        return
    connections.update((writer, to_writer))
    await asyncio.gather(pump(reader, to_writer, False), pump(to_reader, writer, True))
    connections.difference_update((writer, to_writer))
    to_writer.transport.abort()


async def main():
    global state, changed, answers_left
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
