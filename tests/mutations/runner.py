"""Runs a test of ctest on its own: with a time limit, and nothing of it left behind."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import uuid

# Tests of documents, packages and this directory do not depend on mutants, or build the tree again.
SKIPPED = ("docs/", "mutations/", "packaging/", "examples/pasted_outside", "gen/missing_handler", "e2e/rooms_are_apart")
DISK_MAX, TAIL = 1 << 30, 6000


def tests_of(build, label="fast", skipped=SKIPPED):
    """The tests of a build directory, each {"name", "command", "directory", "env", "timeout", "skip"}."""
    listed = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1", "-L", label],
                            capture_output=True, check=True).stdout
    tests = []
    for entry in json.loads(listed)["tests"]:
        has = {one["name"]: one["value"] for one in entry["properties"]}
        if entry["name"].startswith(skipped) or "command" not in entry:
            continue
        tests.append({"name": entry["name"], "command": entry["command"], "directory": has["WORKING_DIRECTORY"],
                      "env": dict(pair.split("=", 1) for pair in has.get("ENVIRONMENT", [])),
                      "timeout": has.get("TIMEOUT", 300), "skip": has.get("SKIP_RETURN_CODE")})
    return tests


def kill_marked(mark):
    """Ends all processes that have the mark in their environment, wherever they have moved."""
    wanted = f"LKS_MUTANT_RUN={mark}".encode()
    while True:
        found = 0
        for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
            try:
                if wanted in path.read_bytes():
                    os.kill(int(path.parent.name), signal.SIGKILL)
                    found += 1
            except (OSError, ValueError):
                continue
        if not found:
            return


def disk_bytes(directory):
    """The disk space of the files of a directory. Holes take none: a test has a sparse file of 64 GiB."""
    total = 0
    for path in pathlib.Path(directory).rglob("*"):
        try:
            total += path.lstat().st_blocks * 512
        except OSError:
            continue
    return total


def wait(child, directory, seconds):
    """The exit code; None when the time is over or the disk is being filled."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and disk_bytes(directory) < DISK_MAX:
        try:
            return child.wait(min(1, seconds))
        except subprocess.TimeoutExpired:
            continue
    child.kill()
    child.wait()
    return None


def run(test, env, seconds):
    """("passed", "failed", "hung" or "skipped", how long it took, the end of what it printed)"""
    mark = uuid.uuid4().hex
    directory = tempfile.mkdtemp(prefix="lks-")
    environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0:hard_rss_limit_mb=4000",
                   "UBSAN_OPTIONS": "halt_on_error=1", **test["env"], **env, "LKS_MUTANT_RUN": mark,
                   "TMPDIR": directory}
    begin = time.monotonic()
    try:
        with open(f"{directory}/log", "wb") as log:
            child = subprocess.Popen(test["command"], cwd=test["directory"], env=environment, stdin=subprocess.DEVNULL,
                                     stdout=log, stderr=log, start_new_session=True)
            code = wait(child, directory, seconds)
        with open(f"{directory}/log", "rb") as log:
            log.seek(max(0, os.path.getsize(log.name) - TAIL))
            text = log.read().decode(errors="replace")
    finally:
        took = time.monotonic() - begin
        kill_marked(mark)
        shutil.rmtree(directory, ignore_errors=True)
    if code is None:
        return "hung", took, text
    if code == test["skip"]:
        return "skipped", took, text
    return ("passed" if code == 0 else "failed"), took, text
