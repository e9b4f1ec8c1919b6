"""The instrumented copy of the tree (build/mutants): its files, its catalog of mutants, its build."""
import hashlib
import json
import pathlib
import re
import shutil
import subprocess
import sys

import lua_operators
import operators

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
WORK = ROOT / "build" / "mutants"
SOURCE, BUILD = WORK / "source", WORK / "build"
CATALOG = WORK / "catalog.json"
MADE = ROOT / "build" / "asan"  # a build that has made the headers that the product includes
ROOM = 64  # ids are given to a file in multiples of this, so that a change of one file moves the ids of no other


def read_json(path, otherwise):
    return json.loads(path.read_text()) if path.exists() else otherwise


def write_json(path, what):
    path.parent.mkdir(parents=True, exist_ok=True)
    spare = path.with_suffix(".new")
    spare.write_text(json.dumps(what))
    spare.replace(path)


def write_if_other(path, text):
    if not path.exists() or path.read_bytes() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)


def files_of_tree():
    """The files of the working tree, not of the last commit."""
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                            capture_output=True, check=True, text=True).stdout
    return [file for file in listed.split("\0") if file and (ROOT / file).is_file()]


def give_ids(catalog, found):
    """{file: {"base", "room", "names", "excluded", "digest"}}; a file keeps its ids while they suffice."""
    top = max((entry["base"] + entry["room"] for entry in catalog.values()), default=0)
    for file, mutants in found.items():
        entry = catalog.get(file)
        if not entry or entry["room"] < len(mutants):
            room = (len(mutants) // ROOM + 1) * ROOM
            entry = catalog[file] = {"base": top, "room": room, "excluded": []}
            top += room
        entry["mutants"] = [[mutant.name, mutant.line] for mutant in mutants]
        for at, mutant in enumerate(mutants):
            mutant.id = entry["base"] + at
    for file in set(catalog) - set(found):
        del catalog[file]


def write_sources(catalog, found):
    files = files_of_tree()
    for stale in {path for path in SOURCE.rglob("*") if path.is_file()} - {SOURCE / file for file in files}:
        stale.unlink()
    for file in files:
        text = (ROOT / file).read_bytes()
        if file in found:
            entry = catalog[file]
            kept = [mutant for mutant in found[file] if mutant.name not in entry["excluded"]]
            entry["digest"] = hashlib.sha1(text).hexdigest()
            head = f'#include "{HERE / "mutant.h"}"\n#line 1 "{SOURCE / file}"\n'
            text = head.encode() + operators.instrumented(text, kept)
        write_if_other(SOURCE / file, text)
        shutil.copymode(ROOT / file, SOURCE / file)


def exclude_faults(catalog, found, log):
    """Mutants on lines that do not compile are left out: lines of the copy are those of the file."""
    faults = {(file, int(line)) for file, line in re.findall(r"source/([\w./-]+):(\d+):\d+: error:", log)}
    n = 0
    for file, line in faults:
        for mutant in found.get(file, []):
            last = mutant.line + (ROOT / file).read_bytes()[mutant.begin:mutant.end].count(b"\n")
            if mutant.line <= line <= last and mutant.name not in catalog[file]["excluded"]:
                catalog[file]["excluded"].append(mutant.name)
                n += 1
    return n


def configure():
    command = ["cmake", "-S", SOURCE, "-B", BUILD, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug", "-DLOCKSTOCK_WERROR=OFF",
               "-DLOCKSTOCK_SANITIZE=address,undefined", "-DCMAKE_C_FLAGS=-w"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def mutants_of(files=None):
    """The mutants of C and Lua of those files, or of all, by file."""
    found = operators.mutants_of(ROOT, MADE, files)
    found.update(lua_operators.mutants_of(ROOT, files))
    return found


def build(jobs):
    """Makes the copy and builds it. Returns the catalog."""
    catalog = read_json(CATALOG, {})
    found = operators.mutants_of(ROOT, MADE)
    give_ids(catalog, found)
    for _ in range(8):
        write_sources(catalog, found)
        write_json(CATALOG, catalog)
        configure()
        done = subprocess.run(["cmake", "--build", BUILD, "--", f"-j{jobs}", "-k0"], capture_output=True, text=True,
                              check=False)
        if done.returncode == 0:
            return catalog
        if exclude_faults(catalog, found, done.stdout + done.stderr) == 0:
            break
    sys.exit(f"the copy does not build:\n{(done.stdout + done.stderr)[-8000:]}")

