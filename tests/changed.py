#!/usr/bin/python3
"""Builds and runs the tests that a change can break: ./test.sh --changed [base].

A test can break when a changed file is among its inputs: what its programs are built from, its script, and what the
script imports. The build directory knows the first (build.ninja and what the compiler read). A file that is no input of
a program, such as a page, belongs to the tests whose sources name it.

If all of them would take longer than --seconds, those run that are most likely to notice, and the others are left to
./test.sh. First come tests that are changed themselves, which always run, then tests named for a changed file, then
tests that reach it by build/mutants/trace.json (tests/mutations/mutate.py trace), most of it in the least time first,
then the quickest.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "mutations"))

import runner  # noqa: E402

SOURCES = (".c", ".py", ".lua", ".sh")
MADE = re.compile(r"\.(o|a|so[.\d]*)$|/[^.]+$")  # objects, libraries and programs
COMPILE_S, LINK_S, UNKNOWN_S = 1.2, 0.6, 5.0
IMPORT = re.compile(r"""^\s*(?:from (\w+) import|import (\w+)|require ?\(?["'](\w+)["']|\. .*?(\w+)\.sh)""", re.M)


def output_of(*command):
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def changed_files(base):
    if not base:
        done = subprocess.run(["git", "merge-base", "main", "HEAD"], cwd=ROOT, capture_output=True, text=True,
                              check=False)
        base = done.stdout.strip() or "HEAD"
    listed = output_of("git", "diff", "--name-only", "-z", base) + \
        output_of("git", "ls-files", "-z", "--others", "--exclude-standard")
    return sorted(file for file in listed.split("\0") if file)


class Graph:
    """Which output is built from which inputs: absolute paths."""

    def __init__(self, build):
        self.build = build
        self.inputs = collections.defaultdict(set)
        text = (build / "build.ninja").read_text().replace("$\n", "")
        for line in re.findall(r"^build (.*)$", text, re.M):
            self.add_edge([word.replace("\0", " ").replace("\1", ":")
                           for word in line.replace("$ ", "\0").replace("$:", "\1").replace(":", " : ", 1).split()])
        for block in re.split(r"\n\n", output_of("ninja", "-C", str(build), "-t", "deps")):
            lines = block.splitlines()
            if len(lines) > 1:
                self.inputs[self.path(lines[0].split(":")[0])].update(self.path(line.strip()) for line in lines[1:])
        self.memo = {}

    def path(self, name):
        return os.path.normpath(os.path.join(self.build, name))

    def add_edge(self, words):
        colon = words.index(":")
        outputs = [word for word in words[:colon] if word != "|"]
        ordered = words.index("||") if "||" in words else len(words)
        inputs = [word for word in words[colon + 2:ordered] if word != "|"]
        # Programs that a test starts are ordered before it only.
        if "EXECUTABLE" in words[colon + 1] or words[colon + 1] == "phony":
            inputs += words[ordered + 1:]
        for output in outputs:
            self.inputs[self.path(output)].update(map(self.path, inputs))

    def imports(self, path):
        """Files that a script names: modules beside it or in lib/, and files by their names."""
        text = pathlib.Path(path).read_text(errors="replace")
        here = pathlib.Path(path).parent
        for match in IMPORT.finditer(text):
            name = next(group for group in match.groups() if group)
            for place in (here, here.parent / "lib", here / "lib", here.parent / "support"):
                for suffix in (".py", ".lua", ".sh"):
                    if (place / (name + suffix)).exists():
                        yield str(place / (name + suffix))

    def closure(self, path):
        """The path and all that it is made from."""
        seen, todo = set(), [path]
        while todo:
            one = todo.pop()
            if one in seen:
                continue
            seen.add(one)
            if one not in self.memo:
                more = set(self.inputs.get(one, ()))
                if one.endswith((".py", ".lua", ".sh")) and one.startswith(str(ROOT)) and os.path.exists(one):
                    more.update(self.imports(one))
                self.memo[one] = more
            todo.extend(self.memo[one])
        return seen


def read_trace():
    trace = ROOT / "build" / "mutants" / "trace.json"
    return json.loads(trace.read_text()) if trace.exists() else {}


def read_tests(build, traced):
    """{name: the test, with the seconds that it usually takes}."""
    costs = {name: one["seconds"] for name, one in traced.items()}
    cost_file = build / "Testing" / "Temporary" / "CTestCostData.txt"
    if cost_file.exists():
        lines = [line.split() for line in cost_file.read_text().splitlines()]
        costs.update((words[0], float(words[2])) for words in lines if len(words) == 3)
    tests = {test["name"]: test for test in runner.tests_of(build, skipped=("gen/missing_handler",))}
    for name, test in tests.items():
        test["seconds"] = costs.get(name, UNKNOWN_S)
    return tests


def names_directory_of(words, files, build):
    """Whether a directory among the words of a command, other than the tree and its build, holds one of the files."""
    for word in words:
        path = pathlib.Path(word)
        if path.is_absolute() and path.is_dir() and path not in (ROOT, build) and ROOT in path.parents:
            if any(path in file.parents for file in files):
                return True
    return False


def own_sources(closure):
    """The files of a closure that are below tests/."""
    return {path for path in closure if path.startswith(f"{ROOT}/tests/") and path.endswith(SOURCES)}


def affected(tests, graph, files):
    """{test: closure} of the tests that have one of the files among their inputs."""
    paths = {str(ROOT / file) for file in files}
    closures = {}
    for name, test in tests.items():
        closure = closures[name] = set()
        for word in test["command"]:
            if os.path.isabs(word) and os.path.isfile(word) or graph.path(word) in graph.inputs:
                closure |= graph.closure(graph.path(word))
    data = [file for file in files if not any(str(ROOT / file) in closure for closure in closures.values())]
    names = "|".join(re.escape(pathlib.PurePath(file).name) for file in data)
    names = re.compile(rf"\b({names})\b" if data else "$^")
    naming = {path for path in set().union(*map(own_sources, closures.values()))
              if names.search(pathlib.Path(path).read_text(errors="replace"))}
    for name in sorted(closures):
        of_all = name == "docs/links" and any(file.endswith(".md") for file in files) or \
            name == "docs/promises" and any(file.startswith("tests/") for file in files) or \
            name == "mutations/rows" and any(file.endswith((".c", ".lua")) for file in files)
        if not of_all and not closures[name] & (paths | naming) and \
                not names_directory_of(tests[name]["command"], [ROOT / file for file in files], graph.build):
            del closures[name]
    return closures


def is_changed(closure, files):
    """Whether a file of the test itself has changed."""
    return any(os.path.relpath(path, ROOT) in files for path in own_sources(closure))


def ranks(closures, tests, traced, files):
    """Tests in the order in which they should run."""
    reach = {name: sum(len(ids) for file, (_, ids) in one["files"].items() if file in files)
             for name, one in traced.items()}
    stems = {re.sub(r"^test_", "", pathlib.PurePath(file).stem) for file in files}
    words = {word for stem in stems for word in stem.split("_")}

    def rank(name):
        short = re.sub(r"^test_", "", name.split("/")[1])
        return (not is_changed(closures[name], files), short not in stems,
                not reach.get(name), not words & set(short.split("_")),
                tests[name]["seconds"] / (reach.get(name) or 1))

    return sorted(closures, key=rank)


def choose(ordered, always, tests, closures, dirty, seconds, jobs):
    """(tests to run, tests to leave): as many as fit, what must be built for them counted once, and no long ones."""
    built, spent, chosen, left = set(), 0.0, [], []
    for name in ordered:
        new = {path for path in closures[name] & dirty if path not in built}
        cost = sum(COMPILE_S if path.endswith(".o") else LINK_S for path in new if MADE.search(path))
        cost = (cost + tests[name]["seconds"]) / jobs
        fits = spent + cost <= seconds and tests[name]["seconds"] <= seconds / 2
        if not fits and name not in always:
            left.append(name)
            continue
        spent += cost
        built |= new
        chosen.append(name)
    return chosen, left


def dirty_outputs(graph, files):
    """All that is made from the files."""
    users = collections.defaultdict(set)
    for output, inputs in graph.inputs.items():
        for one in inputs:
            users[one].add(output)
    dirty, todo = set(), [str(ROOT / file) for file in files]
    while todo:
        for user in users[todo.pop()] - dirty:
            dirty.add(user)
            todo.append(user)
    return {path for path in dirty if os.path.isabs(path) and not os.path.isdir(path)}


def run(tests, end, jobs):
    """Runs tests in their order, until the end except those that are changed. Returns the names of those that failed and
    of those that did not run or were cut short."""
    failed, late = [], []

    def one(test):
        left = test["timeout"] if test["changed"] else min(end - time.monotonic(), test["timeout"])
        if not test["changed"] and test["seconds"] > left:
            late.append(test["name"])
            return
        outcome, seconds, text = runner.run(test, {}, left)
        if outcome == "hung" and left < test["timeout"]:
            late.append(test["name"])
            return
        if outcome in ("failed", "hung"):
            failed.append(test["name"])
            print(text)
        print(f"{outcome:7} {seconds:5.1f} s  {test['name']}", flush=True)

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        list(pool.map(one, tests))
    return failed, late


def programs(test, graph):
    """What a test runs: the words of its command that are built, and what these start."""
    words = {graph.path(word) for word in test["command"]}
    return words.union(*(graph.inputs[word] for word in words if word in graph.inputs))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", nargs="?", help="a commit; files changed since then, committed or not")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "asan")
    parser.add_argument("--seconds", type=float, default=40, help="how long building and running may take, by estimate")
    parser.add_argument("--end", type=float, default=55, help="after so many seconds no test runs")
    parser.add_argument("--list", action="store_true", help="show the tests and run nothing")
    options = parser.parse_args()
    begin = time.monotonic()
    jobs = os.cpu_count() or 1
    files = changed_files(options.base)
    graph = Graph(options.build)
    traced = read_trace()
    tests = read_tests(options.build, traced)
    closures = affected(tests, graph, files)
    ordered = ranks(closures, tests, traced, files)
    dirty = dirty_outputs(graph, files)
    always = {name for name in ordered if is_changed(closures[name], files)}
    chosen, left = choose(ordered, always or ordered[:1], tests, closures, dirty, options.seconds, jobs)
    print(f"{len(files)} files changed; {len(closures)} tests can break, {len(chosen)} run", flush=True)
    if options.list or not chosen:
        print("\n".join(chosen))
        return 0
    wanted = {os.path.relpath(path, options.build) for name in chosen for path in programs(tests[name], graph) & dirty}
    if wanted:
        subprocess.run(["ninja", "-C", options.build, f"-j{jobs}", "--quiet", *wanted], check=True)
    for name in chosen:
        tests[name]["changed"] = name in always
    failed, late = run([tests[name] for name in chosen], begin + options.end, jobs + 1)
    left += late
    if left:
        print(f"left to ./test.sh: {len(left)} tests: " + " ".join(sorted(left)))
    print(f"{len(chosen) - len(failed) - len(late)} passed, {len(failed)} failed")
    print(f"{time.monotonic() - begin:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
