#!/usr/bin/python3
"""Buys n times, each order until it has an answer: orders.py HOST:PORT n

Needs what ../python/grpc_client.py needs."""
import sys

import grpc
from lockstock.v1 import stock_pb2, stock_pb2_grpc


def buy(stock, order_id):
    """Repeats the order until there is an answer. The same order_id sells once."""
    request = stock_pb2.DeductRequest(order_id=order_id, lines=[stock_pb2.Line(sku="seat", quantity=1)])
    for _ in range(100):
        try:
            return stock.Deduct(request, timeout=5, wait_for_ready=True)
        except grpc.RpcError as error:
            if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                raise
    raise RuntimeError("no answer")


if __name__ == "__main__":
    n = int(sys.argv[2])
    with grpc.insecure_channel(sys.argv[1]) as channel:
        stock = stock_pb2_grpc.StockServiceStub(channel)
        stock.PutItem(stock_pb2.PutItemRequest(sku="seat", on_hand=n + 1), timeout=5)
        for i in range(n):
            sold = buy(stock, "order-%d" % i)
            assert sold.outcome == stock_pb2.DEDUCT_OUTCOME_DEDUCTED
            print("order-%d: %d left" % (i, sold.lines[0].available), flush=True)
