#!/usr/bin/python3
"""client.py [ADDRESS]: what client.c does, with the stubs that grpcio's own plugin makes of shop.proto."""
import sys

import grpc
import shop_pb2
import shop_pb2_grpc

WORDS = {
    shop_pb2.BUY_OUTCOME_BOUGHT: "bought",
    shop_pb2.BUY_OUTCOME_SOLD_OUT: "sold out",
    shop_pb2.BUY_OUTCOME_TOO_MANY: "too many",
    shop_pb2.BUY_OUTCOME_RUNS: "it runs",
    shop_pb2.BUY_OUTCOME_OTHER_ORDER: "another order's",
    shop_pb2.BUY_OUTCOME_BUSY: "busy",
}
shop = shop_pb2_grpc.ShopServiceStub(grpc.insecure_channel(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:7801"))


def add_stock(delivery):
    request = shop_pb2.AddStockRequest(delivery_id=delivery, sku="lamp", quantity=2)
    print(f"{delivery}: {shop.AddStock(request, timeout=10).left} left")


def buy(order, buyer, quantity):
    request = shop_pb2.BuyRequest(order_id=order, buyer_id=buyer, sku="lamp", quantity=quantity)
    print(f"{order}: {WORDS[shop.Buy(request, timeout=10).outcome]}")


add_stock("delivery-1")
add_stock("delivery-1")
buy("order-1", "ann", 2)
buy("order-1", "ann", 2)
buy("order-1", "bob", 1)
buy("order-2", "bob", 1)
response = shop.Cancel(shop_pb2.CancelRequest(order_id="order-1", sku="lamp"), timeout=10)
print("order-1: cancelled" if response.cancelled else "order-1: no such order")
buy("order-3", "bob", 1)
status = shop.Status(shop_pb2.StatusRequest(sku="lamp"), timeout=10)
print(f"{status.left} left, {status.sold} sold in {status.orders} orders")
