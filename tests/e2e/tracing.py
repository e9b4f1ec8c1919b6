"""tracing.py LOCKSTOCKD: the spans that a collector of OpenTelemetry receives."""
import http.client
import http.server
import json
import os
import queue
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../support"))
import servers  # noqa: E402
from servers import Redis  # noqa: E402

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0"
bodies = queue.Queue()
statuses = []  # of the next answers; then 200
answers = threading.Event()  # whether the collector answers
answers.set()


class Collector(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status = statuses.pop(0) if statuses else 200
        bodies.put((self.path, self.headers, json.loads(body), status))
        answers.wait()
        self.send_response(status)
        if status == 429:
            self.send_header("Retry-After", "1")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args):
        pass


def expect(what, got, wanted):
    if got != wanted:
        raise SystemExit(f"{what}: {got!r}, not {wanted!r}")


class Server(servers.Server):
    def __init__(self, *flags, store="embedded:{dir}/data", **variables):
        names = {f"OTEL_{n.upper()}": v for n, v in variables.items()}
        super().__init__(sys.argv[1], *flags, store=store, listen="http://127.0.0.1:0,tcp://127.0.0.1:0,grpc://127.0.0.1:0",
                         env={**os.environ, "OTEL_BSP_SCHEDULE_DELAY": "50", **names})

    def metric(self, sample):
        c = http.client.HTTPConnection("127.0.0.1", self.port("http"), timeout=60)
        c.request("GET", "/metrics")
        return int(re.search("^" + re.escape(sample) + r" (\d+)$", c.getresponse().read().decode(), re.M).group(1))

    def await_calls(self, state):
        while self.metric(f'lockstock_calls{{state="{state}"}}') == 0:
            pass

    def call(self, method, request, *traceparents, **fields):
        c = http.client.HTTPConnection("127.0.0.1", self.port("http"), timeout=60)
        body = json.dumps(request).encode()
        c.putrequest("POST", "/lockstock.v1." + method)
        c.putheader("Content-Type", "application/json")
        c.putheader("Content-Length", str(len(body)))
        for text in traceparents:
            c.putheader("traceparent", text)
        for name, text in fields.items():
            c.putheader(name, text)
        c.endheaders(body)
        return json.loads(c.getresponse().read())


def spans_of(body):
    return [s for r in body["resourceSpans"] for scope in r["scopeSpans"] for s in scope["spans"]]


def of_call():
    """The next call: its span, and those of its stages by name."""
    global known
    while not known:
        known = spans_of(bodies.get(timeout=60)[2])
    first, *rest = known
    n = next((i for i, s in enumerate(rest) if s["kind"] == 2), len(rest))
    known = rest[n:]
    for stage in rest[:n]:
        expect("parent of a stage", (stage["parentSpanId"], stage["traceId"]), (first["spanId"], first["traceId"]))
    return first, {s["name"]: s for s in rest[:n]}


def acquire(who, wait_ms=0):
    return {"targets": [{"name": "SECRET"}], "owner": who, "token": who * 20, "lease_ms": 60000, "wait_ms": wait_ms}


def a_call_is_a_child_of_its_callers_span(url):
    with Server(exporter_otlp_endpoint=url + "/", exporter_otlp_headers="x-key=a%20b,x-more=c", service_name="shop locks",
                resource_attributes="deployment.environment=te%2Cst,service.name=other") as s:
        s.call("LockService/Acquire", acquire("a"), PARENT + "1", tracestate="x=1")
        path, headers, body, _ = bodies.get(timeout=60)
    expect("path", path, "/v1/traces")
    expect("headers", (headers["x-key"], headers["x-more"], headers["Content-Type"]), ("a b", "c", "application/json"))
    resource = {a["key"]: a["value"]["stringValue"] for a in body["resourceSpans"][0]["resource"]["attributes"]}
    expect("service.name", resource["service.name"], "shop locks")
    expect("attribute", resource["deployment.environment"], "te,st")
    span, *stages = spans_of(body)
    expect("ids", (span["traceId"], span["parentSpanId"]), (PARENT[3:35], PARENT[36:52]))
    expect("name", (span["name"], span["kind"], span["traceState"]), ("lockstock.v1.LockService/Acquire", 2, "x=1"))
    values = {a["key"]: list(a["value"].values())[0] for a in span["attributes"]}
    expect("attributes", values, {"rpc.system": "grpc", "rpc.service": "lockstock.v1.LockService", "rpc.method": "Acquire",
                                  "rpc.grpc.status_code": "0", "lockstock.store_calls": "1", "lockstock.waits": "0"})
    store = next(x for x in stages if x["name"] == "store")
    times = [int(t) for t in (span["startTimeUnixNano"], store["startTimeUnixNano"], store["endTimeUnixNano"],
                              span["endTimeUnixNano"])]
    expect("times", times, sorted(times))
    expect("keys in spans", "SECRET" in json.dumps(body), False)


