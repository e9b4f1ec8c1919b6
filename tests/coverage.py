#!/usr/bin/env python3
"""Which test holds which promise, from the tags above the test cases.

    coverage.py          prints the table, as Markdown
    coverage.py --check  fails when a promise has no text, has several that differ, or has lost its last tag

A tag is a comment directly above a case, or at the head of a file for all its cases:

    /* promise S7: the same order_id gets the first answer */   C
    # promise S7                                          Python, shell; further lines of a text begin with "#   "
    -- promise S7                                         Lua, in the same way

One of the tags of a promise has its text; the others have the id alone. A new promise takes the next number of its
section.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent
SECTIONS = {
    "AB": "Versions of the libraries",
    "S": "StockService", "SB": "Groups in buckets", "SL": "ReadLedger and its consumer", "L": "LockService",
    "I": "IdempotencyService", "GS": "GuardService", "R": "RateLimitService", "EV": "Envoy's ShouldRateLimit", "D": "IdService",
    "M": "Mutex, RW lock, semaphore", "C": "Client helpers and the client's SP engine", "CH": "Channels and hosts",
    "GN": "Generator", "GD": "Guards around handlers", "W": "The wire and the server", "CN": "Connections", "GC": "Channels over gRPC",
    "K": "Admission of calls", "T": "Store", "B": "Bounds in Redis", "A": "Identity and TLS", "G": "gRPC",
    "F": "Files and settings", "E": "Everything together", "J": "Messages as JSON", "CL": "The command line",
    "WS": "WebSocket",
}
# Numbers that no promise has any more. To drop a promise, add its id here and say why in the commit.
RETIRED = {"B12", "B13", "B14", "B15", "B16", "C28", "C29", "K6", "R42"}

TAG = re.compile(r"\s*(?:--|#|/\*) promise ([A-Z]+)([0-9]+)(?:: (.*?))?(?: \*/)?$")
CASE = re.compile(r"TEST\w*\((\w+)|static void (\w+)\(void \*\*state\)|"  # C
                  r"\s*def (test_\w+)\(|class (\w+)\(|function case\.(\w+)")  # Python, Lua
COMMENT = re.compile(r"\s*(--|#|/\*| \*|@|$)")


def blocks_of(lines):
    """(line number, prefix, number, text or None) of each tag."""
    for at, line in enumerate(lines):
        tag = TAG.match(line)
        if not tag:
            continue
        prefix, number, text = tag.groups()
        in_c = line.startswith("/*")
        last = at
        if in_c and not line.rstrip().endswith("*/"):
            while last + 1 < len(lines) and not lines[last].rstrip().endswith("*/"):
                last += 1
                text = f"{text or ''} {lines[last].strip().lstrip('*').strip()}"
        elif not in_c:
            while last + 1 < len(lines) and re.match(r"\s*(#|--)   \S", lines[last + 1]) and text:
                last += 1
                text += " " + lines[last].strip().lstrip("#-").strip()
        yield last, prefix, int(number), text and text.removesuffix("*/").strip()


def case_below(lines, at):
    """The case that begins below a tag; "" when the tag is the file's."""
    for line in lines[at + 1:]:
        case = CASE.match(line)
        if case:
            return next(name for name in case.groups() if name)
        if not COMMENT.match(line):
            break
    return ""


def read_tags():
    """{(prefix, number): ([(place, text)], ...)} of all tests."""
    promises = {}
    for path in sorted(ROOT.rglob("*")):
        if path.suffix not in (".c", ".py", ".sh", ".lua") or path == ROOT / "coverage.py":
            continue
        lines = path.read_text(errors="replace").splitlines()
        for at, prefix, number, text in blocks_of(lines):
            case = case_below(lines, at)
            place = f"{path.relative_to(ROOT)}{': ' + case if case else ''}"
            promises.setdefault((prefix, number), []).append((place, text))
    return promises


def text_of(tags):
    return next((text for _, text in tags if text), None)


def check(promises):
    faults = []
    for (prefix, number), tags in sorted(promises.items()):
        texts = {text for _, text in tags if text}
        if prefix not in SECTIONS:
            faults.append(f"{prefix}{number}: {tags[0][0]}: no such section")
        if not texts:
            faults.append(f"{prefix}{number}: no tag has its text: {tags[0][0]}")
        elif len(texts) > 1:
            faults.append(f"{prefix}{number}: texts differ: " + "; ".join(place for place, text in tags if text))
        if f"{prefix}{number}" in RETIRED:
            faults.append(f"{prefix}{number}: {tags[0][0]}: the number is retired")
    for prefix in SECTIONS:
        numbers = {number for section, number in promises if section == prefix}
        for number in range(1, max(numbers, default=0)):
            if number not in numbers and f"{prefix}{number}" not in RETIRED:
                faults.append(f"{prefix}{number}: no test has its tag any more")
    return faults


def show(promises):
    print("# Which test holds which promise\n\nPrinted by `python3 tests/coverage.py`; places are below `tests/`.")
    for prefix, title in SECTIONS.items():
        rows = sorted(item for item in promises.items() if item[0][0] == prefix)
        if rows:
            print(f"\n## {title}\n\n| id | promise | tests |\n|---|---|---|")
        for (_, number), tags in rows:
            places = ", ".join(f"`{place}`" for place in dict.fromkeys(place for place, _ in tags))
            print(f"| {prefix}{number} | {text_of(tags)} | {places} |")


def main():
    promises = read_tags()
    if sys.argv[1:] != ["--check"]:
        show(promises)
        return 0
    faults = check(promises)
    for fault in faults:
        print(fault, file=sys.stderr)
    print(f"{len(promises)} promises, {sum(map(len, promises.values()))} tags")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
