"""Programs that a measurement starts: each writes into a file of a folder, and all end together."""
import os
import subprocess
import time


class Programs:
    def __init__(self, folder):
        self.folder, self.started = folder, []

    def start(self, name, *words, until):
        """Returns the process and what it has written, as soon as `until` is in that."""
        path = os.path.join(self.folder, name)
        with open(path, "w") as out:
            process = subprocess.Popen([str(word) for word in words], stdout=out, stderr=subprocess.STDOUT)
        self.started.append(process)
        while until not in (text := open(path).read()):
            if process.poll() is not None:
                raise SystemExit(f"{words[0]}: {text}")
            time.sleep(0.05)
        return process, text

    def end(self):
        for process in reversed(self.started):
            process.terminate()
            process.wait()
