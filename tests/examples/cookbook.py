"""cookbook.py LOCKSTOCK LOCKSTOCKD BINARY_DIR SOURCE_DIR: runs what README.md and docs/cookbook.md have to be pasted, against a server of
its own.

A block of sh after "<!-- pasted -->" has to succeed, and to print the block of text that follows it, if one does. So do the blocks of Python
that import lockstock, and those of README.md after "<!-- pasted: python -->" and "<!-- pasted: node -->"."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

LOCKSTOCK, LOCKSTOCKD, BINARY, SOURCE = sys.argv[1:5]
sys.path.insert(0, f"{SOURCE}/tests/e2e")
from cli_scene import Server  # pylint: disable=wrong-import-position

PRINTED = "locked with fence N\ncharging order-1\npaid\ngo on\n"
PRINTED_AGAIN = "locked with fence N\npaid\ngo on\n"


def page(name):
    with open(f"{SOURCE}/{name}", encoding="utf-8") as file:
        return file.read()


class Pasted(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        server = Server(listen="tcp://127.0.0.1:0,grpc://127.0.0.1:0,http://127.0.0.1:0")
        self.addCleanup(server.stop)
        self.address = server.address
        # A copy of what the blocks of README.md use, since they write there.
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name
        shutil.copytree(f"{SOURCE}/examples", f"{self.directory}/examples")
        os.mkdir(f"{self.directory}/node_modules")

    def run_pasted(self, text):
        """Commands for packages and the build are left out: both are there."""
        text = re.sub(r"(?m)^(sudo |cmake |npm ci).*\n", "", text)
        text = re.sub(r"(\.\./)?build/release", lambda _: f"'{BINARY}'", text)
        for wire, port in (("tcp", 7700), ("grpc", 7701), ("http", 7702)):
            text = text.replace(f"127.0.0.1:{port}", self.address[wire])
        programs = f"{os.path.dirname(LOCKSTOCK)}:{os.path.dirname(LOCKSTOCKD)}"
        environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "LOCKSTOCKD": LOCKSTOCKD,
                       "LOCKSTOCK_SERVER": "tcp://" + self.address["tcp"]}
        ran = subprocess.run(["bash", "-euc", text], env=environment, cwd=self.directory, text=True, capture_output=True, timeout=100,
                             check=False)
        self.assertEqual(ran.returncode, 0, text + ran.stdout + ran.stderr)
        self.assertNotIn("see --help", ran.stderr)  # `|| echo` hides the exit code
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
        self.run_pasted(f"/usr/bin/python3 - <<'END'\n{programs[0]}END\n")

    def quickstart(self, language):
        (commands,) = re.findall(f"<!-- pasted: {language} -->\n```sh\n(.*?)```", page("README.md"), re.DOTALL)
        commands = f"{commands.rstrip()} grpc://{self.address['grpc']}"
        for expected in (PRINTED, PRINTED_AGAIN):
            self.assertEqual(re.sub(r"fence \d+", "fence N", self.run_pasted(commands)), expected)

    def test_the_readmes_python(self):
        self.quickstart("python")

    @unittest.skipUnless(os.path.isdir(f"{SOURCE}/node_modules/@grpc/grpc-js"), "needs npm install")
    def test_the_readmes_node(self):
        self.quickstart("node")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
