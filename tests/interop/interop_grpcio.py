#!/usr/bin/python3
# promise GC12
# promise GC13: a host passes gRPC's unary interoperability cases with grpcio and with grpc-js
"""gRPC's unary interoperability cases with grpcio: interop_grpcio.py INTEROP_HOST INTEROP_CHANNEL PROTO_DIR. As a client
of the host, and as a server of the channel, plain and with TLS. Skipped (77) without grpcio."""
import os
import subprocess
import sys
import tempfile
import threading
import unittest
from concurrent import futures

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../support"))
from grpcio import grpc, load  # noqa: E402
from servers import LIMIT_S, make_certificate  # noqa: E402

HOST, CHANNEL, PROTOS = sys.argv[1:4]
SPECIAL = "\t\ntest with whitespace\r\nand Unicode BMP \u263a and non-BMP \U0001f608\t\n"
work = tempfile.TemporaryDirectory(prefix="lockstock-interop-")
messages, = load([PROTOS], "grpc/testing/messages")


def method(channel, name, request=messages.SimpleRequest, response=messages.SimpleResponse, service="TestService"):
    return channel.unary_unary(f"/grpc.testing.{service}/{name}", request_serializer=request.SerializeToString,
                               response_deserializer=response.FromString)


class HostCases(unittest.TestCase):
    def setUp(self):
        self.host = subprocess.Popen([HOST, "grpc://127.0.0.1:0"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.channel = grpc.insecure_channel(f"127.0.0.1:{self.host.stdout.readline().strip()}")
        self.unary = method(self.channel, "UnaryCall")
        self.empty = method(self.channel, "EmptyCall", messages.Empty, messages.Empty)

    def tearDown(self):
        self.channel.close()
        self.host.stdin.close()
        self.host.stdout.close()
        self.assertEqual(self.host.wait(LIMIT_S), 0)

    def expect(self, code, call, request, **options):
        with self.assertRaises(grpc.RpcError) as failed:
            call(request, **options)
        self.assertEqual(failed.exception.code(), code)
        return failed.exception

    def test_empty_unary(self):
        self.assertEqual(self.empty(messages.Empty(), timeout=LIMIT_S), messages.Empty())

    def test_large_unary(self):
        answer = self.unary(messages.SimpleRequest(response_size=314159, payload=messages.Payload(body=bytes(271828))),
                            timeout=LIMIT_S)
        self.assertEqual(answer.payload.body, bytes(314159))

    def test_cacheable_unary(self):
        cacheable = method(self.channel, "CacheableUnaryCall")
        answers = [cacheable(messages.SimpleRequest(response_size=3), timeout=LIMIT_S, metadata=[("x-user-ip", "1.2.3.4")])
                   for _ in range(2)]
        self.assertEqual(answers[0], answers[1])

    def test_custom_metadata(self):
        sent = [("x-grpc-test-echo-initial", "test_initial_metadata_value"), ("x-grpc-test-echo-trailing-bin", b"\xab\xab\xab")]
        _, call = self.unary.with_call(messages.SimpleRequest(response_size=3), timeout=LIMIT_S, metadata=sent)
        self.assertIn(sent[0], [tuple(item) for item in call.initial_metadata()])
        self.assertEqual([tuple(item) for item in call.trailing_metadata()], [sent[1]])
        request = messages.SimpleRequest(response_status=messages.EchoStatus(code=2, message="no"))
        failed = self.expect(grpc.StatusCode.UNKNOWN, self.unary, request, timeout=LIMIT_S, metadata=sent)
        self.assertIn(sent[0], [tuple(item) for item in failed.initial_metadata()])
        self.assertIn(sent[1], [tuple(item) for item in failed.trailing_metadata()])

    def test_status_code_and_message(self):
        for text in ("test status message", SPECIAL):
            failed = self.expect(grpc.StatusCode.UNKNOWN, self.unary, timeout=LIMIT_S, request=messages.SimpleRequest(
                response_status=messages.EchoStatus(code=2, message=text)))
            self.assertEqual(failed.details(), text)

    def test_unimplemented(self):
        for service in ("TestService", "UnimplementedService"):
            call = method(self.channel, "UnimplementedCall", messages.Empty, messages.Empty, service)
            self.expect(grpc.StatusCode.UNIMPLEMENTED, call, messages.Empty(), timeout=LIMIT_S)

    def test_timeout_on_sleeping_server(self):
        self.expect(grpc.StatusCode.DEADLINE_EXCEEDED, self.empty, messages.Empty(), timeout=0.2, metadata=[("x-hold", "1")])

    def test_cancel_after_begin(self):
        call = self.empty.future(messages.Empty(), timeout=LIMIT_S, metadata=[("x-hold", "1")])
        call.cancel()
        self.assertEqual(call.code(), grpc.StatusCode.CANCELLED)


class Service(grpc.GenericRpcHandler):
    """A server of the unary methods. `gone` counts held calls whose client went away."""

    def __init__(self):
        self.gone = threading.Semaphore(0)

    def service(self, details):
        name = details.method.rpartition("/")[2] if details.method.startswith("/grpc.testing.TestService/") else ""
        kinds = {"EmptyCall": (self.empty, messages.Empty), "UnaryCall": (self.unary, messages.SimpleRequest),
                 "CacheableUnaryCall": (self.unary, messages.SimpleRequest)}
        if name not in kinds:
            return None
        return grpc.unary_unary_rpc_method_handler(kinds[name][0], request_deserializer=kinds[name][1].FromString,
                                                   response_serializer=lambda m: m.SerializeToString())

    def empty(self, _request, context):
        if "x-hold" in dict(context.invocation_metadata()):
            ended = threading.Event()
            if context.add_callback(ended.set):
                ended.wait(LIMIT_S)
            self.gone.release()
        return messages.Empty()

    def unary(self, request, context):
        metadata = dict(context.invocation_metadata())
        if "x-expect-both" in metadata and (
                metadata.get("x-grpc-test-echo-initial") != "test_initial_metadata_value" or
                metadata.get("x-grpc-test-echo-trailing-bin") != b"\xab\xab\xab"):
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"metadata: {metadata}")
        if "x-expect-both" in metadata:
            context.send_initial_metadata([("x-grpc-test-echo-initial", metadata["x-grpc-test-echo-initial"])])
            context.set_trailing_metadata([("x-grpc-test-echo-trailing-bin", metadata["x-grpc-test-echo-trailing-bin"])])
        if request.response_status.code:
            context.abort({2: grpc.StatusCode.UNKNOWN}[request.response_status.code], request.response_status.message)
        return messages.SimpleResponse(payload=messages.Payload(body=bytes(request.response_size)))


class ChannelCases(unittest.TestCase):
    def serve(self, address, credentials=None):
        self.service = Service()
        self.server = grpc.server(futures.ThreadPoolExecutor(4), handlers=[self.service])
        port = self.server.add_secure_port(address, credentials) if credentials else self.server.add_insecure_port(address)
        self.server.start()
        self.addCleanup(lambda: self.server.stop(None).wait())
        return port

    def run_cases(self, *args):
        run = subprocess.run([CHANNEL, *args], capture_output=True, text=True, timeout=LIMIT_S)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        # The server learns of the deadline from the client or its own clock, and of the cancel if the call was sent.
        self.assertTrue(self.service.gone.acquire(timeout=LIMIT_S))

    def test_plain(self):
        self.run_cases(f"grpc://127.0.0.1:{self.serve('127.0.0.1:0')}")

    def test_unix(self):
        path = os.path.join(work.name, "socket")
        self.serve("unix:" + path)
        self.run_cases("grpc+unix://" + path)

    def test_tls(self):
        key, certificate = (os.path.join(work.name, name) for name in ("key.pem", "certificate.pem"))
        make_certificate(key, certificate)
        with open(key, "rb") as k, open(certificate, "rb") as c:
            credentials = grpc.ssl_server_credentials([(k.read(), c.read())])
        self.run_cases(f"grpcs://127.0.0.1:{self.serve('127.0.0.1:0', credentials)}", certificate)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
