#!/usr/bin/python3
"""clicks.py ADDRESS RUN ORDERS SHELVES PROTO_DIR...: both clicks of each order at once over gRPC, on two connections;
says the two receipts of each order, a line each. The stubs are made of shop.proto when it runs."""
import subprocess
import sys
import tempfile

import grpc

LIMIT_S = 60
address, run, orders, shelves = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
with tempfile.TemporaryDirectory(prefix="shop-stubs-") as stubs:
    subprocess.run(["protoc", *(f"-I{directory}" for directory in sys.argv[5:]), f"--python_out={stubs}",
                    "shop.proto", "lockstock/rpc/v1/options.proto"], check=True)
    sys.path.insert(0, stubs)
    import shop_pb2

channels = [grpc.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)]) for _ in range(2)]
buys = [channel.unary_unary("/shop.v1.ShopService/Buy", shop_pb2.BuyRequest.SerializeToString,
                             shop_pb2.BuyResponse.FromString) for channel in channels]


def receipt(buy, order, call):
    """What a call was told. A shop that cannot ask lockstock now refuses: then the same order is sent again."""
    while True:
        try:
            return call.result().receipt or "-"
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.UNAVAILABLE:
                raise
            call = buy.future(order, timeout=LIMIT_S)


calls = []
for i in range(orders):
    order = shop_pb2.BuyRequest(order_id=f"order-{run}-{i}", buyer_id=f"buyer-{run}-{i}",
                                sku=f"lamp-{run}-{i % shelves}", quantity=1)
    calls.append([(buy, order, buy.future(order, timeout=LIMIT_S)) for buy in buys])
for clicks in calls:
    print(*(receipt(*click) for click in clicks), flush=True)
