"""grpcio, as Debian has it, with modules of .proto files. The program that imports this is skipped (77) where it is missing."""
import importlib.util
import os
import subprocess
import sys
import tempfile

try:
    import grpc
    import google.protobuf  # noqa: F401
except ImportError as missing:
    print(f"skipped: {sys.executable} has no {missing.name} (apt: python3-grpcio, python3-protobuf)")
    sys.exit(77)


def load(roots, *names):
    """Returns the module of NAME.proto for each name. What these import must be named, too."""
    with tempfile.TemporaryDirectory() as stubs:
        subprocess.run(["protoc", *(f"-I{root}" for root in roots), f"--python_out={stubs}",
                        *(f"{name}.proto" for name in names)], check=True)
        sys.path.insert(0, stubs)
        modules = []
        for name in names:  # by their files: the package `grpc` is grpcio's own
            spec = importlib.util.spec_from_file_location(name.replace("/", "_"), f"{stubs}/{name}_pb2.py")
            modules.append(importlib.util.module_from_spec(spec))
            spec.loader.exec_module(modules[-1])
        sys.path.remove(stubs)
        return modules
