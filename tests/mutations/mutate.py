#!/usr/bin/python3
"""Mutation tests: small changes of the product that some test must notice (README.md beside this file).

    mutate.py build                   the instrumented copy, build/mutants; needs the headers that build/asan has made
    mutate.py trace [-R regex]        which mutants each fast test reaches, and how long it takes
    mutate.py score [what]            runs mutants and lists those that no test notices; what is
                                      --files F... (files or directories), --changed [base], --sample N --seed S;
                                      with --least P it fails when less than P percent of the reached are killed
    mutate.py rows [--run [-R regex]] checks promises.txt, or runs its rows
    mutate.py list F...               names the mutants of files
"""
import argparse
import concurrent.futures
import os
import pathlib
import random
import re
import subprocess
import sys
import threading

try:
    import clang.cindex  # noqa: F401
except ImportError:
    print("skipped: there is no python3-clang-14")
    sys.exit(77)

import lua_operators
import operators
import runner
import tree

TRACE = tree.WORK / "trace.json"
ROWS = tree.HERE / "promises.txt"
LINE = threading.Lock()


def say(text):
    with LINE:
        print(text, flush=True)


def under(file, names):
    return any(file == name or file.startswith(name.rstrip("/") + "/") for name in names)


def changed_files(base):
    git = ["git", "-C", tree.ROOT]
    base = base or subprocess.run([*git, "merge-base", "main", "HEAD"], capture_output=True, text=True,
                                  check=False).stdout.strip() or "HEAD"
    listed = subprocess.run([*git, "diff", "--name-only", base], capture_output=True, text=True, check=True).stdout
    return listed.split()


# ---- trace ----

def trace(options):
    catalog = tree.read_json(tree.CATALOG, {})
    size = max(entry["base"] + entry["room"] for entry in catalog.values())
    digests = {file: entry["digest"] for file, entry in catalog.items()}
    traced = tree.read_json(TRACE, {})
    tests = [test for test in runner.tests_of(tree.BUILD) if re.search(options.regex, test["name"])]

    def one(test):
        marks = tree.WORK / f"reached.{threading.get_ident()}"
        marks.write_bytes(bytes(size))
        result, seconds, _ = runner.run(test, {"LKS_MUTANT_REACHED": str(marks)}, test["timeout"])
        reached = marks.read_bytes()
        marks.unlink()
        files = {}
        for file, entry in catalog.items():
            ids = [at for at in range(len(entry["mutants"])) if reached[entry["base"] + at]]
            if ids:
                files[file] = [digests[file], ids]
        say(f"{result} {seconds:6.1f} s, {sum(len(ids) for _, ids in files.values())} mutants: {test['name']}")
        with LINE:
            traced[test["name"]] = {"result": result, "seconds": round(seconds, 2), "files": files}
            tree.write_json(TRACE, traced)

    in_parallel(one, tests, options.jobs)


def in_parallel(work, items, jobs):
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for done in concurrent.futures.as_completed([pool.submit(work, item) for item in items]):
            done.result()


# ---- score ----

def kin(test, file):
    """Whether the test is named for the file: such tests run first."""
    stem = pathlib.PurePath(file).stem
    name = test.split("/")[-1].removeprefix("test_")
    return name.startswith(stem) or stem.startswith(name)


def tests_that_reach(traced, catalog, file, at):
    names = []
    for name, one in traced.items():
        digest, ids = one["files"].get(file, (None, ()))
        if one["result"] == "passed" and (at in ids or digest not in (None, catalog[file]["digest"])):
            names.append(name)
    return sorted(names, key=lambda name: (not kin(name, file), traced[name]["seconds"]))


def tests_of_lua(traced, file):
    service = pathlib.PurePath(file).stem.split("_")[0]
    names = [name for name, one in traced.items() if name.startswith("services/") and one["result"] == "passed"]
    own = [name for name in names if name.startswith((f"services/{service}", "services/shared"))]
    if not any(name.startswith(f"services/{service}") for name in own):
        own = names
    return sorted(own, key=lambda name: (not kin(name.replace("services/", "test_"), file), traced[name]["seconds"]))


