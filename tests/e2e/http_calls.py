"""http_calls.py LOCKSTOCKD [idle]: calls over HTTP/1.1: Connect and gRPC-Web, what pages of other sites may do, connections.
idle: 10,000 idle connections, after one call each, cost little and delay no other; skipped (77) where a process may not open as
many descriptors."""
import base64
import gzip
import json
import os
import re
import resource
import socket
import struct
import sys
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../support"))
from servers import Server  # noqa: E402

DEDUCT = "/lockstock.v1.StockService/Deduct"
GET_ITEM = "/lockstock.v1.StockService/GetItem"
ACQUIRE = "/lockstock.v1.LockService/Acquire"
JSON = {"Content-Type": "application/json"}


class Connection:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.bytes = b""

    def send(self, data):
        self.socket.sendall(data)

    def read_until(self, end):
        while end not in self.bytes:
            more = self.socket.recv(65536)
            if not more:
                raise EOFError(self.bytes)
            self.bytes += more
        part, self.bytes = self.bytes.split(end, 1)
        return part

    def answer(self, head_only=False):
        """(status, fields, body)"""
        lines = self.read_until(b"\r\n\r\n").decode().split("\r\n")
        fields = {}
        for line in lines[1:]:
            name, value = line.split(": ", 1)
            fields[name.lower()] = value
        length = 0 if head_only else int(fields.get("content-length", 0))
        while len(self.bytes) < length:
            self.bytes += self.socket.recv(65536)
        body, self.bytes = self.bytes[:length], self.bytes[length:]
        return int(lines[0].split(" ")[1]), fields, body

    def is_closed(self):
        try:
            return self.bytes == b"" and self.socket.recv(1) == b""
        except ConnectionResetError:
            return True


def request(path, body=b"", verb="POST", fields=JSON, host="localhost"):
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
    head = [f"{verb} {path} HTTP/1.1", f"Host: {host}", *(f"{n}: {v}" for n, v in fields.items())]
    if verb == "POST":
        head.append(f"Content-Length: {len(body)}")
    return "\r\n".join(head + ["", ""]).encode() + body


def call(*args, **kwargs):
    c = Connection(port)
    c.send(request(*args, **kwargs))
    return c.answer(kwargs.get("verb") == "HEAD")


def expect(what, got, wanted):
    if got != wanted:
        raise SystemExit(f"{what}: {got!r}, not {wanted!r}")


def order(id, sku="phone", **more):
    return {"order_id": id, "lines": [{"sku": sku, "quantity": 1}], **more}


def lock(name, who, wait_ms):
    return {"targets": [{"name": name}], "owner": who, "token": who * 20, "lease_ms": 60000, "wait_ms": wait_ms}


def query(**parameters):
    return GET_ITEM + "?" + urllib.parse.urlencode(parameters)


def packed(order_id, sku):
    """A DeductRequest in Protobuf."""
    line = b"\x0a" + bytes([len(sku)]) + sku.encode() + b"\x10\x01"
    return b"\x12" + bytes([len(order_id)]) + order_id.encode() + b"\x22" + bytes([len(line)]) + line


def frame(message):
    return struct.pack(">BI", 0, len(message)) + message


def frames(body):
    found = []
    while body:
        flag, length = struct.unpack(">BI", body[:5])
        found.append((flag, body[5:5 + length]))
        body = body[5 + length:]
    return found


