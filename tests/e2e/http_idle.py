"""http_idle.py LOCKSTOCKD: 10,000 idle connections of HTTP/1.1, after one call each, cost little and hold nobody up. Skipped (77)
where a process may not open as many descriptors."""
import http.client
import re
import resource
import subprocess
import sys
import tempfile
import threading

IDLE, ROOM, BYTES_EACH_MAX = 10000, 2000, 16384  # with the memory of sanitizers; a sixteenth of the room is for unix sockets
PATH = "/lockstock.v1.IdService/Next"


def ask(connection, path, body=None):
    connection.request("POST" if body else "GET", path, body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read().decode()
    if answer.status != 200:
        raise SystemExit(f"{path}: {answer.status} {text}")
    return text


def connect():
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.connect()
    return connection


def sample(name):
    return float(re.search(r"^" + re.escape(name) + r" (\S+)$", ask(watcher, "/metrics"), re.M)[1])


port = None
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
if hard < IDLE + ROOM:
    print(f"skipped: a process may open {hard} descriptors")
    sys.exit(77)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
with tempfile.TemporaryDirectory() as dir:
    server = subprocess.Popen([sys.argv[1], "--store", "embedded:" + dir + "/data", "--listen", "http://127.0.0.1:0",
                               "--connections", str(IDLE + ROOM), "--connections-per-address", str(IDLE + ROOM)],
                              stderr=subprocess.PIPE, text=True)
    try:
        for line in server.stderr:
            found = re.search(r"event=listening url=http://127.0.0.1:(\d+)", line)
            port = int(found[1]) if found else port
            if "event=ready" in line:
                break
        threading.Thread(target=server.stderr.read, daemon=True).start()
        watcher = connect()
        resident, gauge = sample("process_resident_memory_bytes"), 'lockstock_connections{wire="http"}'
        idle = []
        for _ in range(IDLE):
            idle.append(connect())
            ask(idle[-1], PATH, '{"kind":"ID_KIND_UUID_V7"}')
        if sample(gauge) != IDLE + 1:
            raise SystemExit(f"{sample(gauge)} connections")
        each = (sample("process_resident_memory_bytes") - resident) / IDLE
        print(f"{each:.0f} bytes for an idle connection")
        if each > BYTES_EACH_MAX:
            raise SystemExit("too many")
        for connection in idle[::100]:  # each still serves
            ask(connection, PATH, '{"kind":"ID_KIND_UUID_V7"}')
        for connection in idle:
            connection.close()
        while sample(gauge) > 1:
            pass
    finally:
        server.terminate()
        server.wait()
