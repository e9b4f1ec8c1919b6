#!/usr/bin/python3
"""Makes the sdist, the wheel from it, and installs that into an empty environment: package.py SOURCE_DIR. Skipped (77) without
python3-venv, python3-wheel or python3-setuptools. Needs no network: grpcio and protobuf are those of the system."""
import glob
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile

for name in ("venv", "ensurepip", "setuptools", "wheel"):
    if importlib.util.find_spec(name) is None:
        print(f"skipped: {sys.executable} has no {name} (apt: python3-venv python3-wheel python3-setuptools)")
        sys.exit(77)


def run(*words, **more):
    subprocess.run(words, check=True, **more)


source = os.path.abspath(sys.argv[1])
with tempfile.TemporaryDirectory(prefix="lockstock-package-") as work:
    # setuptools writes beside its setup.py, so the tree is copied.
    tree = os.path.join(work, "tree")
    for part in ("clients/python", "proto", "rpc/include"):
        shutil.copytree(os.path.join(source, part), os.path.join(tree, part))
    run(sys.executable, "setup.py", "-q", "sdist", "--dist-dir", work, cwd=os.path.join(tree, "clients/python"))
    shutil.rmtree(tree)
    (sdist,) = glob.glob(os.path.join(work, "*.tar.gz"))
    shutil.unpack_archive(sdist, work)
    run(sys.executable, "setup.py", "-q", "bdist_wheel", "--dist-dir", work, cwd=sdist[:-len(".tar.gz")])
    (wheel,) = glob.glob(os.path.join(work, "*.whl"))
    run(sys.executable, "-m", "venv", "--system-site-packages", os.path.join(work, "env"))
    python = os.path.join(work, "env/bin/python3")
    run(python, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--disable-pip-version-check", wheel)
    run(python, "-c", "import lockstock, lockstock.testing, lockstock.v1.stock_pb2 as s, importlib.metadata as m, os, sys\n"
        "assert lockstock.__file__.startswith(sys.prefix), lockstock.__file__\n"
        "assert os.path.exists(os.path.join(os.path.dirname(lockstock.__file__), 'py.typed'))\n"
        "print(m.version('lockstock'), lockstock.connect('grpc://127.0.0.1:1').calls.stock)",
        env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"})
