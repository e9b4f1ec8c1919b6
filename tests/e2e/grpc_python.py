#!/usr/bin/python3
# promise G12
# promise G14
"""grpcio, as Debian has it, against a real lockstockd: grpc_python.py LOCKSTOCKD PROTO_DIR STANDARD_PROTO_DIR.
Skipped (77) without grpcio. Nothing is asserted about elapsed time."""
import os
import signal
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../support"))
from grpcio import grpc, load  # noqa: E402
from servers import LIMIT_S, Result, Server, wait_until  # noqa: E402
from google.protobuf import descriptor_pb2, descriptor_pool, symbol_database  # noqa: E402

LOCKSTOCKD, PROTO, STANDARD = sys.argv[1:4]
DETAILS = os.path.join(os.path.dirname(__file__), "../interop/protos")
_, lock_pb2, stock_pb2, id_pb2, *others = load(
    [PROTO], *(f"lockstock/{name}" for name in ("rpc/v1/options", "v1/lock", "v1/stock", "v1/id", "v1/idempotency", "v1/ratelimit")))
status_pb2, details_pb2 = load([DETAILS], "google/rpc/status", "google/rpc/error_details")
health_pb2, reflection_pb2 = load([STANDARD], "grpc/health/v1/health", "grpc/reflection/v1/reflection")
symbols = symbol_database.Default()
SERVING, NOT_SERVING, SERVICE_UNKNOWN = 1, 2, 3


def start():
    return Server(LOCKSTOCKD, listen="grpc://127.0.0.1:0")


def method(channel, descriptor):
    """The callable of a method, from its descriptor."""
    make = channel.unary_unary
    if descriptor.full_name.endswith("Health.Watch"):
        make = channel.unary_stream
    if descriptor.full_name.endswith("ServerReflectionInfo"):
        make = channel.stream_stream
    response = symbols.GetPrototype(descriptor.output_type)
    service, name = descriptor.full_name.rsplit(".", 1)
    return make(f"/{service}/{name}", request_serializer=lambda m: m.SerializeToString(),
                response_deserializer=response.FromString)


def service(channel, module, name):
    found = module.DESCRIPTOR.services_by_name[name]
    return type(name, (), {m.name: staticmethod(method(channel, m)) for m in found.methods})


def token_of(who):
    return who.ljust(16, "-")


def acquire(name, who, lease_ms=60000, wait_ms=0):
    return lock_pb2.AcquireRequest(targets=[lock_pb2.Target(name=name)], token=token_of(who), owner="test", lease_ms=lease_ms,
                                   wait_ms=wait_ms)


