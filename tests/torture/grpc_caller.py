#!/usr/bin/python3
"""caller.c's lines over gRPC, by Debian's grpcio: grpc_caller.py STUBS TARGET,TARGET..., where STUBS has what protoc made
of proto/. It repeats a call as any good client does (docs/contract.md): one that has a natural id, or was not applied."""
import importlib
import json
import queue
import sys
import threading
import time

sys.path.insert(0, sys.argv[1])
import grpc  # noqa: E402
from google.protobuf import json_format  # noqa: E402

NATURAL = {"Acquire": "token", "Release": "token", "Renew": "leases", "CheckFence": "fence", "Adjust": "adjustment_id",
           "Deduct": "order_id", "Reserve": "order_id", "Confirm": "order_id", "ExtendHold": "order_id",
           "Cancel": "order_id", "Return": "return_id", "Begin": "attempt_token", "Extend": "fence",
           "Complete": "fence", "Fail": "fence", "Check": "request_id", "Refund": "request_id",
           "GuardService/Enter": "token", "GuardService/Renew": "token", "GuardService/Leave": "token"}
READS = {"GetItem", "ListItems", "GetOrder", "ReadLedger", "Inspect", "Get", "Decode"}
SERVICES = {"LockService": "lock", "StockService": "stock", "IdempotencyService": "idempotency",
            "RateLimitService": "ratelimit", "IdService": "id", "GuardService": "guard"}
modules = {service: importlib.import_module(f"lockstock.v1.{name}_pb2") for service, name in SERVICES.items()}
channels = [grpc.insecure_channel(target) for target in sys.argv[2].split(",")]
out = threading.Lock()


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def applied_of(error):
    said = dict(error.trailing_metadata() or ()).get("lockstock-applied", "maybe")
    return said.upper()


def attempt(at, service, method, message, answer_type, seconds):
    call = channels[at].unary_unary(f"/lockstock.v1.{service}/{method}", request_serializer=lambda m: m.SerializeToString(),
                                    response_deserializer=answer_type.FromString)
    return call(message, timeout=seconds)


def make(asked):
    service, method = asked["m"].split("/")
    descriptor = modules[service].DESCRIPTOR.services_by_name[service].methods_by_name[method]
    request_type = getattr(modules[service], descriptor.input_type.name)
    answer_type = getattr(modules[service], descriptor.output_type.name)
    message = json_format.ParseDict(asked["r"], request_type())
    natural = NATURAL.get(asked["m"]) or NATURAL.get(method)
    again = method in READS or bool(natural and getattr(message, natural))
    begun = now_ns()
    end = begun + asked["t"] * 1_000_000
    maybe, at, result = False, asked["k"] % len(channels), None
    while result is None:
        left = (end - now_ns()) / 1e9
        try:
            answer = attempt(at, service, method, message, answer_type, max(left, 0.001))
            result = {"code": "OK", "applied": "YES", "a": json_format.MessageToDict(answer)}
        except grpc.RpcError as error:
            applied = applied_of(error)
            maybe = maybe or applied != "NO"
            unavailable = error.code() == grpc.StatusCode.UNAVAILABLE
            if left > 0.1 and unavailable and (again or applied == "NO"):
                time.sleep(min(0.05, left / 2))
                at = (at + 1) % len(channels)
                if hasattr(message, "fresh"):
                    message.fresh = False
                continue
            result = {"code": error.code().name, "applied": "MAYBE" if maybe and applied != "YES" else applied,
                      "why": error.details()}
    line = json.dumps({"k": asked["k"], "b": begun, "e": now_ns(), **result})
    with out:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def work():
    while asked := waiting.get():
        make(asked)


waiting = queue.Queue()
threads = [threading.Thread(target=work, daemon=True) for _ in range(32)]
for thread in threads:
    thread.start()
for line in sys.stdin:
    waiting.put(json.loads(line))
for _ in threads:
    waiting.put(None)
for thread in threads:
    thread.join()
