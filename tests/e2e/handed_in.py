"""handed_in.py LOCKSTOCKD: lockstockd serves the sockets that it is started with, and its redis-server does not get them."""
import os
import socket
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../support"))
from servers import Program  # noqa: E402

SP_REQ, SP_REP = b"\0SP\0\x00\x30\0\0", b"\0SP\0\x00\x31\0\0"


def listening(address="127.0.0.1"):
    sock = socket.socket()
    sock.bind((address, 0))
    sock.listen()
    return sock


def start(sockets, names, *flags, **options):
    """`sockets` become 3, 4, ..."""
    line = "export LISTEN_PID=$$; exec \"$@\""
    def hand_in():
        copies = [os.dup(s.fileno()) for s in sockets]
        copies = [os.dup2(fd, 50 + i) for i, fd in enumerate(copies)]
        for i, fd in enumerate(copies):
            os.dup2(fd, 3 + i)
            os.close(fd)
    return Program("bash", "-c", line, "bash", sys.argv[1], "--store", "embedded:{dir}/data", *flags,
                   env={**os.environ, "LISTEN_FDS": str(len(sockets)), "LISTEN_FDNAMES": names},
                   close_fds=False, preexec_fn=hand_in, **options)


def inodes(pid):
    found = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            found.add(os.readlink(f"/proc/{pid}/fd/{fd}"))
        except OSError:
            pass
    return found


served, unused = listening(), listening()
with start([served, unused], "calls:spare", "--listen", "tcp+fd://calls", ready=r"event=ready\b") as server:
    with socket.create_connection(served.getsockname()) as peer:
        peer.sendall(SP_REQ)
        assert peer.recv(8, socket.MSG_WAITALL) == SP_REP
    given = {f"socket:[{os.fstat(s.fileno()).st_ino}]" for s in (served, unused)}
    assert given <= inodes(server.process.pid)
    redis = server.children()
    assert redis
    for child in redis:
        assert not given & inodes(child), "redis-server has the sockets"
assert server.process.returncode == 0

# The rule for addresses that other machines can reach applies; a mistake is reported.
for sockets, url, why in (([listening("0.0.0.0")], "tcp+fd://calls", "an address that other machines can reach needs TLS"),
                          ([served], "tcp+fd://cals", "no descriptor with this name was handed in")):
    with start(sockets, "calls", "--listen", url) as server:
        assert server.process.wait(60) == 78 and f"--listen {url}: {why}" in server.log(), server.log()
