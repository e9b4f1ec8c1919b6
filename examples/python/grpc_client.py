#!/usr/bin/python3
"""lockstock over gRPC, with Debian's python3-grpcio and python3-protobuf.

    grpc_client.py HOST:PORT

PYTHONPATH: the output of protoc and grpc_python_plugin for proto/ (../README.md), or of pip's grpcio-tools."""
import secrets
import sys

import grpc
from lockstock.v1 import lock_pb2, lock_pb2_grpc, ratelimit_pb2, ratelimit_pb2_grpc, stock_pb2, stock_pb2_grpc


def lock(channel):
    locks = lock_pb2_grpc.LockServiceStub(channel)
    target = lock_pb2.Target(name="printer")
    held = locks.Acquire(
        lock_pb2.AcquireRequest(targets=[target], token=secrets.token_hex(16), owner="me", lease_ms=10000), timeout=5)
    print("lock: mine" if held.outcome == lock_pb2.ACQUIRE_OUTCOME_ACQUIRED else "lock: taken")
    other = locks.Acquire(
        lock_pb2.AcquireRequest(targets=[target], token=secrets.token_hex(16), lease_ms=10000), timeout=5)
    print("lock: taken by", other.holder.owner)
    lease = lock_pb2.Lease(group=held.group, token=held.token, lease_ms=20000)
    renewed = locks.Renew(lock_pb2.RenewRequest(leases=[lease]), timeout=5)
    print("lock: renewed" if renewed.results[0].outcome == lock_pb2.RENEW_OUTCOME_RENEWED else "lock: lost")
    released = locks.Release(lock_pb2.ReleaseRequest(group=held.group, token=held.token), timeout=5)
    print("lock: released" if released.outcome == lock_pb2.RELEASE_OUTCOME_RELEASED else "lock: was not held")


def buy(channel):
    """The order's id makes it safe to send again: the first answer comes back."""
    stock = stock_pb2_grpc.StockServiceStub(channel)
    stock.PutItem(stock_pb2.PutItemRequest(sku="phone", on_hand=10), timeout=5)
    for _ in range(2):
        sold = stock.Deduct(
            stock_pb2.DeductRequest(order_id="order-1", lines=[stock_pb2.Line(sku="phone", quantity=1)]), timeout=5)
        print("order-1: sold%s, %d left" % (" before" if sold.replayed else "", sold.lines[0].available))


def limit(channel):
    limits = ratelimit_pb2_grpc.RateLimitServiceStub(channel)
    two_an_hour = ratelimit_pb2.Limit(algorithm="ALGORITHM_FIXED_WINDOW", limit=2, period_ms=3600000)
    for _ in range(3):
        answer = limits.Check(
            ratelimit_pb2.CheckRequest(rules=[ratelimit_pb2.Rule(limit=two_an_hour, key="alice")]), timeout=5)
        allowed = answer.outcome == ratelimit_pb2.CHECK_OUTCOME_ALLOWED
        print("limit: go on, %d left" % answer.rules[0].remaining if allowed else "limit: too often")


def fail(channel):
    """applied NO: nothing was changed; MAYBE: send the same call again, with the same id."""
    try:
        stock_pb2_grpc.StockServiceStub(channel).Deduct(
            stock_pb2.DeductRequest(order_id="order-2", lines=[stock_pb2.Line(sku="phone")]), timeout=5)
    except grpc.RpcError as error:  # its google.rpc.Status, with BadRequest: grpc_status.rpc_status.from_call(error)
        trailers = dict(error.trailing_metadata() or ())
        applied, field = trailers.get("lockstock-applied", "MAYBE"), error.details().split(":")[0]
        print("error: %s, applied %s, %s" % (error.code().name, applied, field))
        if "retry-after-ms" in trailers:
            print("try again in %s ms" % trailers["retry-after-ms"])


if __name__ == "__main__":
    with grpc.insecure_channel(sys.argv[1]) as server:
        for step in (lock, buy, limit, fail):
            step(server)
