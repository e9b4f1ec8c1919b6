import sys

import lockstock

url = sys.argv[1] if len(sys.argv) > 1 else "grpc://127.0.0.1:7701"
with lockstock.connect(url) as ls:
    with ls.lock("report", lease=10, wait=2) as held:   # renewed until the end of the block
        print("locked with fence", held.fence)

    ls.stock.put("phone", 500)
    ls.stock.deduct("order-1", {"phone": 1})            # the same order sells once, however often it is sent

    @ls.once("pay", key=lambda order: order)            # the second caller gets the first one's result
    def charge(order):
        print("charging", order)
        return "paid"
    print(charge("order-1"))

    print("go on" if ls.limit("alice", limit=5, period=60) else "too often")
