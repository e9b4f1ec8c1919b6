"""Compares calls per second with the library and with bare grpcio, in turns, on one server: speed.py [ROUNDS]. Run by hand."""
import statistics
import sys
import time

import grpc

import lockstock
import lockstock.testing
from lockstock.v1 import stock_pb2

CALLS = 1000


def seconds(call):
    began = time.perf_counter()
    for _ in range(CALLS):
        call()
    return time.perf_counter() - began


with lockstock.testing.server() as server, lockstock.connect(server.url) as ls, \
        grpc.insecure_channel(server.url.replace("grpc://", "")) as channel:
    ls.stock.put("phone", 10)
    request = stock_pb2.GetItemRequest(sku="phone")
    bare = channel.unary_unary("/lockstock.v1.StockService/GetItem", request_serializer=stock_pb2.GetItemRequest.SerializeToString,
                               response_deserializer=stock_pb2.GetItemResponse.FromString)
    ratios = []
    for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 10):
        ratios.append(seconds(lambda: bare(request, timeout=5)) / seconds(lambda: ls.calls.stock.get_item(request)))
    print("library / bare: %.2f (%.2f to %.2f)" % (statistics.median(ratios), min(ratios), max(ratios)))
