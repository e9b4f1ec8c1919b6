"""The show as a web page on this machine: its files, the state as JSON, and the keys as buttons.

The address contains a random word, which no other page and no other user knows.
"""
import http.server
import json
import os
import queue
import secrets
import threading
import time

HERE = os.path.dirname(os.path.realpath(__file__))
FILES = {"": ("page.html", "text/html; charset=utf-8"), "page.js": ("page.js", "text/javascript; charset=utf-8"),
         "page.css": ("page.css", "text/css; charset=utf-8"),
         "console.css": ("../../console/console.css", "text/css; charset=utf-8"),
         "dom.js": ("../../console/dom.js", "text/javascript; charset=utf-8")}
POLICY = ("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; "
          "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'")
WATCHED_S = 2  # a page is open if it asked this recently


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, kind="text/plain", body=b""):
        self.send_response(status)
        for name, value in (("Content-Type", kind), ("Content-Length", str(len(body))), ("Cache-Control", "no-store"),
                            ("Content-Security-Policy", POLICY), ("X-Content-Type-Options", "nosniff"),
                            ("Referrer-Policy", "no-referrer")):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def path_below(self):
        """The path after the random word; None if the word is wrong."""
        word, _, rest = self.path[1:].partition("/")
        return rest if secrets.compare_digest(word.encode(), self.server.page.word.encode()) else None

    def do_GET(self):
        path, page = self.path_below(), self.server.page
        if path == "state":
            is_last = page.is_last  # before the state, which is set first
            self.answer(200, "application/json", page.state)
            page.asked_at, page.told_end = time.monotonic(), page.told_end or is_last
        elif path in FILES:
            name, kind = FILES[path]
            with open(os.path.join(HERE, name), "rb") as file:
                self.answer(200, kind, file.read())
        else:
            self.answer(404)

    def do_POST(self):
        path = self.path_below()
        if path is None or not path.startswith("press/"):
            self.answer(404)
            return
        self.server.page.pressed.put(path[len("press/"):])
        self.answer(204)

    def log_message(self, *args):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """Prints nothing when a browser disconnects."""


class Page:
    def __init__(self):
        self.word = secrets.token_hex(8)
        self.state, self.pressed = b"{}", queue.SimpleQueue()
        self.asked_at, self.is_last, self.told_end = 0, False, False
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.page = self
        self.url = f"http://127.0.0.1:{self.server.server_port}/{self.word}/"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def show(self, state, is_last=False):
        self.state, self.is_last = json.dumps(state).encode(), is_last

    def read_keys(self):
        keys = []
        while not self.pressed.empty():
            keys.append(self.pressed.get())
        return keys

    def is_open(self):
        """Returns whether a browser shows the page."""
        return time.monotonic() - self.asked_at < WATCHED_S

    def close(self):
        """Closes after an open page has shown the end."""
        while self.is_last and not self.told_end and self.is_open():
            time.sleep(0.05)
        self.server.shutdown()
        self.server.server_close()