class Calls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = start()
        cls.channel = grpc.insecure_channel(cls.server.address["grpc"])
        cls.lock = service(cls.channel, lock_pb2, "LockService")
        cls.stock = service(cls.channel, stock_pb2, "StockService")
        cls.id = service(cls.channel, id_pb2, "IdService")
        cls.health = service(cls.channel, health_pb2, "Health")

    @classmethod
    def tearDownClass(cls):
        cls.channel.close()
        cls.server.stop()

    def fails(self, code, call, *args, **options):
        with self.assertRaises(grpc.RpcError) as caught:
            call(*args, timeout=LIMIT_S, **options)
        self.assertEqual(caught.exception.code(), code, caught.exception)
        return caught.exception

    def test_every_method_is_there(self):
        for module in (lock_pb2, stock_pb2, id_pb2, *others):
            for found in module.DESCRIPTOR.services_by_name.values():
                for m in found.methods:
                    request = symbols.GetPrototype(m.input_type)()
                    try:
                        method(self.channel, m)(request, timeout=LIMIT_S)
                    except grpc.RpcError as error:
                        self.assertIn(error.code(), (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND),
                                      f"{m.full_name}: {error}")

    def test_trailers_repeat_fields_of_the_response(self):
        put = stock_pb2.PutItemRequest(sku="hinted", on_hand=9)
        self.stock.PutItem(put, timeout=LIMIT_S)
        order = stock_pb2.DeductRequest(order_id="hinted", lines=[stock_pb2.Line(sku="hinted", quantity=1)])
        for replayed in (None, "true"):
            self.assertEqual(self.trailers(self.stock.Deduct, order).get("lockstock-replayed"), replayed)
        ratelimit_pb2 = others[1]
        limits = service(self.channel, ratelimit_pb2, "RateLimitService")
        limit = ratelimit_pb2.Limit(algorithm=ratelimit_pb2.ALGORITHM_FIXED_WINDOW, limit=1, period_ms=3600000)
        check = ratelimit_pb2.CheckRequest(rules=[ratelimit_pb2.Rule(limit=limit, key="hinted")])
        self.assertNotIn("retry-after-ms", self.trailers(limits.Check, check))
        for _ in range(2): # the second refusal is remembered
            self.assertGreater(int(self.trailers(limits.Check, check)["retry-after-ms"]), 0)

    def trailers(self, method, request):
        call = method.future(request, timeout=LIMIT_S)
        call.result()
        return dict(call.trailing_metadata())

    def details(self, error):
        """The contents of grpc-status-details-bin: the reason, and the field with its description."""
        status = status_pb2.Status.FromString(dict(error.trailing_metadata())["grpc-status-details-bin"])
        self.assertEqual((status.code, status.message), (error.code().value[0], error.details()))
        info, request = details_pb2.ErrorInfo(), details_pb2.BadRequest()
        for detail in status.details:
            detail.Unpack(info)
            detail.Unpack(request)
        self.assertEqual(info.domain, "lockstock")
        field = [(one.field, one.description) for one in request.field_violations]
        return info.reason, field[0] if field else None

    def test_errors_have_details_and_applied(self):
        error = self.fails(grpc.StatusCode.INVALID_ARGUMENT, self.stock.PutItem, stock_pb2.PutItemRequest())
        self.assertEqual(dict(error.trailing_metadata())["lockstock-applied"], "NO")
        reason, (field, description) = self.details(error)
        self.assertEqual((reason, field), ("invalid_field", "sku"))
        self.assertEqual(error.details(), f"sku: {description}")
        missing = self.fails(grpc.StatusCode.NOT_FOUND, self.stock.GetItem, stock_pb2.GetItemRequest(sku="none"))
        self.assertEqual(dict(missing.trailing_metadata())["lockstock-applied"], "NO")

    def test_health(self):
        ask = health_pb2.HealthCheckRequest
        self.assertEqual(self.health.Check(ask(), timeout=LIMIT_S).status, SERVING)
        self.assertEqual(self.health.Check(ask(service="lockstock.v1.LockService"), timeout=LIMIT_S).status, SERVING)
        self.fails(grpc.StatusCode.NOT_FOUND, self.health.Check, ask(service="other"))
        unknown = self.health.Watch(ask(service="other"), timeout=LIMIT_S)
        self.assertEqual(next(unknown).status, SERVICE_UNKNOWN)
        unknown.cancel()

    def test_health_while_the_store_is_away(self):
        watch = self.health.Watch(health_pb2.HealthCheckRequest(), timeout=LIMIT_S)
        self.assertEqual(next(watch).status, SERVING)
        os.kill(self.server.children()[0], signal.SIGKILL)
        self.assertEqual(next(watch).status, NOT_SERVING)
        self.assertEqual(next(watch).status, SERVING)
        watch.cancel()

    def test_reflection(self):
        ask = reflection_pb2.ServerReflectionRequest
        for version in ("v1", "v1alpha"):
            info = self.channel.stream_stream(
                f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
                request_serializer=lambda m: m.SerializeToString(),
                response_deserializer=reflection_pb2.ServerReflectionResponse.FromString)
            answers = list(info(iter([ask(list_services="*"),
                                      ask(file_containing_symbol="lockstock.v1.LockService.Acquire"),
                                      ask(file_by_filename="lockstock/v1/stock.proto"),
                                      ask(file_containing_symbol="lockstock.v1.None")]), timeout=LIMIT_S))
            self.assertEqual(len(answers), 4)
            services = {found.name for found in answers[0].list_services_response.service}
            self.assertTrue({"lockstock.v1.LockService", "lockstock.v1.StockService", "lockstock.v1.IdService",
                             "grpc.health.v1.Health", f"grpc.reflection.{version}.ServerReflection"} <= services)
            pool = descriptor_pool.DescriptorPool()
            files = answers[1].file_descriptor_response.file_descriptor_proto
            for data in [*files[1:], files[0]]:  # imported files before the files that import them
                pool.Add(descriptor_pb2.FileDescriptorProto.FromString(data))
            described = pool.FindServiceByName("lockstock.v1.LockService")
            self.assertEqual([m.name for m in described.methods],
                             [m.name for m in lock_pb2.DESCRIPTOR.services_by_name["LockService"].methods])
            self.assertGreater(len(answers[2].file_descriptor_response.file_descriptor_proto), 0)
            self.assertEqual(answers[3].error_response.error_code, grpc.StatusCode.NOT_FOUND.value[0])


