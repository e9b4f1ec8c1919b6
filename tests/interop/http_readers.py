"""http_readers.py LOCKSTOCKD SOURCE_DIR N: N mutated requests to nginx, to Node and to lockstockd. lockstockd may not read a request in
bytes that both others refuse, nor more requests than both find. Prints how often each is stricter. Skipped (77) without
nginx or Node."""
import collections
import os
import pathlib
import random
import re
import shutil
import socket
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../support"))
from servers import Program, Server  # noqa: E402

HOST = b"Host: localhost\r\nContent-Type: application/json\r\n"
PATH = b"/lockstock.v1.StockService/GetItem"
SEEDS = [seed.replace(b"/x", PATH) for seed in (
    b"GET /x HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET /x?a=b%20c HTTP/1.1\r\n" + HOST + b"Accept: */*\r\nX-A: b, c\r\n\r\n",
    b"POST /x HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\n\r\n{\"a\"}",
    b"POST /x HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n0a\r\n0123456789\r\n0\r\n\r\n",
    b"POST /x HTTP/1.1\r\n" + HOST + b"Content-Length: 3\r\n\r\nabcGET /x HTTP/1.1\r\n" + HOST + b"\r\n",
    b"POST /x HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\nGET /x HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET /x HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    b"PUT /x HTTP/1.1\r\n" + HOST + b"Content-Length: 0\r\nConnection: close\r\n\r\n",
)]
BYTES = [bytes([b]) for b in b"\r\n\t :,;=/0159aAfFxX\0\x01\x0b\x7f\x80\xff-+\"#%"]
LINES = [b"Content-Length: 3\r\n", b"content-length : 3\r\n", b"Content-Length: 3, 3\r\n", b"Content-Length: +3\r\n", HOST,
         b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: identity\r\n", b"Transfer-Encoding : chunked\r\n",
         b"Transfer-Encoding:\tchunked\r\n", b"Transfer-Encoding: chunked, chunked\r\n", b"X-A: b\r\n c\r\n", b"X-A\r\n",
         b": a\r\n", b"X A: b\r\n", b"X-A: a\rb\r\n", b"X-A: b\n", b"Expect: 100-continue\r\n"]
# lockstockd's answer to bytes that are no request.
FRAMING = re.findall(r'(?:refused\(\d+, |no_cr\[\] = )"([^"]+)"', pathlib.Path(sys.argv[2], "net/http/http1.c").read_text())


def mutate(rng):
    data = rng.choice(SEEDS)
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = rng.randrange(len(data))
        kind = rng.randrange(7)
        lines = re.split(rb"(?<=\n)", data)
        i = rng.randrange(len(lines))
        if kind == 0:
            data = data[:at] + data[at + 1:]
        elif kind == 1:
            data = data[:at] + rng.choice(BYTES) + data[at:]
        elif kind == 2:
            data = data[:at] + rng.choice(BYTES) + data[at + 1:]
        elif kind == 3:
            data = b"".join(lines[:i] + [rng.choice(LINES)] + lines[i:])
        elif kind == 4:
            data = b"".join(lines[:i] + lines[i + 1:]) or data
        elif kind == 5:
            data = b"".join(lines[:i] + [lines[i]] + lines[i:])
        else:
            data = data.replace(b"\r\n", b"\n", 1)
    return data


def answers(port, data):
    with socket.create_connection(("127.0.0.1", port), timeout=60) as sock:
        got = b""
        try:
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
            while more := sock.recv(65536):
                got += more
        except OSError:  # a connection that is reset has sent its answer
            pass
    return got.decode("latin1")


def first_answer(port, data):
    """Without an end of the request's side, which a server may take for the end of the connection."""
    got = b""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as sock:
        sock.sendall(data)
        while b"\r\n\r\n" not in got and (more := sock.recv(65536)):
            got += more
        while (length := re.search(rb"(?i)content-length: (\d+)", got)) and \
                len(got.split(b"\r\n\r\n", 1)[1]) < int(length[1]) and (more := sock.recv(65536)):
            got += more
    return got.decode("latin1")


def count_read(text, asked_to_close=False):
    """How many requests a server took to be complete."""
    n = 0
    for answer in re.split(r"(?=HTTP/1\.[01] \d{3} )", text)[1:]:
        status = int(answer[9:12])
        said = re.search(r'"message":"((?:[^"\\\\]|\\\\.)*)"', answer)
        framing = said and said[1] in FRAMING
        early = "Connection: close" in answer and not asked_to_close  # before it has read a body
        n += status == 204 or (bool(said) and not framing and not early)
    return n


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


nginx = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
if not nginx or not shutil.which("node"):
    print("skipped: needs nginx and node")
    sys.exit(77)
program = ("const s = require('http').createServer((q, a) => { q.on('end', () => { a.statusCode = 204; a.end() }); q.resume() });"
           "s.listen(0, '127.0.0.1', () => console.log('port', s.address().port))")
with tempfile.TemporaryDirectory() as dir, Program("node", "-e", program) as in_node, \
        Server(sys.argv[1], listen="http://127.0.0.1:0") as server:
    nginx_port = free_port()
    pathlib.Path(dir, "nginx.conf").write_text(
        f"daemon off; pid {dir}/pid; error_log stderr crit; events {{ worker_connections 256; }}\n"
        f"http {{ access_log off; client_body_temp_path {dir}; proxy_temp_path {dir}; fastcgi_temp_path {dir};"
        f" uwsgi_temp_path {dir}; scgi_temp_path {dir}; client_body_in_single_buffer on;"
        f" server {{ listen 127.0.0.1:{nginx_port}; location / {{ return 204; }} }} }}\n")
    with Program(nginx, "-p", dir, "-c", f"{dir}/nginx.conf") as in_nginx:
        while socket.socket().connect_ex(("127.0.0.1", nginx_port)) != 0:
            assert in_nginx.process.poll() is None
        ports = [nginx_port, int(in_node.await_log(r"port (\d+)")[1]), server.port("http")]
        rng = random.Random(20)
        for seed in SEEDS:
            for port in ports:
                assert count_read(first_answer(port, seed), True), (port, seed)
        requests = [*SEEDS, *(mutate(rng) for _ in range(int(sys.argv[3])))]
        with ThreadPoolExecutor(8) as pool:
            results = list(zip(*(pool.map(lambda data, port=port: answers(port, data), requests) for port in ports)))
tally, wrong = collections.Counter(), []
for data, statuses in zip(requests, results):
    by_nginx, by_node, ours = (count_read(text, b"close" in data.split(b"\r\n\r\n")[0]) for text in statuses)
    tally["all three agree"] += by_nginx == by_node == ours
    tally["lockstockd reads fewer than nginx"] += ours < by_nginx
    tally["lockstockd reads fewer than Node"] += ours < by_node
    tally["lockstockd reads more than nginx"] += ours > by_nginx
    tally["lockstockd reads more than Node"] += ours > by_node
    if ours > by_nginx and ours > by_node:
        wrong.append((data, statuses))
for what, n in tally.items():
    print(f"{what}: {n} of {len(requests)}")
for data, statuses in wrong[:10]:
    print("lockstockd alone reads", data, dict(zip(("nginx", "Node", "lockstockd"), statuses)))
sys.exit(1 if wrong else 0)
