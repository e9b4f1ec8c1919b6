#!/usr/bin/python3
# promise AB5: a host and a channel behave as docs/host-compared.md says, beside gRPC C++
"""compare_hosts.py COMPARED PROTO_DIR LOCKSTOCK_PROTO_DIR TABLE: the cases of TABLE on a host and on a channel of
liblockstock. Hosts are called by grpcio and by bytes of HTTP/2, channels call a server of grpcio. Each case must have what
the last column of its row says ("same": as the column before it, that of gRPC C++). Skipped (77) without grpcio."""
import os
import re
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
from concurrent import futures

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../support"))
from grpcio import grpc, load  # noqa: E402

COMPARED, PROTOS, LOCKSTOCK_PROTOS, TABLE = sys.argv[1:5]
LIMIT_S = 15
LONG = "é\n" + "x" * 1000
work = tempfile.TemporaryDirectory(prefix="lockstock-compared-")
_, messages = load([PROTOS, LOCKSTOCK_PROTOS], "lockstock/rpc/v1/options", "compared/v1/compared")


def name_of(code):
    return {c.value[0]: c.name for c in grpc.StatusCode}.get(code, str(code))


# ---- hosts ----------------------------------------------------------------------------------------------

class Server:
    """A host, and a channel of grpcio to it."""

    def __init__(self, *folder):
        self.process = subprocess.Popen([COMPARED, "server", *folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = int(self.line())
        self.channel = grpc.insecure_channel(f"127.0.0.1:{self.port}", [("grpc.enable_retries", 0)])

    def line(self):
        return self.process.stdout.readline().strip()

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def start(self, what, method="Ask", metadata=(), timeout=LIMIT_S, **fields):
        call = self.channel.unary_unary(f"/compared.v1.Compared/{method}", request_serializer=messages.AskRequest.SerializeToString,
                                        response_deserializer=messages.AskResponse.FromString)
        return call.future(messages.AskRequest(what=what, **fields), metadata=metadata, timeout=timeout)

    def code(self, what, **options):
        return self.start(what, **options).code().name

    def end(self):
        self.channel.close()
        if self.process.poll() is None:
            try:
                self.tell("go")
            except BrokenPipeError:
                pass
            self.process.stdin.close()
            self.process.wait(LIMIT_S)
        self.process.stdout.close()


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY = 0, 1, 3, 4, 6, 7


class Raw:
    """A connection that writes its own frames, without the deadline and limits of a client library."""

    def __init__(self, server):
        self.socket = socket.create_connection(("127.0.0.1", server.port), timeout=LIMIT_S)
        self.socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0))

    def call(self, body, **headers):
        fields = {":method": "POST", ":scheme": "http", ":path": "/compared.v1.Compared/Ask", ":authority": "a",
                  "content-type": "application/grpc", "te": "trailers", **headers}
        block = b"".join(b"\0" + bytes([len(k)]) + k.encode() + bytes([len(v)]) + v.encode() for k, v in fields.items())
        self.socket.sendall(frame(HEADERS, 4, 1, block) + frame(DATA, 1, 1, struct.pack(">BI", 0, len(body)) + body))

    def read(self, n):
        data = b""
        while len(data) < n:
            more = self.socket.recv(n - len(data))
            if not more:
                raise EOFError
            data += more
        return data

    def frames(self):
        """(kind, flags, stream, payload) of what comes."""
        try:
            while True:
                head = self.read(9)
                payload = self.read(int.from_bytes(head[:3], "big"))
                if head[3] == SETTINGS and not head[4] & 1:
                    self.socket.sendall(frame(SETTINGS, 1, 0))
                yield head[3], head[4], int.from_bytes(head[5:9], "big"), payload
        except (EOFError, ConnectionError):
            return


def answered_at_deadline(server):
    raw = Raw(server)
    raw.call(messages.AskRequest(what="hold").SerializeToString(), **{"grpc-timeout": "200m"})
    for kind, flags, stream, _ in raw.frames():
        if stream == 1 and kind == RST_STREAM:
            return "RST_STREAM"
        if stream == 1 and kind == HEADERS and flags & 1:
            return "trailers"
    return "the connection ends"