def calls_in_json():
    expect("PutItem", call("/lockstock.v1.StockService/PutItem", {"sku": "phone", "on_hand": "100"})[0], 200)
    expect("Deduct", json.loads(call(DEDUCT, order("o1"))[2])["outcome"], "DEDUCT_OUTCOME_DEDUCTED")
    body = json.dumps(order("limit")).encode()
    exact = body + b" " * ((1 << 20) - len(body))
    expect("a message of the most bytes, and one more", [call(DEDUCT, exact + more)[0] for more in (b"", b" ")], [200, 413])
    for type, empty in (("application/json", b"{}"), ("application/proto", b"")):
        expect(f"an empty {type}", call("/lockstock.v1.StockService/ListItems", empty, fields={"Content-Type": type})[0], 200)
    status, fields, body = call(DEDUCT, order("o1"))
    expect("the same again is not sold twice", (json.loads(body)["replayed"], fields["lockstock-replayed"]), (True, "true"))
    # As curl -d sends it, and in lowerCamelCase.
    plain = {"Content-Type": "application/x-www-form-urlencoded"}
    status, fields, body = call(DEDUCT, {"orderId": "o2", "lines": [{"sku": "phone", "quantity": "1"}]}, fields=plain)
    expect("curl -d", (status, fields["content-type"]), (200, "application/json"))
    compressed = {**JSON, "Content-Encoding": "gzip"}
    expect("gzip", call(DEDUCT, gzip.compress(json.dumps(order("o3")).encode()), fields=compressed)[0], 200)
    expect("not gzip", call(DEDUCT, b"{}", fields=compressed)[0], 400)
    message = {"sku": "phone"}
    for got in (call(query(encoding="json", message=json.dumps(message)), verb="GET"),
                call(query(x="y", message=base64.urlsafe_b64encode(json.dumps(message).encode()).decode().rstrip("="),
                           base64="1", connect="v1", encoding="json"), verb="GET", fields={})):
        expect("GET", (got[0], json.loads(got[2])["item"]["available"]), (200, "96"))


def calls_in_protobuf():
    status, fields, body = call(DEDUCT, packed("p1", "phone"), fields={"Content-Type": "application/proto"})
    expect("Protobuf", (status, fields["content-type"], body[:2]), (200, "application/proto", b"\x08\x01"))
    for type, code in (("application/grpc-web", bytes), ("application/grpc-web+proto", bytes),
                       ("application/grpc-web-text", base64.b64encode)):
        undo = base64.b64decode if code is base64.b64encode else bytes
        status, fields, body = call(DEDUCT, code(frame(packed("w" + type[-4:], "phone"))), fields={"Content-Type": type})
        (flag, message), (last, trailers) = frames(undo(body))
        expect(type, (status, flag, message[:2], last, trailers), (200, 0, b"\x08\x01", 0x80, b"grpc-status: 0\r\n"))
        status, fields, body = call(DEDUCT, code(frame(packed("", "phone"))), fields={"Content-Type": type})
        ((last, trailers),) = frames(undo(body))
        expect(type + ", an error", (status, last), (200, 0x80))
        if b"grpc-status: 3\r\n" not in trailers or b"lockstock-applied: NO\r\n" not in trailers:
            raise SystemExit(trailers)
    web = {"Content-Type": "application/grpc-web"}
    for body, code in ((b"", 12), (frame(b"") * 2, 12), (b"\0\0\0\0\x05a", 12), (b"\x01\0\0\0\0", 13)):
        ((_, trailers),) = frames(call(DEDUCT, body, fields=web)[2])
        expect(f"gRPC-Web {body}", trailers.split(b"\r\n")[0], f"grpc-status: {code}".encode())