class Waiting(unittest.TestCase):
    def test_waits_do_not_block_the_calls_that_end_them(self):
        """One channel with default options: more waits than any limit of calls, then the calls that end them."""
        n = 10000 if os.environ.get("LOCKSTOCK_SOAK") else 600
        patience = 20 * LIMIT_S
        server = start()
        with grpc.insecure_channel(server.address["grpc"]) as channel:
            lock = service(channel, lock_pb2, "LockService")
            held = [lock.Acquire.future(acquire(f"w{i}", f"holds{i}", 3600000), timeout=patience) for i in range(n)]
            self.assertTrue(all(call.result().outcome == lock_pb2.ACQUIRE_OUTCOME_ACQUIRED for call in held))
            waits = [lock.Acquire.future(acquire(f"w{i}", f"waits{i}", 3600000, wait_ms=1000 * patience - 1000),
                                         timeout=patience) for i in range(n)]
            ends = [lock.Release.future(lock_pb2.ReleaseRequest(names=[f"w{i}"], token=token_of(f"holds{i}")),
                                        timeout=patience) for i in range(n)]
            for call in ends:
                call.result()
            self.assertTrue(all(call.result().outcome == lock_pb2.ACQUIRE_OUTCOME_ACQUIRED for call in waits))
        server.stop()


class Draining(unittest.TestCase):
    def test_watches_and_waits_end_when_the_server_stops(self):
        server = start()
        with grpc.insecure_channel(server.address["grpc"]) as channel:
            lock = service(channel, lock_pb2, "LockService")
            watch = service(channel, health_pb2, "Health").Watch(health_pb2.HealthCheckRequest(), timeout=LIMIT_S)
            self.assertEqual(next(watch).status, SERVING)
            lock.Acquire(acquire("drain", "holder"), timeout=LIMIT_S)
            waiting = lock.Acquire.future(acquire("drain", "waits", wait_ms=50000), timeout=LIMIT_S)
            wait_until(lambda: lock.Inspect(lock_pb2.InspectRequest(name="drain"), timeout=LIMIT_S).waiters == 1)
            server.stop()
            self.assertEqual(next(watch).status, NOT_SERVING)
            with self.assertRaises(grpc.RpcError) as caught:
                next(watch)
            self.assertEqual(caught.exception.code(), grpc.StatusCode.UNAVAILABLE)
            self.assertEqual(waiting.exception().code(), grpc.StatusCode.UNAVAILABLE)
            self.assertEqual(dict(waiting.exception().trailing_metadata())["lockstock-applied"], "MAYBE")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[4:], testRunner=unittest.TextTestRunner(verbosity=2, resultclass=Result))