def told_at_deadline(server):
    raw = Raw(server)
    raw.call(messages.AskRequest(what="hold").SerializeToString(), **{"grpc-timeout": "200m"})
    began, told = server.line(), server.line()
    raw.socket.close()
    return f"{began}, {told}"


def deadline_of(server, timeout):
    return server.start("deadline", timeout=timeout).result().text


def told_of_cancel(server):
    call = server.start("hold")
    began = server.line()
    call.cancel()
    return f"{began}, {server.line()}"


def told_of_loss(server):
    raw = Raw(server)
    raw.call(messages.AskRequest(what="hold").SerializeToString())
    began = server.line()
    raw.socket.close()
    return f"{began}, {server.line()}"


def request_metadata(server):
    call = server.start("metadata", metadata=[("x-text", "one"), ("x-text", "two"), ("x-raw-bin", b"\x01\x02")])
    return call.result().text.encode().decode("latin-1").replace("\x01\x02", "bytes")


def response_metadata(server):
    call = server.start("trailers")
    return ", ".join(["x-first"] * any(k == "x-first" for k, _ in call.initial_metadata()) +
                     ["x-last"] * any(k == "x-last" for k, _ in call.trailing_metadata())) or "none"


def failure(server, code, text):
    call = server.start("fail", code=code, text=text)
    details = any(k == "grpc-status-details-bin" for k, _ in call.trailing_metadata())
    whole = "the whole text" if (call.details() or "").encode() == text else f"{len((call.details() or '').encode())} bytes"
    return f"{call.code().name}, {whole}{', details' if details else ''}"


def unknown_method(server):
    return server.code("echo", method="None")


def malformed(server):
    call = server.channel.unary_unary("/compared.v1.Compared/Ask")
    return call.future(b"\xff\xff", timeout=LIMIT_S).code().name


def too_long(server, mib):
    return server.code("echo", text=b"x" * (mib * 1024 * 1024))


def drain_in_time(server):
    call = server.start("work")
    server.line()
    server.tell("drain 20000")
    late = None
    while late != "UNAVAILABLE":  # the server may not have read the line yet
        late = server.code("echo", timeout=LIMIT_S)
    server.tell("go")
    return f"the call: {call.code().name}; a new one: {late}; then {server.line()}"


def drain_too_long(server):
    call = server.start("hold")
    server.line()
    server.tell("drain 100")
    return f"{call.code().name}; handler: {server.line()}; then {server.line()}"


def drain_stuck(server):
    call = server.start("work")
    server.line()
    server.tell("drain 100")
    closed = threading.Event()
    threading.Thread(target=lambda: server.line() == "closed" and closed.set()).start()
    code = call.code().name
    ends = closed.wait(6)
    server.tell("go")
    closed.wait(LIMIT_S)
    return f"{code}; the close {'ends' if ends else 'waits for the handler'}"


def pings(server):
    raw = Raw(server)
    raw.socket.sendall(frame(PING, 0, 0, b"12345678"))
    acks = 0
    for kind, flags, _, payload in raw.frames():
        if kind == GOAWAY:
            return f"GOAWAY {payload[8:].decode() or payload[7]}"
        if kind == PING and flags & 1:
            acks += 1
            if acks == 20:
                return "20 answers"
            raw.socket.sendall(frame(PING, 0, 0, b"12345678"))
    return "the connection ends"


def openssl(*words):
    subprocess.run(["openssl", *words], check=True, capture_output=True)


