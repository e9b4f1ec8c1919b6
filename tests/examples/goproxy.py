"""goproxy.py DIRECTORY: Debian's Go packages as a module proxy of files, for GOPROXY=file://DIRECTORY without a network.

Each module has one version and requires nothing: `go mod tidy` finds what is imported."""
import os
import sys
import zipfile

SOURCES = "/usr/share/gocode/src"
MODULES = {"google.golang.org/grpc": "v1.33.2", "google.golang.org/protobuf": "v1.28.1", "github.com/golang/protobuf": "v1.5.2",
           "google.golang.org/genproto": "v0.0.0-20200413115906-b5235f65be36", "golang.org/x/net": "v0.7.0",
           "golang.org/x/sys": "v0.3.0", "golang.org/x/text": "v0.7.0"}

for module, version in MODULES.items():
    at = os.path.join(sys.argv[1], module, "@v")
    os.makedirs(at)
    for name, text in (("list", version), (f"{version}.info", f'{{"Version":"{version}"}}'), (f"{version}.mod", f"module {module}\n\ngo 1.19\n")):
        with open(os.path.join(at, name), "w", encoding="utf-8") as file:
            file.write(text)
    with zipfile.ZipFile(os.path.join(at, f"{version}.zip"), "w") as archive:
        for directory, _, files in os.walk(os.path.join(SOURCES, module)):
            for name in files:
                path = os.path.join(directory, name)
                if name.endswith((".go", ".s")) and not name.endswith("_test.go"):
                    archive.write(path, f"{module}@{version}/{os.path.relpath(path, os.path.join(SOURCES, module))}")