def errors():
    status, fields, body = call(DEDUCT, {"order_id": "e1", "lines": [{"sku": "", "quantity": 1}]})
    error = json.loads(body)
    expect("error", (status, error["code"], error["field"], error["applied"], fields["content-type"],
                     fields["lockstock-applied"]),
           (400, "invalid_argument", "lines[0].sku", "NO", "application/json", "NO"))
    expect("details", [d["type"] for d in error["details"]], ["google.rpc.BadRequest", "google.rpc.ErrorInfo"])
    get = {"verb": "GET", "fields": {}}
    rows = [
        # what, status, code, words of the message, then the request
        ("an unknown field", 400, "invalid_argument", "lines[0].colour: unknown field", (DEDUCT, {"lines": [{"colour": 1}]}), {}),
        ("no JSON", 400, "invalid_argument", "", (DEDUCT, b"{"), {}),
        ("an unknown method", 404, "unimplemented", "nothing is served", ("/lockstock.v1.StockService/No", {}), {}),
        ("a path above", 404, "unimplemented", "nothing is served", ("/../lockstock.v1.StockService/Deduct", {}), {}),
        ("an encoded slash", 404, "unimplemented", "nothing is served", ("/lockstock.v1.StockService%2FDeduct", {}), {}),
        ("another type", 415, "unknown", "content-type", (DEDUCT, {}), {"fields": {"Content-Type": "text/plain"}}),
        ("no type", 415, "unknown", "content-type", (DEDUCT, {}), {"fields": {}}),
        ("gRPC in HTTP/1.1", 415, "unknown", "HTTP/2", (DEDUCT, {}), {"fields": {"Content-Type": "application/grpc"}}),
        ("another verb", 405, "unknown", "POST", (GET_ITEM, {}), {"verb": "PUT"}),
        ("GET of a method that writes", 405, "unknown", "POST", (DEDUCT + "?encoding=json&message={}",), get),
        ("GET without a message", 400, "invalid_argument", "message", (query(encoding="json"),), get),
        ("GET without an encoding", 400, "invalid_argument", "encoding", (query(message="{}"),), get),
        ("GET with two messages", 400, "invalid_argument", "message: given more than once",
         (query(encoding="json", message="{}") + "&message={}",), get),
        ("GET of another version", 400, "invalid_argument", "connect: must be v1",
         (query(encoding="json", message="{}", connect="v2"),), get),
        ("another compression", 501, "unimplemented", "gzip and identity", (DEDUCT, {}), {"fields": {**JSON, "Content-Encoding": "br"}}),
        ("another version", 400, "invalid_argument", "connect-protocol-version", (DEDUCT, {}),
         {"fields": {**JSON, "Connect-Protocol-Version": "2"}}),
        ("a timeout of 11 digits", 400, "invalid_argument", "connect-timeout-ms", (DEDUCT, {}),
         {"fields": {**JSON, "Connect-Timeout-Ms": "12345678901"}}),
        ("a negative timeout", 400, "invalid_argument", "connect-timeout-ms", (DEDUCT, {}), {"fields": {**JSON, "Connect-Timeout-Ms": "-1"}}),
        ("two types", 400, "invalid_argument", "content-type: given more than once", (DEDUCT, {}),
         {"fields": {**JSON, "content-type": "application/proto"}}),
        ("two types, of which one is empty", 400, "invalid_argument", "content-type: given more than once", (DEDUCT, {}),
         {"fields": {"Content-Type": "", **{"content-type": "application/json"}}}),
        ("a page of another site", 403, "permission_denied", "--allow-origin", (DEDUCT, {}), {"fields": {**JSON, "Origin": "https://evil.example"}}),
        ("a page of another site without Origin", 403, "permission_denied", "sec-fetch-site", (GET_ITEM,),
         {"verb": "GET", "fields": {"Sec-Fetch-Site": "cross-site"}}),
        ("a name that resolves to this machine", 403, "permission_denied", "host", (DEDUCT, {}), {"host": "evil.example:80"}),
        ("a form of a page", 415, "unknown", "content-type", (DEDUCT, {}),
         {"fields": {"Content-Type": "application/x-www-form-urlencoded", "Origin": "https://shop.example"}}),
        ("a preflight of another site", 403, "permission_denied", "--allow-origin", (DEDUCT,),
         {"verb": "OPTIONS", "fields": {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}}),
    ]
    for what, status, code, words, args, more in rows:
        got, fields, body = call(*args, **more)
        error = json.loads(body)
        if (got, error["code"]) != (status, code) or words not in error["message"]:
            raise SystemExit(f"{what}: {got} {error}")
    expect("allow", call(GET_ITEM, {}, verb="PUT")[1]["allow"], "GET, POST")
    web = {"Content-Type": "application/grpc-web"}
    rows = [
        ("gRPC-Web, another verb", 405, (DEDUCT, b""), {"verb": "PUT", "fields": web}),
        ("gRPC-Web, an unknown method", 404, ("/lockstock.v1.StockService/No", frame(b"")), {"fields": web}),
        ("gRPC-Web, another codec", 415, (DEDUCT, frame(b"")), {"fields": {"Content-Type": "application/grpc-web+thrift"}}),
        ("gRPC-Web, another compression", 200, (DEDUCT, frame(b"")), {"fields": {**web, "Grpc-Encoding": "br"}}),
    ]
    for what, status, args, more in rows:
        got, fields, body = call(*args, **more)
        expect(what, got, status)
        if status == 200 and b"grpc-status: 12\r\n" not in body:
            raise SystemExit(f"{what}: {body}")
    twice = {**JSON, "X-Custom": "1", "x-custom": "2", "X-Custom-Bin": "AA,AQ"}
    expect("metadata that is given twice", call(DEDUCT, order("twice"), fields=twice)[0], 200)
    deadline = {**JSON, "Connect-Timeout-Ms": "50"}
    expect("Acquire", call(ACQUIRE, lock("l", "a", 0))[0], 200)
    status, _, body = call(ACQUIRE, lock("l", "b", 60000), fields=deadline)
    expect("the wait ends before the deadline", (status, json.loads(body)["outcome"]), (200, "ACQUIRE_OUTCOME_TIMED_OUT"))