class Score:
    def __init__(self, options):
        self.options = options
        self.catalog = tree.read_json(tree.CATALOG, {})
        self.tests = {test["name"]: test for test in runner.tests_of(tree.BUILD)}
        self.traced = {name: one for name, one in tree.read_json(TRACE, {}).items() if name in self.tests}
        self.counts = {}
        self.survivors = []

    def candidates(self, wanted):
        every = []
        for file, entry in self.catalog.items():
            if wanted(file):
                every += [(file, at, name, line) for at, (name, line) in enumerate(entry["mutants"])
                          if name not in entry["excluded"]]
        for file, mutants in lua_operators.mutants_of(tree.SOURCE).items():
            if wanted(file):
                every += [(file, mutant, mutant.name, mutant.line) for mutant in mutants]
        return every

    def judge(self, candidate):
        file, which, name, line = candidate
        if file.endswith(".lua"):
            names = tests_of_lua(self.traced, file)
            find, put = lua_operators.edit(tree.SOURCE, which)
            env = {"LOCKSTOCK_MUTATION_FIND": find, "LOCKSTOCK_MUTATION_REPLACE": put}
        else:
            names = tests_that_reach(self.traced, self.catalog, file, which)
            env = {"LKS_MUTANT": str(self.catalog[file]["base"] + which)}
        result, spent, ran = ("survived" if names else "unreached"), 0.0, 0
        for test in names:
            usual = self.traced[test]["seconds"]
            if ran and spent + usual > self.options.seconds:
                break
            outcome, seconds, _ = runner.run(self.tests[test], env, min(10 * usual + 10, self.tests[test]["timeout"]))
            spent, ran = spent + seconds, ran + 1
            if outcome in ("failed", "hung"):
                result = "killed"
                break
        with LINE:
            counts = self.counts.setdefault(file, {"killed": 0, "survived": 0, "unreached": 0})
            counts[result] += 1
            if result != "killed":
                self.survivors.append((file, line, name, result, ran, len(names)))
        by = f" by {test}" if result == "killed" else f", {ran} of {len(names)} tests"
        say(f"{result}: {file}:{line}: {name}{by}, {spent:.1f} s")

    def report(self):
        total = {"killed": 0, "survived": 0, "unreached": 0}
        print()
        for file, counts in sorted(self.counts.items()):
            print("{killed:5} killed {survived:4} survived {unreached:4} unreached  ".format(**counts) + file)
            for key in total:
                total[key] += counts[key]
        print("{killed:5} killed {survived:4} survived {unreached:4} unreached".format(**total))
        for file, line, name, result, ran, of in sorted(self.survivors):
            print(f"{file}:{line}: {name}: {result}, {ran} of {of} tests")
        reached = total["killed"] + total["survived"]
        return 100 * total["killed"] / reached if reached else 100


def score(options):
    if options.changed is not None:
        files = changed_files(options.changed)
    else:
        files = options.files
    it = Score(options)
    candidates = it.candidates(lambda file: under(file, files) or not files and options.changed is None)
    if options.sample and options.sample < len(candidates):
        candidates = random.Random(options.seed).sample(candidates, options.sample)
    in_parallel(it.judge, candidates, options.jobs)
    return 1 if it.report() < options.least else 0


# ---- rows: promises.txt ----

def read_rows():
    """(id, name of the mutant, test, cases) of each line."""
    rows = []
    for line in ROWS.read_text().splitlines():
        if line and not line.startswith("#"):
            promise, *mutant, test, cases = line.split() if len(line.split()) == 7 else [*line.split(), "*"]
            rows.append((promise, " ".join(mutant), test, cases))
    return rows


def files_with(functions):
    """Files of the product that may define one of those functions."""
    if not functions:
        return []
    listed = [file for file in tree.files_of_tree() if file.endswith((".c", ".lua"))
              and file.split("/")[0] in operators.PRODUCT]
    pattern = re.compile(r"\b(%s)\b" % "|".join(map(re.escape, functions)))
    return [file for file in listed if pattern.search((tree.ROOT / file).read_text())]


def mutants_by_name(rows):
    """{name: [(file, mutant)]}; a name may begin with a file's name and a colon."""
    functions = {name.split()[0].split(":")[-1] for _, name, _, _ in rows}
    files = files_with(functions)
    names = {}
    for file, mutants in tree.mutants_of(files).items():
        for mutant in mutants:
            if mutant.function in functions:
                names.setdefault(mutant.name, []).append((file, mutant))
                names.setdefault(f"{pathlib.PurePath(file).name}:{mutant.name}", []).append((file, mutant))
    return names


