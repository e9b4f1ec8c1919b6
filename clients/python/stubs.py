"""Makes the package's modules from lockstock's .proto files: stubs.py PROTO_DIR PACKAGE_DIR.

protoc makes the messages and their types. _methods.py gets a class a service, with a method a call, and the options by
which calls are repeated stay where they are: in the descriptors (lockstock/_calls.py reads them)."""
import keyword
import os
import re
import subprocess
import sys
import tempfile

from google.protobuf import descriptor_pb2

SERVICES = ("lock", "stock", "idempotency", "ratelimit", "id", "guard", "admin")
ATTRIBUTES = {"idempotency": "idempotency", "ratelimit": "rate_limit"}
HEAD = '''"""Made by stubs.py from the .proto files. A method raises CallError; docs: the .proto file of its service."""
# mypy: disable-error-code=no-any-return
from __future__ import annotations

from typing import Optional

from lockstock._calls import Caller, methods_of
from lockstock.v1 import {modules}
'''


def snake(name):
    word = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
    return word + "_" if keyword.iskeyword(word) else word


def write_service(out, module, service, kind):
    awaits, prefix = ("async ", "Async") if kind else ("", "")
    out.append(f"\n\nclass {prefix}{service.name}:\n    def __init__(self, caller: Caller) -> None:\n"
               f"        self._caller = caller\n")
    for method in service.method:
        request, response = (name.rsplit(".", 1)[1] for name in (method.input_type, method.output_type))
        call = f"self._caller.call(_{module.upper()}[\"{method.name}\"], request, timeout, insist)"
        body = f"return await {call}" if kind else f"return self._caller.run({call})"
        out.append(f"\n    {awaits}def {snake(method.name)}(self, request: {module}_pb2.{request}, *, "
                   f"timeout: Optional[float] = None,\n            insist: bool = False) -> {module}_pb2.{response}:\n"
                   f"        {body}\n")


def write_methods(descriptors):
    out = [HEAD.format(modules=", ".join(f"{name}_pb2" for name in SERVICES))]
    for module in SERVICES:
        out.append(f"\n_{module.upper()} = methods_of({module}_pb2)")
    out.append("\n")
    found = {file.name.rsplit("/", 1)[1][:-len(".proto")]: file.service[0] for file in descriptors.file if file.service}
    for kind in (False, True):
        for module in SERVICES:
            write_service(out, module, found[module], kind)
        prefix = "Async" if kind else ""
        out.append(f"\n\nclass {prefix}Calls:\n    \"\"\"All methods of all services.\"\"\"\n\n"
                   f"    def __init__(self, caller: Caller) -> None:\n")
        for module in SERVICES:
            out.append(f"        self.{ATTRIBUTES.get(module, module)} = {prefix}{found[module].name}(caller)\n")
    return "".join(out)


def make(proto_dir, package_dir):
    root = os.path.dirname(os.path.abspath(package_dir))
    files = [f"lockstock/v1/{name}.proto" for name in SERVICES] + ["lockstock/rpc/v1/options.proto"]
    with tempfile.TemporaryDirectory() as temporary:
        set_file = os.path.join(temporary, "set")
        subprocess.run(["protoc", f"-I{proto_dir}", f"--python_out={root}", f"--pyi_out={root}",
                        f"--descriptor_set_out={set_file}", *files], check=True)
        with open(set_file, "rb") as file:
            descriptors = descriptor_pb2.FileDescriptorSet.FromString(file.read())
    here = os.path.dirname(os.path.abspath(__file__))
    subprocess.run(["protoc", f"-I{here}", f"--python_out={root}", f"--pyi_out={root}", "lockstock/_status.proto"], check=True)
    for folder in ("v1", "rpc", "rpc/v1"):
        with open(os.path.join(package_dir, folder, "__init__.py"), "w", encoding="utf-8"):
            pass
    with open(os.path.join(package_dir, "_methods.py"), "w", encoding="utf-8") as file:
        file.write(write_methods(descriptors))


if __name__ == "__main__":
    make(*sys.argv[1:3])
