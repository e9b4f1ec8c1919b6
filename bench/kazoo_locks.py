"""Lock of python3-kazoo, for lock_stores.py: kazoo_locks.py HOSTS. Each line of standard input says how many threads,
whether each has its "own" lock or all want "one", for how many seconds, and a word for the name of that one. The answer
is how many locks were acquired and released in that time."""
import os
import sys
import threading
import time

from kazoo.client import KazooClient

WARM_UP_S = 0.5


def pass_on(client, path, begin, end, counts):
    lock, n = client.Lock(path), 0
    while time.monotonic() < end:
        lock.acquire()
        lock.release()
        n += begin <= time.monotonic() < end
    counts.append(n)


def main():
    client, counts = KazooClient(hosts=sys.argv[1], timeout=30), []
    client.start(timeout=30)
    print("ready", flush=True)
    for line in sys.stdin:
        n, kind, seconds, word = line.split()
        begin = time.monotonic() + WARM_UP_S
        end = begin + float(seconds)
        paths = ["/kazoo/" + (f"one-{word}" if kind == "one" else f"own-{os.getpid()}-{i}") for i in range(int(n))]
        threads = [threading.Thread(target=pass_on, args=(client, path, begin, end, counts)) for path in paths]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(sum(counts), flush=True)
        counts.clear()


if __name__ == "__main__":
    main()