def certify(folder, name, common, alternative):
    """A certificate and its key, signed by the CA of the folder; replaces those before at once."""
    with open(f"{folder}/names", "w", encoding="ascii") as names:
        names.write(f"subjectAltName={alternative}")
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{folder}/new.key", "-out", f"{folder}/new.csr", "-subj", f"/CN={common}")
    openssl("x509", "-req", "-in", f"{folder}/new.csr", "-CA", f"{folder}/ca.pem", "-CAkey", f"{folder}/ca.key", "-CAcreateserial",
            "-days", "2", "-extfile", f"{folder}/names", "-out", f"{folder}/new.pem")
    key = "key" if name == "cert" else f"{name}key"
    os.rename(f"{folder}/new.key", f"{folder}/{key}.pem")
    os.rename(f"{folder}/new.pem", f"{folder}/{name}.pem")


def content(path):
    with open(path, "rb") as file:
        return file.read()


class EncryptedServer(Server):
    def __init__(self):
        self.folder = tempfile.mkdtemp(dir=work.name)
        openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{self.folder}/ca.key", "-out", f"{self.folder}/ca.pem",
                "-days", "2", "-subj", "/CN=ca")
        certify(self.folder, "cert", "localhost", "DNS:localhost")
        certify(self.folder, "client", "alice", "DNS:alice.example,URI:spiffe://example/alice")
        super().__init__(self.folder)

    def ask(self, address, credentials, what):
        self.channel = (grpc.secure_channel(address, credentials, [("grpc.ssl_target_name_override", "localhost")])
                        if credentials else grpc.insecure_channel(address))
        return self.start(what).result().text


def names_of_certificate(server):
    folder = server.folder
    credentials = grpc.ssl_channel_credentials(content(f"{folder}/ca.pem"), content(f"{folder}/clientkey.pem"),
                                               content(f"{folder}/client.pem"))
    return server.ask(f"127.0.0.1:{server.port}", credentials, "names")


def peer_of_unix(server):
    return server.ask(f"unix:{server.folder}/socket", None, "peer")


def reload(server):
    before = ssl.get_server_certificate(("127.0.0.1", server.port))
    certify(server.folder, "cert", "localhost", "DNS:localhost")
    server.tell("reload")
    while ssl.get_server_certificate(("127.0.0.1", server.port)) == before:
        pass
    return "has the new one"


ENCRYPTED = {
    "Names in the client's certificate": names_of_certificate,
    "Peer of a unix socket": peer_of_unix,
    "Certificate is replaced, no restart: a new connection": reload,
}

HOSTS = {
    "Handler runs past the deadline; the client does not count: what comes": answered_at_deadline,
    "... and the handler": told_at_deadline,
    "Handler of a call with a deadline of 20 s has about": lambda s: deadline_of(s, 20),
    "... of an hour": lambda s: deadline_of(s, 3600),
    "... without a deadline": lambda s: deadline_of(s, None),
    "Client cancels: the handler": told_of_cancel,
    "Connection is lost: the handler": told_of_loss,
    "Request metadata, twice the same key, and -bin": request_metadata,
    "Response headers and trailers that a handler sets": response_metadata,
    "Handler fails with ABORTED": lambda s: failure(s, 10, b"why"),
    "... with a text of 1,003 bytes": lambda s: failure(s, 10, LONG.encode()),
    "... with the code 99": lambda s: failure(s, 99, b"why"),
    "... with a text that is not UTF-8": lambda s: failure(s, 10, b"\xff"),
    "Method that nobody serves": unknown_method,
    "Request that is no message": malformed,
    "Request of 2 MiB": lambda s: too_long(s, 2),
    "Request of 5 MiB": lambda s: too_long(s, 5),
    "Drain, and the call ends in time": drain_in_time,
    "Drain, and the handler ends when it is cancelled": drain_too_long,
    "Drain, and the handler never looks": drain_stuck,
    "20 pings without a call": pings,
    "Peer of a connection": lambda s: s.start("peer").result().text,
}

# ---- clients --------------------------------------------------------------------------------------------


