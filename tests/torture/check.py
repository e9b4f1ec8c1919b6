#!/usr/bin/python3
"""Checks whether the answers can be correct (docs/torture.md): check.py HISTORY.json. It trusts no answer: each answer
must agree with the others, with the times of requests and answers, and with the final state."""
import json
import sys

import check_leases
import check_others
import check_stock
from history import History, Report

FAILOVERS = {"primary_killed", "failed_over", "node_stopped", "primary_isolated", "primary_cut_off", "server_cut_off",
             "sentinel_cut_off"}


def check(record):
    report, history = Report(), History(record)
    for fault in history.faults:
        if "violation" in fault:
            report.fail("end of a server", fault["violation"])
    for text in record["stopping"]:
        report.fail("end of a server", text)
    for call in record["history"]:
        report.check("no call is INTERNAL", call.get("code") != "INTERNAL", lambda: str(call))
    check_stock.check(report, history, record["witness"])
    check_leases.check_locks(report, history, record["witness"])
    check_leases.check_results(report, history, record["witness"])
    check_others.check_rates(report, history)
    check_others.check_ids(report, history)
    if history.may_lose and any(fault["fault"] in FAILOVERS for fault in history.faults):
        report.forgive_losses()
    return report


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        result = check(json.load(file))
    print(result.text())
    sys.exit(1 if result.wrong else 0)
