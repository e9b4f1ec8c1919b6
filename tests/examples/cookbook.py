"""cookbook.py LOCKSTOCKD BINARY_DIR SOURCE_DIR: runs what README.md and docs/cookbook.md have to be pasted, against a server of its own.

A block of sh after "<!-- pasted -->" has to succeed, and to print the block of text that follows it, if one does. So do the blocks of Python
that import lockstock, and those of README.md after "<!-- pasted: python -->" and "<!-- pasted: node -->"."""
import os
import re
import subprocess
import sys
import tempfile
import unittest

LOCKSTOCKD, BINARY, SOURCE = sys.argv[1:4]
sys.path.insert(0, f"{BINARY}/clients/python")
LINES = "locked with fence N\ncharging order-1\npaid\ngo on\n"


def page(name):
    with open(f"{SOURCE}/{name}", encoding="utf-8") as file:
        return file.read()


class Pasted(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.server = subprocess.Popen(
            [LOCKSTOCKD, *(f"--listen={wire}://127.0.0.1:0" for wire in ("tcp", "grpc", "http")), f"--store=embedded:{directory.name}/data"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(self.server.stdout.close)
        self.addCleanup(self.server.wait)
        self.addCleanup(self.server.terminate)
        self.address = {}
        for line in self.server.stdout:
            self.address.update(re.findall(r"event=listening url=(\w+)://(\S+)", line))
            if "event=ready" in line:
                break

    def run_pasted(self, text):
        """Commands for Debian's packages and the build are left out: both are there."""
        text = re.sub(r"(?m)^(sudo |cmake |npm ci).*\n", "", text).replace("build/release", os.path.relpath(BINARY, SOURCE))
        for wire, port in (("tcp", 7700), ("grpc", 7701), ("http", 7702)):
            text = text.replace(f"127.0.0.1:{port}", self.address[wire])
        environment = {**os.environ, "PATH": f"{BINARY}/cli:{BINARY}/server:{os.environ['PATH']}", "LOCKSTOCKD": LOCKSTOCKD,
                       "LOCKSTOCK_SERVER": "tcp://" + self.address["tcp"], "PYTHONPATH": f"{BINARY}/clients/python"}
        ran = subprocess.run(["bash", "-euc", text], env=environment, cwd=SOURCE, text=True, capture_output=True, timeout=100, check=False)
        self.assertEqual(ran.returncode, 0, text + ran.stdout + ran.stderr)
        return ran.stdout

    def test_the_cookbook(self):
        blocks = re.findall(r"<!-- pasted -->\n```sh\n(.*?)```\n(?:```text\n(.*?)```\n)?", page("docs/cookbook.md"), re.DOTALL)
        self.assertGreater(len(blocks), 7)
        for commands, expected in blocks:
            told = self.run_pasted(commands)
            if expected:
                self.assertEqual(told, expected, commands)

    def test_the_cookbooks_python(self):
        programs = [block for block in re.findall(r"```python\n(.*?)```", page("docs/cookbook.md"), re.DOTALL) if "import lockstock" in block]
        self.assertEqual(len(programs), 1)
        for program in programs:
            self.run_pasted(f"/usr/bin/python3 - <<'END'\n{program}END\n")

    def quickstart(self, language, arguments):
        (commands,) = re.findall(f"<!-- pasted: {language} -->\n```sh\n(.*?)```", page("README.md"), re.DOTALL)
        for _ in range(2):
            told = re.sub(r"fence \d+", "fence N", self.run_pasted(commands.rstrip() + arguments))
        self.assertEqual(told, LINES.replace("charging order-1\n", ""))  # it was charged the first time

    def test_the_readmes_python(self):
        self.quickstart("python", f" grpc://{self.address['grpc']}")

    @unittest.skipUnless(os.path.isdir(f"{SOURCE}/node_modules/@grpc/grpc-js"), "needs npm install")
    def test_the_readmes_node(self):
        self.quickstart("node", f" grpc://{self.address['grpc']}")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
