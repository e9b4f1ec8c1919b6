"""errors.py LOCKSTOCKD: a lock store that cannot be reached: the errors of locks and of other services, /readyz, and
invalid settings."""
import json
import re
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request

DEAD = "zookeeper://127.0.0.1:1/locks"  # nothing listens there


def start(folder, *flags):
    server = subprocess.Popen([sys.argv[1], "--store", f"embedded:{folder}", "--listen", "http://127.0.0.1:0", *flags],
                              stderr=subprocess.PIPE, text=True)
    port = 0
    for line in server.stderr:
        found = re.search(r"event=listening url=http://127.0.0.1:(\d+)", line)
        port = int(found.group(1)) if found else port
        if re.search(r"event=ready\b", line):
            threading.Thread(target=server.stderr.read, daemon=True).start()
            return server, port
    raise SystemExit(f"not ready: exit {server.wait()}")


def call(port, method, request, namespace="default"):
    """(status, answer)"""
    asked = urllib.request.Request(f"http://127.0.0.1:{port}/lockstock.v1.{method}", json.dumps(request).encode(),
                                   {"Content-Type": "application/json", "lockstock-namespace": namespace})
    try:
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refused:
        return refused.code, json.load(refused)


def refuses_locks_and_serves_the_rest(folder):
    server, port = start(f"{folder}/a", "--lock-store", DEAD, "--lock-store-namespaces", "default")
    try:
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
    finally:
        server.terminate()
    assert server.wait(30) == 0


def refuses_wrong_settings(folder):
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
        ended = subprocess.run([sys.argv[1], "--check-config", "--store", f"embedded:{folder}/b", *flags],
                               capture_output=True, text=True)
        assert ended.returncode == 2, (flags, ended)
        assert words in ended.stdout + ended.stderr, (flags, ended)
    for url in ("zookeeper://h/zookeeper-locks", "zookeeper://user:password@h/p@x/y"):
        subprocess.run([sys.argv[1], "--check-config", "--store", f"embedded:{folder}/b", "--lock-store", url], check=True,
                       capture_output=True)


with tempfile.TemporaryDirectory() as folder:
    refuses_locks_and_serves_the_rest(folder)
    refuses_wrong_settings(folder)
