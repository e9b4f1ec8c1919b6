"""grpc_life.py LOCKSTOCKD: its settings of keepalive, pings and age of gRPC connections, by frames of HTTP/2."""
import re
import signal
import socket
import subprocess
import sys
import tempfile

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


with tempfile.TemporaryDirectory() as dir:
    server = subprocess.Popen(
        [sys.argv[1], "--store", "embedded:" + dir + "/data", "--listen", "grpc://127.0.0.1:0", "--keepalive-ms", "1000",
         "--keepalive-timeout-ms", "1000", "--ping-min-ms", "60000", "--connection-age-ms", "4000"],
        stderr=subprocess.PIPE, text=True)
    try:
        for line in server.stderr:
            if found := re.search(r"event=listening url=grpc://127.0.0.1:(\d+)", line):
                check(int(found[1]))
                break
    finally:
        server.send_signal(signal.SIGTERM)
        server.communicate()
    assert server.returncode == 0
