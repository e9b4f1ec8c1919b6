#!/usr/bin/env python3
"""lockstock-bench measures correctly: each scenario makes some hundred calls to a real server, and the counts that
it prints must add up. Times are not checked.

    bench.py LOCKSTOCK-BENCH LOCKSTOCKD
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

BENCH, LOCKSTOCKD = sys.argv[1:3]
CALLS = 300
ONE_CALL = ["deduct", "deduct-hot", "sold-out", "check-fixed", "check-log", "check-window", "check-bucket",
            "check-denied", "ids", "ids-uuid", "ids-sequence", "decode"]
TWO_CALLS = {"reserve": "RESERVED", "lock": "ACQUIRED", "lock-hot": "ACQUIRED", "begin": "EXECUTE"}


def run(*args, status=0):
    """Its JSON; its directory must be empty again."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="lb-") as tmp:
        done = subprocess.run([BENCH, "--lockstockd", LOCKSTOCKD, "--json", "-", *args], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, env={**os.environ, "TMPDIR": tmp}, timeout=240, check=False)
        left = os.listdir(tmp)
    if done.returncode != status:
        raise AssertionError(f"{args}: exit {done.returncode}: {done.stderr.decode()}")
    assert left == [], left
    return json.loads(done.stdout) if status == 0 else done.stderr.decode()


def outcomes(result):
    return {o["outcome"]: o["calls"] for o in result["outcomes"]}