def field(number, data):
    return bytes([number << 3 | 2, len(data)]) + data


def call_over_sp(port, n):
    """n calls without a request, in one message."""
    metadata = field(4, field(1, b"traceparent") + field(2, (PARENT + "1").encode()))
    message = b"\x80\0\0\1" + n * field(2, field(1, b"/lockstock.v1.LockService/Acquire") + metadata)
    with socket.create_connection(("127.0.0.1", port), timeout=60) as sp:
        sp.sendall(b"\0SP\0\0\x30\0\0" + struct.pack(">Q", len(message)) + message)
        expect("greeting and answer", len(sp.makefile("rb").read(8 + 8)), 16)


def a_traceparent_is_read_on_each_wire(url):
    with Server(exporter_otlp_endpoint=url) as s:
        call_over_sp(s.port("tcp"), 1)
        expect("parent over SP", of_call()[0]["parentSpanId"], PARENT[36:52])
        try:
            import grpc
        except ImportError:
            return
        with grpc.insecure_channel(s.address["grpc"]) as channel:
            call = channel.unary_unary("/lockstock.v1.LockService/Acquire")
            expect("an empty request", call.future(b"", metadata=[("traceparent", PARENT + "1")]).code().name, "INVALID_ARGUMENT")
            expect("parent over gRPC", of_call()[0]["parentSpanId"], PARENT[36:52])


def only_some_calls_are_kept(url):
    with Server(exporter_otlp_traces_endpoint=url + "/all") as s:
        for ignored in ([], [PARENT + "0"], [PARENT + "1", PARENT + "1"], ["ff" + PARENT[2:] + "1"],
                        [PARENT.upper() + "1"], ["00-" + "0" * 32 + PARENT[35:] + "1"], [PARENT + "1-x"]):
            s.call("LockService/Acquire", acquire("a"), *ignored)
        s.call("LockService/Acquire", acquire("b", 20))
        waited, stages = of_call()
        expect("stages of a wait", "wait" in stages, True)
        expect("parent of a call without one", "parentSpanId" in waited, False)
        expect("store calls", [a["value"]["intValue"] for a in waited["attributes"] if a["key"] == "lockstock.waits"], ["1"])
        s.call("LockService/Acquire", acquire("a"), "cc" + PARENT[2:] + "1-what-may-come")
        expect("a later version", of_call()[0]["parentSpanId"], PARENT[36:52])
    with Server(exporter_otlp_endpoint=url, traces_sampler="always_on") as s:
        s.call("LockService/Acquire", {}, PARENT + "0")
        span = of_call()[0]
        expect("a refused request", {a["key"]: a["value"] for a in span["attributes"]}["rpc.grpc.status_code"],
               {"intValue": "3"})
        expect("is no fault of the server", span["status"], {})


def a_collector_that_refuses_is_asked_again(url):
    statuses.extend([429, 503, 200, 400])
    with Server(exporter_otlp_endpoint=url, traces_sampler="parentbased_always_on") as s:
        s.call("LockService/Acquire", acquire("a"))
        tries = [bodies.get(timeout=60) for _ in range(3)]
        expect("tries", [t[3] for t in tries], [429, 503, 200])
        expect("bodies", [t[2] for t in tries], [tries[0][2]] * 3)
        s.call("LockService/Acquire", acquire("a"))
        expect("refused for good", bodies.get(timeout=60)[3], 400)
        s.call("LockService/Acquire", acquire("a"))
        expect("the next", bodies.get(timeout=60)[3], 200)


def release(who):
    return {"token": who * 20, "names": ["SECRET"]}


def start_call(server, *args):
    thread = threading.Thread(target=server.call, args=args)
    thread.start()
    return thread


