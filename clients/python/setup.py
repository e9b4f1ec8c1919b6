"""Builds the package: protoc makes the messages and methods from lockstock's .proto files. An sdist contains the result."""
import os
import re
import shutil

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

import stubs

HERE = os.path.dirname(os.path.abspath(__file__))
PROTO = os.path.join(HERE, "../../proto")
MADE = os.path.join(HERE, "made/lockstock")  # only in an sdist


def version():
    """The version of the whole project; an sdist has it in PKG-INFO."""
    if os.path.isdir(PROTO):
        with open(os.path.join(HERE, "../../rpc/include/lockstock/version.h"), encoding="utf-8") as file:
            return re.search(r'LOCKSTOCK_VERSION +"([0-9.]+)', file.read()).group(1)
    with open(os.path.join(HERE, "PKG-INFO"), encoding="utf-8") as file:
        return re.search(r"^Version: (.*)$", file.read(), re.M).group(1)


class BuildPy(build_py):
    def run(self):
        super().run()
        package = os.path.join(self.build_lib, "lockstock")
        if os.path.isdir(PROTO):
            stubs.make(PROTO, package)
        else:
            shutil.copytree(MADE, package, dirs_exist_ok=True)


class Sdist(sdist):
    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, files)
        made = os.path.join(base_dir, "made/lockstock")
        os.makedirs(made)
        stubs.make(PROTO, made)


setup(name="lockstock", version=version(), description="Locks, stock, idempotency, rate limits and ids from lockstockd",
      long_description=open(os.path.join(HERE, "README.md"), encoding="utf-8").read(),
      long_description_content_type="text/markdown", packages=["lockstock"],
      package_data={"lockstock": ["py.typed", "_status.proto"]}, python_requires=">=3.9",
      install_requires=["grpcio>=1.51", "protobuf>=4.21"], cmdclass={"build_py": BuildPy, "sdist": Sdist})
