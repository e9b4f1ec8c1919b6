#!/usr/bin/python3
# promise CH12
# promise CH13
"""grpcio against a host of a service of somebody's own: host_grpc.py HELLO_HOST STANDARD_PROTO_DIR. The client knows the
service by reflection alone. Skipped (77) without grpcio. Nothing is asserted about elapsed time."""
import os
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../support"))
from grpcio import grpc, load  # noqa: E402
from servers import LIMIT_S, make_certificate  # noqa: E402
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # noqa: E402

HOST, STANDARD = sys.argv[1:3]
SERVING, NOT_SERVING = 1, 2
SERVICE = "hello.v1.HelloService"
work = tempfile.TemporaryDirectory(prefix="lockstock-host-")
health_pb2, reflection_pb2 = load([STANDARD], "grpc/health/v1/health", "grpc/reflection/v1/reflection")


class Host:
    def __init__(self, scheme="grpc", *files):
        self.process = subprocess.Popen([HOST, f"{scheme}://127.0.0.1:0", *files], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("the host does not come up")
        self.address = f"localhost:{line.strip()}"

    def await_waiting(self):
        assert self.process.stdout.readline() == "waiting\n"

    def open_door(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(LIMIT_S)
        self.process.stdin.close()
        self.process.stdout.close()
        return status


class Client:
    """From the answer of reflection."""

    def __init__(self, channel):
        self.channel = channel
        self.info = channel.stream_stream(
            "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
            request_serializer=lambda m: m.SerializeToString(),
            response_deserializer=reflection_pb2.ServerReflectionResponse.FromString)
        self.pool = descriptor_pool.DescriptorPool()
        self.added = set()
        for data in self.ask(file_containing_symbol=SERVICE).file_descriptor_response.file_descriptor_proto:
            self.add(descriptor_pb2.FileDescriptorProto.FromString(data))
        self.service = self.pool.FindServiceByName(SERVICE)

    def ask(self, **what):
        answers = self.info(iter([reflection_pb2.ServerReflectionRequest(**what)]), timeout=LIMIT_S)
        return next(answers)

    def add(self, file):
        """Requests imported files that were not in the answer."""
        if file.name in self.added:
            return
        self.added.add(file.name)
        for name in file.dependency:
            for data in self.ask(file_by_filename=name).file_descriptor_response.file_descriptor_proto:
                imported = descriptor_pb2.FileDescriptorProto.FromString(data)
                if imported.name not in self.added:
                    self.add(imported)
        self.pool.Add(file)

    def method(self, name):
        described = self.service.methods_by_name[name]
        types = [message_factory.MessageFactory(self.pool).GetPrototype(t)
                 for t in (described.input_type, described.output_type)]
        return types[0], self.channel.unary_unary(f"/{SERVICE}/{name}", request_serializer=lambda m: m.SerializeToString(),
                                                  response_deserializer=types[1].FromString)

    def health(self, name):
        return self.channel.unary_unary("/grpc.health.v1.Health/Check",
                                        request_serializer=lambda m: m.SerializeToString(),
                                        response_deserializer=health_pb2.HealthCheckResponse.FromString)(
            health_pb2.HealthCheckRequest(service=name), timeout=LIMIT_S)

    def watch(self, name):
        return self.channel.unary_stream("/grpc.health.v1.Health/Watch",
                                         request_serializer=lambda m: m.SerializeToString(),
                                         response_deserializer=health_pb2.HealthCheckResponse.FromString)(
            health_pb2.HealthCheckRequest(service=name), timeout=LIMIT_S)


class Plain(unittest.TestCase):
    def setUp(self):
        self.host = Host()
        self.channel = grpc.insecure_channel(self.host.address)
        self.client = Client(self.channel)

    def tearDown(self):
        self.channel.close()
        if self.host.process.returncode is None:
            self.assertEqual(self.host.end(), 0)

    def test_a_call_by_reflection(self):
        request, greet = self.client.method("Greet")
        answer, call = greet.with_call(request(name="you"), timeout=40, metadata=[("tenant-bin", "ac\u00e9".encode())])
        self.assertEqual((answer.text, answer.tenant), ("hello, you", "ac\u00e9"))
        self.assertIn(answer.left.seconds, range(0, 30))  # the host's longest, 30 s
        self.assertEqual(call.code(), grpc.StatusCode.OK)

    def test_a_service_that_is_not_healthy(self):
        watched = self.client.watch(SERVICE)
        self.assertEqual(next(watched).status, SERVING)
        self.host.process.send_signal(signal.SIGUSR1)
        self.assertEqual(next(watched).status, NOT_SERVING)
        self.assertEqual((self.client.health(SERVICE).status, self.client.health("").status), (NOT_SERVING, SERVING))
        listed = self.client.channel.unary_unary("/grpc.health.v1.Health/List", request_serializer=lambda m: m,
                                                 response_deserializer=health_pb2.HealthListResponse.FromString)(b"")
        self.assertEqual({name: one.status for name, one in listed.statuses.items()},
                         {"": SERVING, SERVICE: NOT_SERVING})
        self.host.process.send_signal(signal.SIGUSR2)
        self.assertEqual(next(watched).status, SERVING)
        watched.cancel()

    def test_services_are_listed(self):
        for version in ("v1", "v1alpha"):
            info = self.channel.stream_stream(
                f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
                request_serializer=lambda m: m.SerializeToString(),
                response_deserializer=reflection_pb2.ServerReflectionResponse.FromString)
            listed = next(info(iter([reflection_pb2.ServerReflectionRequest(list_services="*")]), timeout=LIMIT_S))
            names = [s.name for s in listed.list_services_response.service]
            self.assertEqual(sorted(names), sorted(set(names)))
            self.assertTrue({SERVICE, "grpc.health.v1.Health"} <= set(names))

    def test_health(self):
        self.assertEqual(self.client.health("").status, SERVING)
        self.assertEqual(self.client.health(SERVICE).status, SERVING)
        with self.assertRaises(grpc.RpcError) as refused:
            self.client.health("hello.v1.None")
        self.assertEqual(refused.exception.code(), grpc.StatusCode.NOT_FOUND)

    def test_a_drain_lets_calls_end(self):
        watch = self.client.watch("")
        self.assertEqual(next(watch).status, SERVING)
        request, wait = self.client.method("Wait")
        waiting = [wait.future(request(), timeout=LIMIT_S) for _ in range(2)]
        for _ in waiting:
            self.host.await_waiting()
        request, greet = self.client.method("Greet")
        ended = []
        ending = threading.Thread(target=lambda: ended.append(self.host.end()))
        ending.start()
        self.assertEqual(next(watch).status, NOT_SERVING)
        with self.assertRaises(grpc.RpcError) as stopped:
            next(watch)
        self.assertEqual(stopped.exception.code(), grpc.StatusCode.UNAVAILABLE)
        self.assertEqual(ended, [])  # two handlers run
        with self.assertRaises(grpc.RpcError) as refused:
            greet(request(name="you"), timeout=LIMIT_S)
        self.assertEqual(refused.exception.code(), grpc.StatusCode.UNAVAILABLE)
        self.host.open_door()
        for call in waiting:
            self.assertEqual(call.code(), grpc.StatusCode.OK)
        ending.join()
        self.assertEqual(ended, [0])


class Encrypted(unittest.TestCase):
    def test_a_call_over_tls(self):
        key, certificate = (os.path.join(work.name, name) for name in ("key.pem", "certificate.pem"))
        make_certificate(key, certificate)
        host = Host("grpcs", certificate, key)
        with open(certificate, "rb") as file:
            credentials = grpc.ssl_channel_credentials(file.read())
        with grpc.secure_channel(host.address, credentials) as channel:
            request, greet = Client(channel).method("Greet")
            self.assertEqual(greet(request(name="you"), timeout=LIMIT_S).text, "hello, you")
        self.assertEqual(host.end(), 0)


unittest.main(argv=sys.argv[:1], verbosity=2)