def a_wait_links_to_the_release_that_ended_it(url):
    with Redis() as redis, Server(store=redis.url, exporter_otlp_endpoint=url) as s, \
         Server(store=redis.url, exporter_otlp_endpoint=url) as other:
        s.call("LockService/Acquire", acquire("a"))
        waits = []
        for server, who in ((s, "b"), (other, "c")):
            waits.append(start_call(server, "LockService/Acquire", acquire(who, 20000)))
            server.await_calls("waiting")
        for n, who in enumerate("ab"):
            s.call("LockService/Release", release(who), PARENT + "1")
            waits[n].join()
            released, waited = sorted((of_call()[0] for _ in range(2)), key=lambda span: "links" in span)
            expect("names", (released["name"], waited["name"]),
                   ("lockstock.v1.LockService/Release", "lockstock.v1.LockService/Acquire"))
            expect("link of " + who, waited["links"], [{"traceId": released["traceId"], "spanId": released["spanId"]}])


def a_slow_call_is_logged_and_kept(url):
    with Redis() as redis, Server("--slow-call-ms", "1", store=redis.url, exporter_otlp_endpoint=url) as s:
        redis.process.send_signal(signal.SIGSTOP)
        call = start_call(s, "LockService/Acquire", acquire("a"))
        s.await_calls("running")
        began = time.monotonic()
        while time.monotonic() < began + 0.002:
            pass
        redis.process.send_signal(signal.SIGCONT)
        call.join()
        expect("span", of_call()[0]["name"], "lockstock.v1.LockService/Acquire")
        lines = re.findall("(?m)^.*event=slow-call.*$", s.log())
    expect("lines", len(lines), 1)
    expect("line", re.sub("(ms|time)=[^ ]+", "", lines[0]),
           " level=warn event=slow-call method=lockstock.v1.LockService/Acquire code=OK  queue- store- wait- store-calls=1 waits=0")


def what_finds_no_room_is_lost_and_counted(url):
    answers.clear()
    with Server(exporter_otlp_endpoint=url) as s:
        for _ in range(26):
            call_over_sp(s.port("tcp"), 100)
        lost = s.metric('lockstock_traced_calls_total{result="lost"}')
        expect("lost beyond a batch and the queue", 2600 - 512 - 2048 <= lost <= 2600 - 2048, True)
        answers.set()
        while s.metric('lockstock_traced_calls_total{result="sent"}') + lost < 2600:
            pass
    sent = sum(span["kind"] == 2 for _ in range(bodies.qsize()) for span in spans_of(bodies.get(timeout=60)[2]))
    expect("sent", sent, 2600 - lost)


def what_is_queued_goes_out_at_the_end(url):
    with Server(exporter_otlp_endpoint=url, exporter_otlp_headers="a=b, ,c=d", traces_sampler="always_on",
                bsp_schedule_delay="86400000") as s:
        s.call("LockService/Acquire", acquire("a"))
        expect("spans before the end", bodies.empty(), True)
    expect("spans", len(spans_of(bodies.get(timeout=60)[2])) > 0, True)


def settings_that_are_wrong_are_named(url):
    for name, text in (("OTEL_TRACES_SAMPLER", "often"), ("OTEL_EXPORTER_OTLP_HEADERS", "a=b, abc"), ("OTEL_EXPORTER_OTLP_HEADERS", "=b"),
                       ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317"),
                       ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "collector:4317")):
        for flags in (), ("--check-config",):
            ended = subprocess.run([sys.argv[1], "--store", "embedded:/nonexistent/data", "--listen", "http://127.0.0.1:0", *flags],
                                   text=True, stderr=subprocess.PIPE,
                                   env={**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": url, name: text})
            expect("exit", (ended.returncode, name in ended.stderr), (2, True))


known = []
collector = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
threading.Thread(target=collector.serve_forever, daemon=True).start()
for case in (a_call_is_a_child_of_its_callers_span, a_traceparent_is_read_on_each_wire, only_some_calls_are_kept,
             a_collector_that_refuses_is_asked_again, a_wait_links_to_the_release_that_ended_it,
             a_slow_call_is_logged_and_kept, what_finds_no_room_is_lost_and_counted,
             what_is_queued_goes_out_at_the_end, settings_that_are_wrong_are_named):
    case(f"http://127.0.0.1:{collector.server_port}")
    expect("left by " + case.__name__, (known, bodies.qsize()), ([], 0))
    print("ok", case.__name__)
