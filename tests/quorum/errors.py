"""errors.py LOCKSTOCKD: a lock store that cannot be reached: the errors of locks and of other services, /readyz, and
invalid settings."""
import json
import os
import subprocess
import sys
import urllib.error
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../support"))
from servers import Server  # noqa: E402

DEAD = "zookeeper://127.0.0.1:1/locks"  # nothing listens there


def call(port, method, request, namespace="default"):
    """(status, answer)"""
    asked = urllib.request.Request(f"http://127.0.0.1:{port}/lockstock.v1.{method}", json.dumps(request).encode(),
                                   {"Content-Type": "application/json", "lockstock-namespace": namespace})
    try:
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refused:
        return refused.code, json.load(refused)


def refuses_locks_and_serves_the_rest():
    with Server(sys.argv[1], "--lock-store", DEAD, "--lock-store-namespaces", "default", listen="http://127.0.0.1:0") as server:
        port = server.port("http")
        acquire = {"targets": [{"name": "x"}], "leaseMs": 1000}
        status, answer = call(port, "LockService/Acquire", acquire)
        assert (status, answer["code"]) == (503, "unavailable"), answer
        assert answer["message"].startswith("the lock store is unreachable"), answer
        assert call(port, "StockService/PutItem", {"group": "g", "sku": "a", "onHand": 1})[0] == 200
        assert call(port, "LockService/Acquire", acquire, "another")[1]["outcome"] == "ACQUIRE_OUTCOME_ACQUIRED"
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz") as answer:
            ready = json.load(answer)
        assert ready["ready"] and [r["about"] for r in ready["reasons"]] == ["lock-store"], ready
        assert ready["reasons"][0]["text"].startswith("the lock store is unreachable"), ready


def refuses_wrong_settings():
    for flags, words in {
        ("--lock-store", "redis://x/y"): "--lock-store: must be zookeeper://",
        ("--lock-store", "zookeeper://h"): "--lock-store: must be zookeeper://",
        ("--lock-store", "zookeeper://h/"): "--lock-store: must be zookeeper://",
        ("--lock-store", "zookeeper://h/zookeeper/a"): "a path other than ZooKeeper's own",
        ("--lock-store", "zookeeper:///path"): "--lock-store: '' is not host:port",
        ("--lock-store", "zookeeper://h,h2:x/path"): "--lock-store: 'h2:x' is not host:port",
        ("--lock-store", "zookeeper://h:0/path"): "--lock-store: 'h:0' is not host:port",
        ("--lock-store", "zookeeper://[::1/path"): "--lock-store: '[::1' is not host:port",
        ("--lock-store", "zookeeper://h,::1/path"): "--lock-store: '::1' is not host:port",
        ("--lock-store", "zookeeper://h,/path"): "--lock-store: '' is not host:port",
        ("--lock-store", "zookeeper://h/path/"): "--lock-store: '/path/' is not the path of a node",
        ("--lock-store", "zookeeper://user@h/path"): "--lock-store: the credentials must be user:password",
        ("--lock-store-namespaces", "a"): "--lock-store-namespaces needs --lock-store",
        ("--lock-store", DEAD, "--lock-store-namespaces", "a,b/c"): "--lock-store-namespaces b/c: may have",
    }.items():
        ended = subprocess.run([sys.argv[1], "--check-config", "--store", f"embedded:/nonexistent/data", *flags],
                               capture_output=True, text=True)
        assert ended.returncode == 2, (flags, ended)
        assert words in ended.stdout + ended.stderr, (flags, ended)
    for url in ("zookeeper://h/zookeeper-locks", "zookeeper://user:password@h/p@x/y"):
        subprocess.run([sys.argv[1], "--check-config", "--store", f"embedded:/nonexistent/data", "--lock-store", url], check=True,
                       capture_output=True)


refuses_locks_and_serves_the_rest()
refuses_wrong_settings()
