"""A lockstockd for tests, with its own store, that can be made to fail.

    with lockstock.testing.server() as server, lockstock.connect(server.url) as ls:
        server.lose_next_reply()
        ls.stock.deduct("order-1", {"phone": 1})    # repeated by the client, sold once

Requires the programs lockstockd and redis-server, which end with the block."""
from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from typing import IO, List, Optional, Tuple

FRAME_HEADER = 9  # of HTTP/2: length (3 bytes), type, flags, stream (4)
HEADERS, DATA = 1, 0


class Server:
    """Thread-safe. `url` stays the same over restarts."""

    def __init__(self, program: Optional[str], arguments: Tuple[str, ...]) -> None:
        self._program = program or os.environ.get("LOCKSTOCKD") or shutil.which("lockstockd")
        if not self._program:
            raise FileNotFoundError("lockstockd: not found in PATH; set LOCKSTOCKD or the argument `program`")
        self._arguments = arguments
        self._directory = tempfile.TemporaryDirectory(prefix="lockstock-")
        self._process: Optional[subprocess.Popen[str]] = None
        self._port = 0
        self._proxy = _Proxy()
        self.url = f"grpc://127.0.0.1:{self._proxy.port}"
        self.start()

    def start(self) -> None:
        """Starts the server and returns when it is ready. Raises RuntimeError with its output."""
        self._process = subprocess.Popen(
            [str(self._program), "--listen", f"grpc://127.0.0.1:{self._port}", *self._arguments],
            env={**os.environ, "LOCKSTOCK_STORE": f"embedded:{self._directory.name}/data", "LOCKSTOCK_FSYNC": "everysec"},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
        said: List[str] = []
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said.append(line)
            found = re.search(r"url=grpc://127\.0\.0\.1:(\d+)", line)
            self._port = int(found.group(1)) if found else self._port
            if "event=ready" in line:
                break
        else:
            raise RuntimeError("lockstockd does not start:\n" + "".join(said))
        threading.Thread(target=_drain, args=(self._process.stdout,), daemon=True).start()
        self._proxy.port_of_server = self._port

    def kill(self) -> None:
        """Kills the server (SIGKILL). The data of its store stays."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Restarts the server."""
        if self._process is not None:
            self._end(signal.SIGTERM)
        self.start()

    def freeze(self) -> None:
        """Suspends the server (SIGSTOP): connections stay open, and nothing is answered."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Resumes a frozen server."""
        self._signal(signal.SIGCONT)

    def lose_next_reply(self) -> None:
        """Makes the connection of the next call break after the server has done the call, before the answer arrives."""
        self._proxy.lose.set()

    def close(self) -> None:
        """Ends the server and its store, and removes their files."""
        if self._process is not None:
            self._signal(signal.SIGCONT)
            self._end(signal.SIGTERM)
        self._proxy.close()
        self._directory.cleanup()

    def _signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def _end(self, number: int) -> None:
        assert self._process is not None
        self._signal(number)
        self._process.wait()
        self._process = None

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, kind: object, error: Optional[BaseException], trace: object) -> None:
        self.close()


def server(*arguments: str, program: Optional[str] = None) -> Server:
    """A running server. arguments: further flags of lockstockd. program: its path; by default that in the variable
    LOCKSTOCKD, or the one on PATH. Raises FileNotFoundError, RuntimeError."""
    return Server(program, arguments)


def _drain(pipe: IO[str]) -> None:
    with pipe:
        for _ in pipe:
            pass


class _Proxy:
    """Forwards bytes, and breaks a connection instead of the next answer."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])
        self.port_of_server = 0
        self.lose = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            try:
                server_side = socket.create_connection(("127.0.0.1", self.port_of_server))
            except OSError:
                client.close()
                continue
            for one in (client, server_side):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._pass, args=(client, server_side, False), daemon=True).start()
            threading.Thread(target=self._pass, args=(server_side, client, True), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, answers: bool) -> None:
        skip, held = 0, b""
        try:
            while True:
                data = source.recv(65536)
                if not data:
                    break
                if answers:
                    skip, held, answer = _answer_in(skip, held, data)
                    if answer and self.lose.is_set():
                        self.lose.clear()
                        break
                sink.sendall(data)
        except OSError:
            pass
        for one in (source, sink):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        source.close()

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


def _answer_in(skip: int, held: bytes, data: bytes) -> Tuple[int, bytes, bool]:
    """Whether a frame of an answer begins in `data`. skip: remaining bytes of a frame; held: a partial header."""
    data, answer = held + data, False
    while len(data) - skip >= FRAME_HEADER:
        length, kind = int.from_bytes(data[skip:skip + 3], "big"), data[skip + 3]
        answer = answer or kind in (HEADERS, DATA)
        skip += FRAME_HEADER + length
    return max(skip - len(data), 0), data[skip:] if skip < len(data) else b"", answer
