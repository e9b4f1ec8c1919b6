"""grpc_life.py LOCKSTOCKD: its settings of keepalive, pings and age of gRPC connections, by frames of HTTP/2."""
import os
import socket
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../support"))
from servers import Server  # noqa: E402

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS, PING, GOAWAY, ACK = 4, 6, 7, 1


def frame(kind, flags=0, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags, 0, 0, 0, 0]) + payload


def connect(port):
    peer = socket.create_connection(("127.0.0.1", port))
    peer.sendall(PREFACE + frame(SETTINGS))
    return peer, peer.makefile("rb")


def frames(file):
    while len(head := file.read(9)) == 9:
        yield head[3], head[4], file.read(int.from_bytes(head[:3], "big"))


def check(port):
    # The server closes a connection that answers no ping.
    peer, file = connect(port)
    kinds = [kind for kind, flags, _ in frames(file) if not flags & ACK]
    assert kinds.count(PING) == 1, kinds

    # A peer that pings too often gets a GOAWAY.
    peer, file = connect(port)
    peer.sendall(4 * frame(PING, 0, bytes(8)))
    last = [payload for kind, _, payload in frames(file) if kind == GOAWAY][-1]
    assert last[4:] == (11).to_bytes(4, "big") + b"too_many_pings", last

    # A connection that answers pings stays open until its maximum age.
    peer, file = connect(port)
    codes, pings = [], 0
    for kind, flags, payload in frames(file):
        if kind == PING and not flags & ACK:
            pings += 1
            peer.sendall(frame(PING, ACK, payload))
        elif kind == GOAWAY:
            codes.append(int.from_bytes(payload[4:8], "big"))
    assert codes == [0, 0] and pings > 2, (codes, pings)


with Server(sys.argv[1], "--keepalive-ms", "1000", "--keepalive-timeout-ms", "1000", "--ping-min-ms", "60000",
            "--connection-age-ms", "4000", listen="grpc://127.0.0.1:0") as server:
    check(server.port("grpc"))
