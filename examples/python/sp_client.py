#!/usr/bin/python3
"""lockstock over SP (tcp://), with Python alone.

    sp_client.py HOST:PORT

The bytes: a handshake, 00 'S' 'P' 00 00 30 00 00, then messages:

    length of the rest, 8 bytes big-endian | request id, 4 bytes, highest bit set | Frame or Reply

Frame and Reply are proto/lockstock/rpc/v1/envelope.proto. Protobuf is written and read here by
field number: enough for a client of a few calls; see grpc_client.py for generated classes.
"""
import secrets
import socket
import struct
import sys

NO_ANSWER = {0: "MAYBE", 1: "YES", 2: "NO", 3: "MAYBE"}
CODES = {3: "INVALID_ARGUMENT", 5: "NOT_FOUND", 6: "ALREADY_EXISTS", 8: "RESOURCE_EXHAUSTED", 10: "ABORTED",
         12: "UNIMPLEMENTED", 14: "UNAVAILABLE"}


# ---- protobuf ---------------------------------------------------------------------------


def varint(n):
    out = bytearray()
    n &= (1 << 64) - 1
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def pack(fields):
    """{number: int | str | bytes | {...} | [...]} as a message."""
    out = b""
    for number, value in fields.items():
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, int):
                out += varint(number << 3) + varint(one)
                continue
            data = pack(one) if isinstance(one, dict) else one.encode() if isinstance(one, str) else one
            out += varint(number << 3 | 2) + varint(len(data)) + data
    return out


def read_varint(data, at):
    number = shift = 0
    while True:
        number |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return number, at


def unpack(data):
    """A message as {number: [int or bytes, ...]}; skips 64 and 32 bit fields."""
    fields, at = {}, 0
    while at < len(data):
        tag, at = read_varint(data, at)
        if tag & 7 == 0:
            value, at = read_varint(data, at)
        elif tag & 7 == 2:
            size, at = read_varint(data, at)
            value, at = data[at:at + size], at + size
        else:
            value, at = None, at + (8 if tag & 7 == 1 else 4)
        fields.setdefault(tag >> 3, []).append(value)
    return fields


def first(fields, number, default=0):
    return fields.get(number, [default])[0]


# ---- SP -----------------------------------------------------------------------------------


class CallFailed(Exception):
    """`applied`: NO, nothing was changed; MAYBE: send the same call again, with the same id."""

    def __init__(self, code, message, applied, retry_after_ms):
        super().__init__(message)
        self.code, self.applied, self.retry_after_ms = code, applied, retry_after_ms


class Client:
    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=35)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall(b"\0SP\0\0\x30\0\0")  # REQ
        if self.read(8) != b"\0SP\0\0\x31\0\0":  # REP
            raise ConnectionError("this is not a lockstock server")

    def read(self, n):
        data = b""
        while len(data) < n:
            more = self.socket.recv(n - len(data))
            if not more:
                raise ConnectionError("the server is gone: the call is applied MAYBE")
            data += more
        return data

    def call(self, method, request, timeout_ms=5000):
        frame = pack({2: {1: "/lockstock.v1." + method, 2: pack(request), 3: timeout_ms}})
        request_id = struct.pack(">I", secrets.randbits(31) | 1 << 31)
        self.socket.sendall(struct.pack(">Q", 4 + len(frame)) + request_id + frame)
        reply = self.read(struct.unpack(">Q", self.read(8))[0])
        if reply[:4] != request_id:
            raise ConnectionError("an answer to another request")
        result = unpack(first(unpack(reply[4:]), 1, b""))
        if first(result, 1) != 0:
            raise CallFailed(first(result, 1), first(result, 2, b"").decode(), NO_ANSWER[first(result, 3)],
                             first(result, 5))
        return unpack(first(result, 4, b""))


# ---- the calls ------------------------------------------------------------------------------


def lock(client):
    token = secrets.token_hex(16)
    held = client.call("LockService/Acquire", {2: {1: "printer"}, 3: token, 4: "me", 5: 10000})
    print("lock: mine" if first(held, 1) == 1 else "lock: taken")
    group = first(held, 7)
    other = client.call("LockService/Acquire", {2: {1: "printer"}, 3: secrets.token_hex(16), 5: 10000})
    print("lock: taken by", first(unpack(first(other, 5)), 1).decode())
    renewed = client.call("LockService/Renew", {1: {1: group, 3: token, 4: 20000}})
    print("lock: renewed" if first(unpack(first(renewed, 1)), 1) == 1 else "lock: lost")
    released = client.call("LockService/Release", {1: group, 3: token})
    print("lock: released" if first(released, 1) == 1 else "lock: was not held")


def buy(client):
    """The order's id makes it safe to send again: the first answer comes back."""
    client.call("StockService/PutItem", {2: "phone", 3: 10})
    for _ in range(2):
        sold = client.call("StockService/Deduct", {2: "order-1", 4: {1: "phone", 2: 1}})
        left = first(unpack(first(sold, 2)), 2)
        print("order-1: sold%s, %d left" % (" before" if first(sold, 3) else "", left))


def limit(client):
    rule = {2: {1: 1, 2: 2, 3: 3600000}, 3: "alice"}  # a FIXED_WINDOW, 2 an hour
    for _ in range(3):
        result = unpack(first(client.call("RateLimitService/Check", {2: rule}), 2))
        print("limit: go on, %d left" % first(result, 3) if first(result, 1) == 1 else "limit: too often")


def fail(client):
    try:
        client.call("StockService/Deduct", {2: "order-2", 4: {1: "phone", 2: 0}})
    except CallFailed as error:
        print("error: %s, applied %s, %s" % (CODES.get(error.code, error.code), error.applied,
                                             str(error).split(":")[0]))
        if error.retry_after_ms:
            print("try again in %d ms" % error.retry_after_ms)


if __name__ == "__main__":
    server = Client(sys.argv[1])
    for step in (lock, buy, limit, fail):
        step(server)