class Bench(unittest.TestCase):
    def agrees(self, result, calls):
        """Expects the requested number of calls, each with an outcome and a latency, and a correct check."""
        self.assertEqual(result["calls"], {"ok": calls, "refused": 0, "expired": 0, "failed": 0}, result)
        self.assertEqual(sum(o["calls"] for o in result["outcomes"]), calls, result)
        self.assertEqual(result["calls_started"], calls, result)
        self.assertEqual(result["agrees"], "yes", result)
        of = result["latency_us"]["ok"]
        self.assertTrue(0 < of["p50"] <= of["p90"] <= of["p99"] <= of["p99.9"] <= of["max"], of)

    def test_each_scenario_of_one_call(self):
        results = run(*ONE_CALL, "--calls", str(CALLS), "--in-flight", "16")["results"]
        self.assertEqual([r["scenario"] for r in results], ONE_CALL)
        for result in results:
            self.agrees(result, CALLS)
        by_name = {r["scenario"]: r for r in results}
        self.assertEqual(outcomes(by_name["deduct"]), {"DEDUCTED": CALLS})
        self.assertEqual(by_name["deduct"]["checked"], f"sold {CALLS}, told {CALLS}, in doubt 0")
        self.assertEqual(outcomes(by_name["sold-out"]), {"SOLD_OUT": CALLS})
        self.assertEqual(by_name["sold-out"]["checked"], "sold 0, told 0, in doubt 0")

    def test_each_scenario_of_two_calls(self):
        results = run(*TWO_CALLS, "--calls", str(CALLS), "--in-flight", "16", "--connections", "2")["results"]
        for result in results:
            self.agrees(result, 2 * CALLS)
            self.assertEqual(outcomes(result)[TWO_CALLS[result["scenario"]]], CALLS)
            if result["scenario"] == "lock-hot":
                self.assertIn("held by two 0 times", result["checked"])

    def test_mix_sells_as_many_as_its_outcomes_count(self):
        result = run("mix", "--calls", str(CALLS), "--in-flight", "16", "--wire", "tcp")["results"][0]
        self.agrees(result, sum(outcomes(result).values()))
        sold = outcomes(result)["DEDUCTED"] + outcomes(result)["CONFIRMED"]
        self.assertEqual(result["checked"], f"sold {sold}, told {sold}, in doubt 0")

    def test_threads_that_wait_on_a_store_that_keeps_all(self):
        result = run("deduct", "reserve", "--sync", "--fsync", "always", "--calls", str(CALLS), "--in-flight", "8",
                     "--connections", "2")["results"]
        self.agrees(result[0], CALLS)
        self.agrees(result[1], 2 * CALLS)
        self.assertEqual(result[0]["fsync"], "always")

    def test_an_open_loop_accounts_for_each_operation(self):
        result = run("deduct", "--rate", "5000", "--calls", str(CALLS), "--timeout-ms", "2")["results"][0]
        self.assertEqual(result["loop"], "open")
        self.assertEqual(sum(result["calls"].values()), CALLS, result)
        self.assertEqual(result["calls_started"], CALLS)
        self.assertEqual(result["agrees"], "yes", result)

    def test_a_rate_of_so_many_times_the_capacity(self):
        result = run("sold-out", "--rate", "0.5x", "--seconds", "0.2", "--warm-up", "0.1")["results"][0]
        self.assertAlmostEqual(result["offered_per_second"] / result["capacity_per_second"], 0.5, 3)

    def test_a_comparison_has_all_rivals(self):
        few = ["--compare", "--calls", "100", "--seconds", "0.2", "--rounds", "2", "--in-flight", "16"]
        results = run("deduct", "lock", "lock-hot", *few)["results"]
        self.assertEqual([len(r["compared"]) for r in results], [11, 6, 4], results)
        for result in results:
            for rival in result["compared"][1:]:
                if "skipped" in rival:
                    self.assertIn("libgrpc++-dev", rival["skipped"])
                    continue
                ratio = rival["rate_of_lockstock_to_this"]
                self.assertTrue(0 < ratio["min"] <= ratio["median"] <= ratio["max"], rival)
                self.assertGreater(rival["calls"]["ok"], 0, rival)
        self.assertEqual(results[0]["compared"][0]["calls"]["ok"], 200)
        self.assertEqual(results[0]["compared"][1]["calls"]["ok"], 200)

    def test_table_has_the_requested_rows(self):
        rows = run("table", "--rows", "1,3,9,16,17,18,20", "--rounds", "2", "--seconds", "0.2", "--warm-up", "0.1")["rows"]
        self.assertEqual([r["row"] for r in rows], [1, 3, 9, 16, 17, 18, 20], rows)
        for row in rows[:-1]:
            self.assertTrue(0 < row["ratio"]["min"] <= row["ratio"]["median"] <= row["ratio"]["max"], row)
        self.assertEqual([rows[0].get("at_most"), rows[6].get("at_least")], [1.5, 0.9])

    def test_calls_are_spread_over_servers_that_are_started(self):
        result = run("deduct-hot", "--servers", "3", "--connections", "6", "--in-flight", "12", "--calls", str(CALLS))["results"][0]
        self.agrees(result, CALLS)
        self.assertIn("--servers", run("deduct", "--servers", "2", status=2))

    def test_scale_reports_cost_and_memory_of_each_load(self):
        results = run("scale", "lock", "--seconds", "0.1", "--warm-up", "0.1")["results"]
        self.assertEqual([(r["scenario"], r["in_flight"]) for r in results],
                         [("lock", 1), ("lock", 8), ("lock", 256), ("lock", 256)])
        for result in results:
            self.assertGreater(result["cpu_us_a_call"]["server"], 0, result)
        self.assertEqual(results[3]["calls"]["ok"], 40000)
        self.assertGreater(results[3]["redis_bytes"], 20000)
        self.assertIn("no table has a row", run("scale", "decode", status=1))

    def test_bad_flags_name_themselves(self):
        for args, text in ((["nonsense"], "nonsense"), (["deduct", "--rate", "-1"], "rate"),
                           (["deduct", "--fsync", "never"], "--fsync"), (["deduct", "--wat"], "--wat"),
                           (["deduct", "--seconds"], "--seconds"), ([], "no scenario")):
            self.assertIn(text, run(*args, status=2))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
