#!/usr/bin/python3
"""Clients of grpc:// that are killed with SIGKILL while each has calls that wait for a lock: descriptors and
memory come back to the start, and the lock goes to who asks next. grpc_killed_clients.py LOCKSTOCKD; 50 clients,
or 1,000 with LOCKSTOCK_SOAK. HTTP/2 by hand, so that a client is as cheap as a fork."""
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile

CALLS = 8
BATCH = 25
CLIENTS = 1000 if os.environ.get("LOCKSTOCK_SOAK") else 50
LIMIT_S = 60
MEMORY_KIB = 8 * 1024  # what may differ: arenas and buffers that are kept for later


def frame(kind, flags, stream, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def text(field, value):
    return bytes([field << 3 | 2, len(value)]) + value


def number(field, value):
    out = bytearray([field << 3])
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


class Client:
    def __init__(self, address):
        self.socket = socket.create_connection(address, LIMIT_S)
        self.last = -1
        # All that it will ever be sent is allowed at once.
        self.socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0) +
                            frame(8, 0, 0, (0x7FFF0000).to_bytes(4, "big")))

    def send(self, path, message):
        self.last += 2
        fields = ((b":method", b"POST"), (b":scheme", b"http"), (b":path", path), (b":authority", b"test"),
                  (b"te", b"trailers"), (b"content-type", b"application/grpc"))
        block = b"".join(b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value for name, value in fields)
        data = b"\0" + len(message).to_bytes(4, "big") + message
        self.socket.sendall(frame(1, 4, self.last, block) + frame(0, 1, self.last, data))
        return self.last

    def exactly(self, n):
        data = b""
        while len(data) < n:
            more = self.socket.recv(n - len(data))
            if not more:
                raise EOFError("the server closed the connection")
            data += more
        return data

    def answer(self, stream):
        """The message of a call, without its prefix; b"" when it failed."""
        data = b""
        while True:
            head = self.exactly(9)
            payload = self.exactly(int.from_bytes(head[:3], "big"))
            if int.from_bytes(head[5:], "big") == stream:
                if head[3] == 0:
                    data += payload
                elif head[4] & 1 or head[3] == 3:
                    return data[5:]

    def call(self, method, message):
        return self.answer(self.send(b"/lockstock.v1.LockService/" + method, message))


def acquire(token, wait_ms):
    return text(2, text(1, b"door")) + text(3, token) + text(4, b"test") + number(5, 60000) + number(6, wait_ms)


def waiters(client):
    """LockState.waiters of the lock, as Inspect tells it."""
    found = client.call(b"Inspect", text(2, b"door"))
    at = 0
    while at < len(found):
        key, at = found[at], at + 1
        value = shift = 0
        while True:
            byte, at = found[at], at + 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        if key == 6 << 3:
            return value
        at += value if key & 7 == 2 else 0
    return 0


def until(client, wanted):
    """Looks until so many wait; ctest's limit is the only one."""
    while waiters(client) != wanted:
        os.sched_yield()


def hold_calls(address, client):
    """The child: starts its calls and waits to be killed."""
    peer = Client(address)
    for i in range(CALLS):
        peer.send(b"/lockstock.v1.LockService/Acquire", acquire(b"client-%06d-%06d" % (client, i), 50000))
    while True:
        peer.exactly(1)


def kill_a_batch(address, client, first):
    children = []
    for i in range(BATCH):
        pid = os.fork()
        if pid == 0:
            try:
                hold_calls(address, first + i)
            finally:
                os._exit(1)
        children.append(pid)
    until(client, BATCH * CALLS)
    for pid in children:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    until(client, 0)


def usage(pid):
    with open(f"/proc/{pid}/status") as status:
        memory = int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1))
    return len(os.listdir(f"/proc/{pid}/fd")), memory


def run(server):
    for line in server.stdout:
        found = re.search(r"url=grpc://([\d.]+):(\d+)", line)
        if found:
            address = (found.group(1), int(found.group(2)))
        if "event=ready" in line:
            break
    client = Client(address)
    assert client.call(b"Acquire", acquire(b"holder----------", 0))[:2] == b"\x08\x01"
    for warm in range(2):
        kill_a_batch(address, client, warm * BATCH)
    start = usage(server.pid)
    for first in range(0, CLIENTS, BATCH):
        kill_a_batch(address, client, 1000 + first)
    end = usage(server.pid)
    print(f"{CLIENTS} clients killed: descriptors {start[0]} -> {end[0]}, memory {start[1]} -> {end[1]} KiB")
    waiting = client.send(b"/lockstock.v1.LockService/Acquire", acquire(b"next------------", 50000))
    until(Client(address), 1)
    other = Client(address)
    assert other.call(b"Release", text(2, b"door") + text(3, b"holder----------"))[:2] == b"\x08\x01"
    assert client.answer(waiting)[:2] == b"\x08\x01", "the next does not get the lock"
    assert end[0] <= start[0], "descriptors are lost"
    assert end[1] <= start[1] + MEMORY_KIB, "memory grows"


def main():
    # A sanitizer keeps what was freed for a while: not for long.
    options = os.environ.get("ASAN_OPTIONS", "")
    env = dict(os.environ, ASAN_OPTIONS=options + ":quarantine_size_mb=1:thread_local_quarantine_size_kb=16")
    with tempfile.TemporaryDirectory(prefix="lockstock-killed-") as work:
        server = subprocess.Popen([sys.argv[1], "--listen", "grpc://127.0.0.1:0", "--store", f"embedded:{work}/data"],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env)
        try:
            run(server)
        finally:
            server.send_signal(signal.SIGTERM)
            output = server.stdout.read()
            code = server.wait(LIMIT_S)
            server.stdout.close()
    if code != 0:
        sys.exit(f"lockstockd ended with {code}:\n{output}")


main()