def check_rows(rows):
    sys.path.insert(0, str(tree.HERE.parent))
    import coverage
    promises = {f"{prefix}{number}" for prefix, number in coverage.read_tags()}
    tests = {test["name"] for test in runner.tests_of(tree.MADE)}
    names = mutants_by_name(rows)
    faults = []
    for promise, name, test, _ in rows:
        n = len(names.get(name, ()))
        if n != 1:
            faults.append(f"{promise} {name}: {n} mutants have that name")
        if promise not in promises:
            faults.append(f"{promise} {name}: no test has the tag of {promise}")
        if test not in tests:
            faults.append(f"{promise} {name}: there is no test {test}")
    return faults, names


def run_rows(rows, names, options):
    catalog = tree.read_json(tree.CATALOG, {})
    tests = {test["name"]: test for test in runner.tests_of(tree.BUILD)}
    whole, missed = {}, []

    def time_of(test, cases):
        """How long the test takes without a mutant; None when it fails."""
        key = test, cases
        if key not in whole:
            outcome, seconds, _ = runner.run(tests[test], {"LOCKSTOCK_TEST_ONLY": cases}, tests[test]["timeout"])
            whole[key] = seconds if outcome == "passed" else None
        return whole[key]

    def one(row):
        promise, name, test, cases = row
        (file, mutant), = names[name]
        usual = time_of(test, cases)
        if usual is None:
            outcome = f"{test} fails without a mutant"
        elif file.endswith(".lua"):
            find, put = lua_operators.edit(tree.SOURCE, mutant)
            env = {"LOCKSTOCK_MUTATION_FIND": find, "LOCKSTOCK_MUTATION_REPLACE": put}
            outcome, _, _ = runner.run(tests[test], {"LOCKSTOCK_TEST_ONLY": cases, **env}, 10 * usual + 10)
        else:
            at = [known for known, _ in catalog[file]["mutants"]].index(mutant.name)
            env = {"LOCKSTOCK_TEST_ONLY": cases, "LKS_MUTANT": str(catalog[file]["base"] + at)}
            outcome, _, _ = runner.run(tests[test], env, 10 * usual + 10)
        if outcome not in ("failed", "hung"):
            missed.append(row)
            say(f"NOT CAUGHT: {promise} {name}: {test}: {outcome}")
        else:
            say(f"caught: {promise} {name}")

    in_parallel(one, rows, options.jobs)
    print(f"{len(rows)} rows, {len(missed)} not caught")
    return missed


def rows(options):
    every = read_rows()
    faults, names = check_rows(every)
    if options.run and not faults:
        chosen = [row for row in every if re.search(options.regex, " ".join(row))]
        return 1 if run_rows(chosen, names, options) else 0
    for fault in faults:
        print(fault, file=sys.stderr)
    print(f"{len(every)} rows for {len({row[0] for row in every})} promises")
    return 1 if faults else 0


def show(options):
    for file, mutants in tree.mutants_of(options.files or None).items():
        for mutant in mutants:
            print(f"{file}:{mutant.line}: {mutant.name}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("build", "trace", "score", "rows", "list"))
    parser.add_argument("names", nargs="*", help="files, for list")
    parser.add_argument("--files", nargs="+", default=[])
    parser.add_argument("--changed", nargs="?", const="")
    parser.add_argument("--sample", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=120, help="how long the tests of one mutant may take")
    parser.add_argument("--least", type=float, default=0)
    parser.add_argument("--run", action="store_true")
    parser.add_argument("-R", dest="regex", default="")
    parser.add_argument("--build", type=pathlib.Path, default=tree.MADE, help="a build directory of this tree")
    parser.add_argument("-j", dest="jobs", type=int, default=min(2, os.cpu_count() or 1))
    options = parser.parse_args()
    options.files = options.names or options.files
    tree.MADE = options.build.resolve()
    if options.command == "build":
        catalog = tree.build(jobs=options.jobs)
        print(f"{sum(len(entry['mutants']) - len(entry['excluded']) for entry in catalog.values())} mutants of C, "
              f"{sum(map(len, lua_operators.mutants_of(tree.ROOT).values()))} of Lua")
        return 0
    return {"trace": trace, "score": score, "rows": rows, "list": show}[options.command](options) or 0


if __name__ == "__main__":
    sys.exit(main())
