"""A program at a terminal, for tests in Python."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time

from servers import LIMIT_S


class Terminal:
    """A program at a terminal of its own, which it controls."""

    def __init__(self, *args, env, rows=24, columns=100, kind="xterm"):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            os.execvpe(args[0], args, {**env, "TERM": kind})
        self.text = ""
        self.status = None

    def read(self):
        """False at the end."""
        try:
            data = os.read(self.fd, 65536)
        except OSError:
            return False
        self.text += data.decode(errors="replace")
        return bool(data)

    def wait(self, pattern, at=0):
        """What matches behind `at`, once it is there."""
        return self.read_until(lambda: re.compile(pattern).search(self.text, at), at)

    def read_until(self, condition, at=0):
        deadline = time.monotonic() + LIMIT_S
        while not (found := condition()):
            left = deadline - time.monotonic()
            assert left > 0 and select.select([self.fd], [], [], left)[0] and self.read(), repr(self.text[at:][-3000:])
        return found

    def type(self, keys):
        os.write(self.fd, keys.encode())

    def resize(self, rows, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def end(self):
        """Its exit code, or minus the signal, once it ends by itself. `settings` are then those that it left."""
        deadline = time.monotonic() + LIMIT_S
        while select.select([self.fd], [], [], max(0, deadline - time.monotonic()))[0] and self.read():
            pass
        assert time.monotonic() < deadline, repr(self.text)
        self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        self.settings = termios.tcgetattr(self.fd)
        os.close(self.fd)
        return self.status

    def close(self):
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            os.close(self.fd)