class Peer(grpc.GenericRpcHandler):
    """A server whose Ask and Write behave as the case requests."""

    def __init__(self):
        self.tries = 0
        self.cancelled = threading.Event()
        self.began = threading.Event()
        self.server = grpc.server(futures.ThreadPoolExecutor(8), [self], options=[("grpc.so_reuseport", 0)])
        self.port = self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()

    def service(self, details):
        return grpc.unary_unary_rpc_method_handler(self.answer, request_deserializer=messages.AskRequest.FromString,
                                                   response_serializer=messages.AskResponse.SerializeToString)

    def answer(self, request, context):
        self.tries += 1
        if request.what in ("hold", "cancel"):
            context.add_callback(self.cancelled.set)
            self.began.set()
            self.cancelled.wait(LIMIT_S)
        if request.what in ("unavailable", "write"):
            context.abort(grpc.StatusCode.UNAVAILABLE, "not now")
        if request.what == "long":
            context.abort(grpc.StatusCode.ABORTED, LONG)
        if request.what == "trailers":
            context.set_trailing_metadata([("x-last", "2")])
        return messages.AskResponse(body=bytes(5 << 20) if request.what == "large" else b"")


def client(address, what, *more):
    return subprocess.Popen([COMPARED, "client", address, what, *more], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def called(peer, what):
    out, _ = client(f"127.0.0.1:{peer.port}", what).communicate(timeout=LIMIT_S)
    code, rest = out.split(maxsplit=1)
    return name_of(int(code)), rest.strip()


def client_deadline(peer):
    code, _ = called(peer, "hold")
    return f"{code}; the server is {'told' if peer.cancelled.wait(LIMIT_S) else 'not told'}"


def client_cancel(peer):
    process = client(f"127.0.0.1:{peer.port}", "cancel", "cancel")
    peer.began.wait(LIMIT_S)
    out, _ = process.communicate("now\n", timeout=LIMIT_S)
    return f"{name_of(int(out.split()[0]))}; the server is {'told' if peer.cancelled.wait(LIMIT_S) else 'not told'}"


def tries(peer, what):
    code, _ = called(peer, what)
    return f"{code}, {'once' if peer.tries == 1 else 'several times'}"


def nobody(peer):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        out, _ = client(f"127.0.0.1:{free.getsockname()[1]}", "echo").communicate(timeout=LIMIT_S)
    return name_of(int(out.split()[0]))


CLIENTS = {
    "No answer within 1 s": client_deadline,
    "Call is cancelled": client_cancel,
    "Nobody listens": nobody,
    "Server answers UNAVAILABLE to a READ: it is asked": lambda peer: tries(peer, "unavailable").partition(", ")[2],
    "... to a WRITE without an id": lambda peer: tries(peer, "write"),
    "Error text of 1,003 bytes": lambda peer: "{}, {} bytes".format(*called(peer, "long")),
    "Trailers of an answer": lambda peer: called(peer, "trailers")[1].partition(" ")[2] or "none",
    "Answer of 5 MiB": lambda peer: called(peer, "large")[0],
}


def host_row(case, kind=Server):
    server = kind()
    signal.alarm(LIMIT_S)
    try:
        return case(server)
    finally:
        signal.alarm(0)
        server.end()


def client_row(case):
    peer = Peer()
    signal.alarm(LIMIT_S)
    try:
        return case(peer)
    finally:
        signal.alarm(0)
        peer.cancelled.set()
        peer.server.stop(0)


def stop(*_):
    raise TimeoutError("a case takes too long")


def main():
    signal.signal(signal.SIGALRM, stop)
    with open(TABLE, encoding="utf-8") as table:
        rows = dict((name, cpp if own == "same" else own)
                    for name, cpp, own in re.findall(r"^\| (.*?) \| (.*?) \| (.*?) \|", table.read(), re.M))
    wrong = 0
    for run, cases in ((host_row, HOSTS), (lambda case: host_row(case, EncryptedServer), ENCRYPTED), (client_row, CLIENTS)):
        for name, case in cases.items():
            try:
                found = run(case)
            except Exception as failed:  # one row must not hide the others
                found = f"{type(failed).__name__}: {failed}"
            if rows.get(name) != found:
                wrong += 1
                print(f"{name}: {found}, not {rows.get(name)}", flush=True)
    sys.exit(1 if wrong else 0)


main()