def pages_of_a_site_that_is_named():
    site = {**JSON, "Origin": "https://shop.example"}
    status, fields, _ = call(DEDUCT, order("c1"), fields=site)
    expect("CORS", (status, fields["access-control-allow-origin"], fields["vary"]), (200, "https://shop.example", "origin"))
    status, fields, body = call(DEDUCT, verb="OPTIONS", fields={**site, "Access-Control-Request-Method": "POST"})
    expect("preflight", (status, body, fields["access-control-allow-origin"]), (204, b"", "https://shop.example"))
    own = {**JSON, "Origin": f"http://localhost:{port}", "Sec-Fetch-Site": "same-origin"}
    expect("a page of this server", call(DEDUCT, order("c2"), fields=own, host=f"localhost:{port}")[0], 200)


def sample(text, name, **labels):
    for line in text.splitlines():
        found = re.match(r"(\w+)(?:\{(.*)\})? (\S+)$", line)
        if found and found[1] == name and dict(re.findall(r'(\w+)="([^"]*)"', found[2] or "")) == labels:
            return float(found[3])
    return None


def pages():
    status, fields, body = call("/metrics", verb="GET", fields={})
    text = body.decode()
    expect("/metrics", (status, fields["content-type"].split(";")[0]), (200, "text/plain"))
    deduct = {"grpc_service": "lockstock.v1.StockService", "grpc_method": "Deduct"}
    before = sample(text, "grpc_server_handled_total", grpc_type="unary", grpc_code="OK", **deduct)
    moved = sample(text, "lockstock_call_units_total", **deduct)
    call(DEDUCT, order("metered"))
    call(DEDUCT, order("metered"))
    call("/lockstock.v1.IdService/Next", {"kind": "ID_KIND_UUID_V7", "count": 3})
    text = call("/metrics", verb="GET", fields={})[2].decode()
    after = sample(text, "grpc_server_handled_total", grpc_type="unary", grpc_code="OK", **deduct)
    expect("Deducts", after - before, 2)
    expect("units, without the repeat", sample(text, "lockstock_call_units_total", **deduct) - moved, 1)
    expect("calls of the store", sample(text, "lockstock_store_calls_total", **deduct) > 2, True)
    ids = {"grpc_service": "lockstock.v1.IdService", "grpc_method": "Next"}
    expect("ids", sample(text, "lockstock_call_units_total", **ids), 3)
    expect("an answer without the store", sample(text, "lockstock_calls_without_store_total", **ids), 1)
    expect("connections", sample(text, "lockstock_connections", wire="http") >= 1, True)
    with socket.socket(socket.AF_UNIX) as local:
        local.connect(server.dir + "/http")
        local.sendall(request("/healthz", verb="GET", fields={}))
        local.recv(1)
        text_now = call("/metrics", verb="GET", fields={})[2].decode()
        expect("connections of a unix socket", sample(text_now, "lockstock_connections", wire="http+unix"), 1)
    expect("stages", sample(text, "lockstock_call_stage_seconds_count", stage="wait") >= 1, True)
    store = [sample(text, "lockstock_store_starts_total"), sample(text, "lockstock_store_disk_free_bytes") > 0,
             sample(text, "lockstock_store_memory_bytes", primary="0", kind="max")]
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    expect("the embedded store was started once, has room, and the machine's memory", store, [1, True, machine])
    # Returned units (Cancel, Return) are not counted: the server does not know how many there were.
    call("/lockstock.v1.StockService/Reserve", {**order("held"), "hold_ms": "60000"})
    call("/lockstock.v1.StockService/Confirm", {"group": "phone", "order_id": "held"})
    call("/lockstock.v1.StockService/Confirm", {"group": "phone", "order_id": "held"})
    call("/lockstock.v1.StockService/Return", {"group": "phone", "return_id": "back", "order_id": "held"})
    units = call("/metrics", verb="GET", fields={})[2].decode()
    expect("units of Reserve, Confirm and Return", [sample(units, "lockstock_call_units_total", **{**deduct, "grpc_method": method})
                                                    for method in ("Reserve", "Confirm", "Return")], [1, 1, None])
    for name, labels in (("memory", {"kind": "used"}), ("file", {})):
        expect(f"store: {name}", sample(text, f"lockstock_store_{name}_bytes", primary="0", **labels) > 0, True)
    for word in ("phone", "metered", "shop.example"):
        if word in text:
            raise SystemExit(f"a caller's text is in a label: {word}")
    status, fields, body = call("/metrics", verb="GET", fields={"Accept": "application/openmetrics-text; version=1.0.0"})
    expect("OpenMetrics", (fields["content-type"].split(";")[0], body[-6:]), ("application/openmetrics-text", b"# EOF\n"))
    expect("/healthz", call("/healthz", verb="GET", fields={})[::2], (200, b'{"status":"ok"}\n'))
    expect("/readyz", call("/readyz", verb="GET", fields={})[::2], (200, b'{"ready":true,"reasons":[]}\n'))
    status, fields, body = call("/healthz", verb="HEAD", fields={})
    expect("HEAD", (status, fields["content-length"], body), (200, "16", b""))
    status, fields, _ = call("/metrics", {})
    expect("POST of a page", (status, fields["allow"]), (405, "GET, HEAD"))


