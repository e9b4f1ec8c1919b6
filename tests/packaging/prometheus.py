"""prometheus.py LOCKSTOCKD SOURCE_DIR: the alerts and the dashboard name metrics that exist, each alert fires, and a real
Prometheus reads a real server. Without Prometheus' programs only the names are checked."""
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import urllib.parse
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../support"))
from servers import Program, Server, wait_until  # noqa: E402

source = pathlib.Path(sys.argv[2])
alerts = source / "packaging/prometheus/alerts.yml"
dashboard = source / "packaging/grafana/lockstock.json"
known = set(re.findall(r"(?m)^\| `(\w+)`", (source / "docs/metrics.md").read_text()))
known |= {name + end for name in known for end in ("_bucket", "_sum", "_count")} | {"up"}


def named(text):
    """The metrics of an expression."""
    return set(re.findall(r"\b((?:grpc_server|lockstock|process)_\w+|up)\b(?=[\[{ ]|$)", text))


expressions = [t["expr"] for p in json.loads(dashboard.read_text())["panels"] for t in p.get("targets", [])]
expressions += [line for line in alerts.read_text().splitlines() if not re.search("^#|summary:|description:|job_name", line)]
used = set().union(*map(named, expressions))
assert len(used) > 20, used
assert used <= known, used - known
print(f"{len(used)} metrics are named and exist")
if not shutil.which("promtool") or not shutil.which("prometheus"):
    print("skipped: needs prometheus for the rest")
    sys.exit(0)
for check in (["check", "rules", alerts], ["test", "rules", source / "packaging/prometheus/alerts_test.yml"],
              ["check", "config", "--syntax-only", source / "packaging/prometheus/prometheus.yml"]):
    subprocess.run(["promtool", *map(str, check)], check=True, stdout=subprocess.DEVNULL)


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def read(url):
    with urllib.request.urlopen(url, timeout=60) as answer:
        return answer.read().decode()


def query(port, expression):
    answer = json.loads(read(f"http://127.0.0.1:{port}/api/v1/query?query={urllib.parse.quote(expression)}"))
    return [float(result["value"][1]) for result in answer["data"]["result"]]


with Server(sys.argv[1], listen="http://127.0.0.1:0") as server:
    text = read(f"{server.url}/metrics")
    subprocess.run(["promtool", "check", "metrics"], input=text, text=True, check=True)
    told = set(re.findall(r"(?m)^# TYPE (\w+)", text))
    assert told <= known, told - known
    port = free_port()
    config = pathlib.Path(server.dir, "prometheus.yml")
    config.write_text((source / "packaging/prometheus/prometheus.yml").read_text()
                      .replace("15s", "100ms").replace("127.0.0.1:7702", server.address["http"])
                      .replace("alerts.yml", str(alerts)))
    with Program("prometheus", f"--config.file={config}", "--storage.tsdb.path={dir}/tsdb",
                 f"--web.listen-address=127.0.0.1:{port}") as prometheus:
        def has_read_all():
            assert prometheus.process.poll() is None
            try:
                ready = query(port, 'lockstock_ready{job="lockstock"}')
            except OSError:
                return False
            return ready == [1] and len(query(port, "grpc_server_started_total")) >= 42

        wait_until(has_read_all)
        server.process.terminate()
        server.process.wait(60)  # a second signal at its end would end it at once
        wait_until(lambda: query(port, 'up{job="lockstock"}') == [0])
print("Prometheus read the server")