def connections():
    c = Connection(port)
    for i in range(3):
        c.send(request(DEDUCT, order(f"k{i}")))
        expect("kept alive", c.answer()[0], 200)
    c.send(b"".join(request(DEDUCT, order(f"l{i}")) for i in range(20)))
    expect("pipelined", [c.answer()[0] for _ in range(20)], [200] * 20)
    c.send(request("/no", verb="GET", fields={}) + request(DEDUCT, order("m")))
    expect("after a refusal without a body", [c.answer()[0] for _ in range(2)], [404, 200])
    c.send(request(DEDUCT, order("n"), fields={**JSON, "Connection": "close"}))
    expect("Connection: close", (c.answer()[0], c.is_closed()), (200, True))

    c = Connection(port)
    body = json.dumps(order("x")).encode()
    c.send(f"POST {DEDUCT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n"
           f"Content-Length: {len(body)}\r\n\r\n".encode())
    expect("100", c.read_until(b"\r\n\r\n"), b"HTTP/1.1 100 Continue")
    c.send(body)
    expect("after 100", c.answer()[0], 200)
    chunks = b"".join(f"{len(body[i:i + 7]):x}\r\n".encode() + body[i:i + 7] + b"\r\n" for i in range(0, len(body), 7))
    for byte in (f"POST {DEDUCT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                 "Transfer-Encoding: chunked\r\n\r\n").encode() + chunks + b"0\r\n\r\n":
        c.send(bytes([byte]))
    expect("chunks, byte by byte", c.answer()[0], 200)

    # The unread rest of a body is not taken for a request.
    c = Connection(port)
    c.send(request(DEDUCT, request(DEDUCT, order("smuggled")), fields={"Content-Type": "text/plain"}))
    expect("refused before the body", (c.answer()[0], c.is_closed()), (415, True))
    c = Connection(port)
    c.send(b"GET / HTTP/1.1\nHost: localhost\n\n" + request(DEDUCT, order("smuggled")))
    expect("not HTTP", (c.answer()[0], c.is_closed()), (400, True))
    c = Connection(port)
    c.send(f"POST {DEDUCT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
           f"Content-Length: {1 << 30}\r\n\r\n".encode())
    try:
        for _ in range(1 << 10):
            c.send(b"x" * (1 << 20))
    except (ConnectionResetError, BrokenPipeError):
        pass
    c = Connection(port)
    c.send(f"POST {DEDUCT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
           f"Content-Length: {64 << 20}\r\n\r\n".encode() + b"x" * (3 << 20))
    status, _, body = c.answer()
    expect("a body that is too long", (status, json.loads(body)["code"]), (413, "resource_exhausted"))
    expect("nothing was smuggled", json.loads(call(DEDUCT, order("smuggled"))[2]).get("replayed"), None)

    # A caller that leaves gives its wait up: the lock goes to the next one.
    call(ACQUIRE, lock("w", "a", 0))
    gone, waits = Connection(port), Connection(port)
    gone.send(request(ACQUIRE, lock("w", "b", 60000)))
    gone.socket.close()
    waits.send(request(ACQUIRE, lock("w", "c", 60000)))
    call("/lockstock.v1.LockService/Release", {"names": ["w"], "token": "a" * 20})
    expect("the wait", json.loads(waits.answer()[2])["outcome"], "ACQUIRE_OUTCOME_ACQUIRED")


def idle_connections():
    n, bytes_each = 10000, 16384  # with the memory of sanitizers
    next_id = request("/lockstock.v1.IdService/Next", {"kind": "ID_KIND_UUID_V7"})
    watcher, idle = Connection(port), []

    def metric(name, **labels):
        watcher.send(request("/metrics", verb="GET", fields={}))
        return sample(watcher.answer()[2].decode(), name, **labels)

    def serves(connection):
        connection.send(next_id)
        expect("status", connection.answer()[0], 200)

    resident = metric("process_resident_memory_bytes")
    for _ in range(n):
        idle.append(Connection(port))
        serves(idle[-1])
    expect("connections", metric("lockstock_connections", wire="http"), n + 1)
    each = (metric("process_resident_memory_bytes") - resident) / n
    print(f"{each:.0f} bytes for an idle connection")
    expect("they are few", each <= bytes_each, True)
    for connection in idle[::100]:
        serves(connection)
    for connection in idle:
        connection.socket.close()
    while metric("lockstock_connections", wire="http") > 1:
        pass


if sys.argv[2:] == ["idle"]:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 12000:
        print(f"skipped: a process may open {hard} descriptors")
        sys.exit(77)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    # A sixteenth of the room is for unix sockets.
    with Server(sys.argv[1], "--connections", "12000", "--connections-per-address", "12000",
                listen="http://127.0.0.1:0") as server:
        port = server.port("http")
        idle_connections()
    sys.exit()

with Server(sys.argv[1], "--allow-origin", "https://shop.example", listen="http://127.0.0.1:0,http+unix://{dir}/http") as server:
    port = server.port("http")
    for scene in (calls_in_json, calls_in_protobuf, errors, pages_of_a_site_that_is_named, connections, pages):
        scene()
        print(scene.__name__)
    # A call that waits ends when the server stops, and a connection that is idle.
    c, idle = Connection(port), Connection(port)
    idle.send(request(DEDUCT, order("z")))
    idle.answer()
    c.send(request(ACQUIRE, lock("w", "d", 60000)))
    call(DEDUCT, order("zz"))
    server.process.terminate()
    status, fields, body = c.answer()
    expect("stopped", (status, json.loads(body)["reason"], fields["connection"]), (503, "shutting_down", "close"))
    expect("idle", idle.is_closed(), True)
    server.process.wait(60)
