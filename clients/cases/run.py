#!/usr/bin/python3
"""Tests clients with the cases that all clients share: run.py [-k PATTERN] DRIVER... (README.md).

PYTHONPATH has the Python package, whose test double runs the server; LOCKSTOCKD is its program, and LOCKSTOCK_SHIFTED_CLOCK
the library of tests/support/shifted_clock.c. Nothing is asserted about elapsed time: a lease that must not end is long enough
for a slow machine, and one that must end is waited for."""
import itertools
import json
import os
import queue
import struct
import subprocess
import sys
import tempfile
import threading
import unittest

import lockstock
import lockstock.testing
from lockstock.v1 import lock_pb2

from faults import Faults

LIMIT_S = 120
DRIVER = []
ASYNCHRONOUS = ("asyncio", "node")  # drivers with an event loop, by a word of their command


class Answer(dict):
    def __getattr__(self, name):
        return self.get(name)


class Program:
    """A running driver."""

    def __init__(self, command, **environment):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, **environment})
        self.seq, self.waiting, self.lock = itertools.count(1), {}, threading.Lock()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            answer = Answer(json.loads(line))
            self.waiting.pop(answer.seq).put(answer)

    def start(self, do, **arguments):
        """Asks, and returns a function that waits for the answer."""
        seq, answer = next(self.seq), queue.Queue()
        self.waiting[seq] = answer
        with self.lock:
            self.process.stdin.write(json.dumps({"seq": seq, "do": do, **arguments}) + "\n")
            self.process.stdin.flush()
        return lambda: answer.get(timeout=LIMIT_S)

    def ask(self, do, **arguments):
        answer = self.start(do, **arguments)()
        if answer.error == "Unsupported":
            raise unittest.SkipTest("the client does not have it")
        return answer

    def close(self):
        self.process.stdin.close()
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()


class Cases(unittest.TestCase):
    def setUp(self):
        self.server = lockstock.testing.server()
        self.addCleanup(self.server.close)
        self.own = lockstock.connect(self.server.url, owner="the test")
        self.addCleanup(self.own.close)
        self.program = Program(DRIVER)
        self.addCleanup(self.program.close)
        self.ask, self.start = self.program.ask, self.program.start
        self.ask("connect", client="c", url=self.server.url)

    def take(self, name, lease=60, **more):
        """A lock that the driver holds; its id is the name."""
        answer = self.ask("lock", client="c", id=name, names=[name], lease=lease, **more)
        self.assertIsNone(answer.error, answer)
        return answer

    def through_faults(self):
        faults = Faults(self.server.url)
        self.addCleanup(faults.close)
        self.ask("connect", client="f", url=faults.url)
        return faults

    def force_release(self, name):
        self.own.calls.lock.force_release(lock_pb2.ForceReleaseRequest(name=name, reason="a test"))

    def wait_for(self, what):
        """Waits until a condition of the server holds."""
        for _ in range(LIMIT_S * 50):
            if what():
                return
            threading.Event().wait(0.02)
        self.fail("it does not come true")

    def wait_for_renewal(self, name):
        before = [self.ask("state", id=name).remaining]

        def more():
            before.append(self.ask("state", id=name).remaining)
            return before[-1] > before[-2]
        self.wait_for(more)
        return before[-1]

    def inspect(self, name):
        return self.own.calls.lock.inspect(lock_pb2.InspectRequest(name=name))

    def only_asyncio(self):
        if not any(word in DRIVER or word in os.path.basename(DRIVER[0]) for word in ASYNCHRONOUS):
            self.skipTest("the driver has no event loop")

    # ---- locks ---------------------------------------------------------------------------

    def test_a_lock_excludes_and_fences_rise(self):
        first = self.take("x")
        self.assertLessEqual(self.ask("state", id="x").remaining, 59)  # 1 s less than the lease
        busy = self.ask("lock", client="c", id="y", names=["x"], lease=60, wait=0)
        self.assertEqual((busy.error, busy.applied, busy.reason), ("LockBusy", "NO", "busy"))
        self.assertIsNone(self.ask("release", id="x").error)
        self.assertGreater(self.take("x").fence, first.fence)

    def test_a_waiter_gets_its_turn(self):
        held = self.own.lock("x", lease=60).acquire()
        waits = self.start("lock", client="c", id="x", names=["x"], lease=60, wait=100)
        self.wait_for(lambda: self.inspect("x").waiters == 1)
        held.release()
        self.assertGreater(waits().fence, held.fence)

    def test_a_lease_begins_with_the_end_of_a_wait(self):
        held = self.own.lock("x", lease=60).acquire()
        waits = self.start("lock", client="c", id="x", names=["x"], lease=4, wait=100)
        self.wait_for(lambda: self.inspect("x").waiters == 1)
        threading.Event().wait(5)  # longer than the lease
        held.release()
        self.assertIsNone(waits().error)
        self.assertFalse(self.ask("state", id="x").lost)
        self.assertIsNone(self.ask("release", id="x").error)

    def test_a_waiter_whose_time_is_over_holds_nothing(self):
        held = self.own.lock("x", lease=60).acquire()
        self.assertEqual(self.ask("lock", client="c", id="x", names=["x"], lease=60, wait=0.2).error, "LockTimedOut")
        self.assertEqual(self.inspect("x").waiters, 0)
        held.release()
        self.take("x")

    def test_permits_of_a_semaphore(self):
        for name in ("a", "b"):
            self.assertIsNone(self.ask("lock", client="c", id=name, names=["s"], capacity=2, lease=60, wait=0).error)
        self.assertEqual(self.ask("lock", client="c", id="d", names=["s"], capacity=2, lease=60, wait=0).error, "LockBusy")

    def test_readers_share_and_several_names_are_one_lock(self):
        for name in ("a", "b"):
            self.assertIsNone(self.ask("lock", client="c", id=name, names=["w" + name], shared=["r"], group="g", lease=60).error)
        self.assertEqual(self.ask("lock", client="c", id="d", names=["free", "r"], group="g", lease=60).error, "LockBusy")
        self.assertIsNone(self.ask("lock", client="c", id="d", names=["free"], group="g", lease=60).error)

    def test_a_lock_is_renewed_past_its_lease(self):
        self.take("x", lease=4)
        self.assertEqual(self.own_waits_for("x", 6), "LockTimedOut")
        self.assertFalse(self.ask("state", id="x").lost)
        self.assertIsNone(self.ask("release", id="x").error)

    def own_waits_for(self, name, seconds):
        try:
            self.own.lock(name, wait=seconds).acquire().release()
            return "acquired"
        except lockstock.Error as error:
            return type(error).__name__

    def test_max_hold_ends_the_renewal(self):
        self.take("x", lease=1, max_hold=2)
        self.assertEqual(self.own_waits_for("x", 60), "acquired")
        self.ask("lost", id="x")
        self.assertEqual(self.ask("release", id="x").error, "LockLost")

    def take_away(self, name):
        """Takes the lock away. Its lease is so long that a renewal cannot discover it in time."""
        self.force_release(name)
        self.ask("lost", id=name)
        self.assertTrue(self.ask("state", id=name).lost)
        lost = self.ask("release", id=name)
        self.assertEqual((lost.error, lost.reason), ("LockLost", "lease_lost"))

    def test_a_forced_release_is_told_at_once(self):
        self.take("x", lease=6 * LIMIT_S)
        self.take_away("x")
        self.take("y", lease=6 * LIMIT_S)
        self.take("z", lease=6 * LIMIT_S)
        self.take_away("z")
        self.take_away("y")

    def test_a_forced_release_is_told_after_a_restart(self):
        self.take("x", lease=6 * LIMIT_S)
        self.wait_for_renewal("x")
        self.server.restart()
        self.take_away("x")

    def test_a_lease_that_nobody_renews_is_lost_before_it_ends(self):
        self.take("x", lease=2)
        self.server.kill()
        self.ask("lost", id="x")
        self.assertTrue(self.ask("state", id="x").lost)
        self.server.start()
        self.assertEqual(self.ask("release", id="x").error, "LockLost")

    def test_a_lock_survives_a_restart_of_the_server(self):
        self.take("x", lease=9)
        self.server.kill()
        threading.Event().wait(1)  # how long the server is away
        self.server.start()
        self.wait_for_renewal("x")
        self.assertIsNone(self.ask("release", id="x").error)

    def test_steps_of_the_wall_clock_lose_no_lock(self):
        with tempfile.TemporaryDirectory() as directory, open(f"{directory}/shift", "w+b", buffering=0) as shift:
            os.symlink(os.environ["LOCKSTOCK_SHIFTED_CLOCK"], f"{directory}/clock.so")  # LD_PRELOAD takes no path with a space in it
            shift.write(bytes(8))
            program = Program(DRIVER, SHIFTED_CLOCK=shift.name, LD_PRELOAD=f"{directory}/clock.so",
                              ASAN_OPTIONS="verify_asan_link_order=0:detect_leaks=0")
            self.addCleanup(program.close)
            self.ask = program.ask
            self.ask("connect", client="c", url=self.server.url)
            self.take("x", lease=6)
            for seconds in (3600, -3600):
                os.pwrite(shift.fileno(), struct.pack("<q", seconds * 1000000), 0)  # it is mapped
                self.wait_for_renewal("x")
                self.assertLessEqual(self.ask("state", id="x").remaining, 6)
                self.assertEqual(self.own_waits_for("x", 0), "LockBusy")
            self.assertIsNone(self.ask("release", id="x").error)

    def test_a_lock_survives_a_frozen_server(self):
        self.take("x", lease=18)
        self.server.freeze()
        threading.Event().wait(5)  # how long it is frozen
        self.server.thaw()
        self.wait_for_renewal("x")
        self.assertIsNone(self.ask("release", id="x").error)

    def test_a_lock_survives_when_another_server_takes_over(self):
        faults = self.through_faults()
        self.ask("connect", client="both", url=f"{faults.url},{self.server.url}")
        self.assertIsNone(self.ask("lock", client="both", id="x", names=["x"], lease=9).error)
        faults.close()
        self.assertLessEqual(self.wait_for_renewal("x"), 8.1)  # a tenth less than the lease
        self.assertIsNone(self.ask("release", id="x").error)

    def test_a_release_that_nobody_answers_goes_on_in_the_background(self):
        self.take("x", lease=600)
        self.server.kill()
        self.assertIsNone(self.ask("release", id="x").error)
        self.server.start()
        self.wait_for(lambda: not self.inspect("x").holders)

    def test_a_lock_whose_answer_was_lost_is_taken_once(self):
        faults = self.through_faults()
        faults.next("Acquire", ("lose",))
        self.assertIsNone(self.ask("lock", client="f", id="x", names=["x"], lease=60).error)
        self.assertEqual(len(faults.calls["Acquire"]), 2)
        self.assertIsNone(self.ask("release", id="x").error)
        self.wait_for(lambda: not self.inspect("x").holders)

    def test_a_lock_that_was_granted_to_nobody_is_given_back(self):
        faults = self.through_faults()
        faults.next("Acquire", ("answer", "INTERNAL", "MAYBE"))
        failed = self.ask("lock", client="f", id="x", names=["x"], lease=600)
        self.assertEqual((failed.error, failed.code, failed.applied), ("CallError", "INTERNAL", "MAYBE"))
        self.wait_for(lambda: not self.inspect("x").holders)

    def test_a_doubtful_try_before_a_refusal_leaves_nothing(self):
        held = self.own.lock("x", lease=60).acquire()
        faults = self.through_faults()
        faults.next("Acquire", ("lose",))
        busy = self.ask("lock", client="f", id="x", names=["x"], lease=600, wait=0)
        self.assertEqual(busy.error, "LockBusy")
        self.assertEqual(len(faults.calls["Release"]), 1)
        held.release()

    def test_a_spent_token_takes_nothing(self):
        faults = self.through_faults()
        faults.next("Acquire", ("lose",), ("answer", "UNAVAILABLE", "NO"))
        token = self.ask("lock", client="f", id="x", names=["x"], lease=60).token
        if not token:
            self.skipTest("the client does not show its tokens")
        self.ask("release", id="x")
        again = self.own.calls.lock.acquire(lock_pb2.AcquireRequest(token=token, targets=[lock_pb2.Target(name="x")], lease_ms=1000))
        self.assertEqual(again.outcome, lock_pb2.ACQUIRE_OUTCOME_TOKEN_SPENT)

    def test_ten_thousand_locks_are_kept_by_one_client(self):
        count, lease = (10000, 60) if os.environ.get("LOCKSTOCK_SOAK") else (500, 12)
        for first in range(0, count, 100):
            for wait in [self.start("lock", client="c", id=f"l{n}", names=[f"l{n}"], lease=lease)
                         for n in range(first, min(first + 100, count))]:
                self.assertIsNone(wait().error)
        self.wait_for_renewal("l0")
        self.wait_for_renewal(f"l{count - 1}")
        self.assertEqual([n for n in range(count) if self.ask("state", id=f"l{n}").lost], [])

    def test_a_wait_that_is_cancelled_holds_no_place(self):
        self.only_asyncio()
        held = self.own.lock("x", lease=60).acquire()
        waits = self.start("lock", client="c", id="x", names=["x"], lease=60, wait=100)
        self.wait_for(lambda: self.inspect("x").waiters == 1)
        self.ask("cancel", id="x")
        self.assertEqual(waits().error, "Cancelled")
        self.wait_for(lambda: self.inspect("x").waiters == 0)
        held.release()
        self.assertEqual(self.own_waits_for("x", 0), "acquired")

    def test_a_blocked_event_loop_loses_no_lock(self):
        self.only_asyncio()
        self.take("x", lease=6)
        self.ask("block", seconds=13)
        self.assertFalse(self.ask("state", id="x").lost)
        self.assertIsNone(self.ask("release", id="x").error)

    # ---- entries -------------------------------------------------------------------------

    def enter(self, **more):
        return self.start("enter", client="f", names=["x"], **{"lease": 600, "wait": 0, **more})

    def test_an_entry_whose_answer_was_lost_is_taken_once(self):
        faults = self.through_faults()
        faults.next("Enter", ("lose",))
        self.assertIsNone(self.enter()().error)
        self.assertEqual(len(faults.calls["Enter"]), 2)
        self.assertFalse(self.inspect("x").holders)

    def test_an_entry_that_was_granted_to_nobody_is_given_back(self):
        faults = self.through_faults()
        faults.next("Enter", ("answer", "INTERNAL", "MAYBE"))
        failed = self.enter()()
        self.assertEqual((failed.error, failed.code, failed.applied), ("CallError", "INTERNAL", "MAYBE"))
        self.wait_for(lambda: not self.inspect("x").holders)

    def test_a_doubtful_try_before_a_refused_entry_leaves_nothing(self):
        held = self.own.lock("x", lease=60).acquire()
        faults = self.through_faults()
        faults.next("Enter", ("lose",))
        self.assertEqual(self.enter()().error, "EnterRefused")
        self.assertEqual(len(faults.calls["Leave"]), 1)
        held.release()

    def test_an_entry_whose_first_renewal_fails_is_given_back(self):
        held = self.own.lock("x", lease=60).acquire()
        faults = self.through_faults()
        faults.next("Renew", ("answer", "INTERNAL", "MAYBE"))
        enters = self.enter(lease=1, wait=100)
        self.wait_for(lambda: self.inspect("x").waiters == 1)
        threading.Event().wait(0.5)  # longer than a third of the lease
        held.release()
        self.assertEqual(enters().error, "CallError")
        self.wait_for(lambda: "Leave" in faults.calls)

    # ---- other services -------------------------------------------------------------------

    def test_an_order_is_sold_once_when_its_answer_is_lost(self):
        self.own.stock.put("phone", 10)
        self.server.lose_next_reply()
        self.assertIsNone(self.ask("deduct", client="c", order="o", sku="phone", quantity=1).error)
        self.assertEqual(self.own.stock.get("phone").available, 9)

    def test_an_order_that_arrives_twice_is_sold_once(self):
        self.own.stock.put("phone", 10)
        faults = self.through_faults()
        faults.next("Deduct", ("twice",))
        self.assertTrue(self.ask("deduct", client="f", order="o", sku="phone", quantity=1).replayed)
        self.assertEqual(self.own.stock.get("phone").available, 9)

    def test_refused_and_doubtful_tries_are_repeated(self):
        self.own.stock.put("phone", 10)
        faults = self.through_faults()
        faults.next("Deduct", ("refuse", "UNAVAILABLE", "NO"), ("answer", "UNAVAILABLE", "MAYBE"), ("lose",))
        self.assertTrue(self.ask("deduct", client="f", order="o", sku="phone", quantity=1).replayed)
        self.assertEqual(len(faults.calls["Deduct"]), 4)
        self.assertEqual(self.own.stock.get("phone").available, 9)

    def test_a_server_that_does_not_answer_is_left(self):
        self.own.stock.put("phone", 1000)
        faults = self.through_faults()
        faults.next("Deduct", ("hang",), ("hang",))

        def one_was_asked(number=itertools.count()):  # a client goes to the other server when that is connected first
            self.ask("connect", client="both", url=f"{faults.url},{self.server.url}")
            self.assertIsNone(self.ask("deduct", client="both", order=f"o{next(number)}", sku="phone", quantity=1).error)
            return faults.calls["Deduct"]
        self.wait_for(one_was_asked)
        self.assertEqual(len(faults.calls["Deduct"]), 1)

    def test_other_errors_are_not_repeated(self):
        faults = self.through_faults()
        for code, applied in (("RESOURCE_EXHAUSTED", "NO"), ("INTERNAL", "MAYBE"), ("PERMISSION_DENIED", "NO")):
            faults.next("Deduct", ("refuse", code, applied))
            failed = self.ask("deduct", client="f", order="o", sku="phone", quantity=1)
            self.assertEqual((failed.code, failed.applied, len(faults.calls["Deduct"])), (code, applied, 1))

    def test_a_wrong_field_is_named(self):
        failed = self.ask("deduct", client="c", order="o", sku="phone", quantity=0)
        self.assertEqual((failed.code, failed.applied, failed.reason, failed.field),
                         ("INVALID_ARGUMENT", "NO", "invalid_field", "lines[0].quantity"))

    def test_sold_out(self):
        self.own.stock.put("phone", 1)
        self.assertEqual(self.ask("deduct", client="c", order="o", sku="phone", quantity=2).error, "SoldOut")
        self.assertEqual(self.ask("deduct", client="c", order="o", sku="tablet", quantity=2).outcome, "UNKNOWN_SKU")

    def test_nothing_was_applied_when_no_server_was_reached(self):
        self.ask("connect", client="none", url="grpc://127.0.0.1:9")
        failed = self.ask("deduct", client="none", order="o", sku="phone", quantity=1)
        self.assertEqual((failed.code, failed.applied, failed.reason), ("UNAVAILABLE", "NO", "server_unreachable"))
        self.assertRegex(failed.text, "(?i)connection refused|ECONNREFUSED")  # why

    def test_a_function_runs_once(self):
        first = self.ask("once", client="c", key="k", result={"paid": 5})
        again = self.ask("once", client="c", key="k", result={"paid": 6})
        self.assertEqual([(first.result, first.ran), (again.result, again.ran)], [({"paid": 5}, True), ({"paid": 5}, False)])

    def test_a_function_that_failed_runs_again_unless_it_gave_up(self):
        self.assertNotIn(self.ask("once", client="c", key="k", result=1, **{"raise": "error"}).error, (None, "OnceFailed"))
        self.wait_for(lambda: self.ask("once", client="c", key="k", result=2).result == 2)
        for _ in range(2):
            failed = self.ask("once", client="c", key="g", result=1, **{"raise": "give up"})
            self.assertEqual((failed.error, failed.detail), ("OnceFailed", "as told"))

    def test_a_function_whose_result_is_too_large_does_not_run_again(self):
        for result in ("x" * 300000, "small"):
            self.assertEqual(self.ask("once", client="c", key="k", result=result).error, "OnceFailed")

    def test_a_result_whose_answer_was_lost_is_stored_once(self):
        faults = self.through_faults()
        faults.next("Begin", ("lose",))
        faults.next("Complete", ("lose",))
        self.assertEqual(self.ask("once", client="f", key="k", result=1).ran, True)
        self.assertEqual(self.ask("once", client="c", key="k", result=2).result, 1)

    def test_an_attempt_that_nobody_runs_is_ended(self):
        faults = self.through_faults()
        faults.next("Begin", ("answer", "INTERNAL", "MAYBE"))
        self.assertEqual(self.ask("once", client="f", key="k", result=1).code, "INTERNAL")
        self.wait_for(lambda: self.ask("once", client="c", key="k", result=2).result == 2)

    def test_an_attempt_whose_first_extension_fails_is_ended(self):
        runs, ends = threading.Event(), threading.Event()

        @self.own.once("cases", key=lambda: "k", lease=60)
        def first():
            runs.set()
            ends.wait()
            raise ValueError("as told")
        held = threading.Thread(target=lambda: self.assertRaises(ValueError, first))
        held.start()
        runs.wait()
        faults = self.through_faults()
        faults.next("Extend", ("answer", "INTERNAL", "MAYBE"))
        second = self.start("once", client="f", key="k", result=1, lease=1, wait=100)
        self.wait_for(lambda: "Begin" in faults.calls)
        threading.Event().wait(0.5)  # longer than a third of the lease
        ends.set()
        self.assertEqual(second().code, "INTERNAL")
        self.wait_for(lambda: "Fail" in faults.calls)
        held.join()

    def test_a_limit(self):
        asks = [self.ask("limit", client="c", key="k", limit=2, period=600).allowed for _ in range(3)]
        self.assertEqual(asks, [True, True, False])

    def test_trouble_is_no_decision(self):
        faults = self.through_faults()
        faults.next("Check", *[("refuse", "RESOURCE_EXHAUSTED", "NO")])
        failed = self.ask("limit", client="f", key="k", limit=2, period=600)
        self.assertEqual((failed.error, failed.allowed), ("CallError", None))

    def test_a_reservation_comes_back_unless_it_is_confirmed(self):
        self.own.stock.put("phone", 10)
        self.assertIsNone(self.ask("reserve", client="c", order="a", sku="phone", quantity=3, confirm=True).error)
        self.assertIsNone(self.ask("reserve", client="c", order="b", sku="phone", quantity=4, confirm=False).error)
        self.wait_for(lambda: self.own.stock.get("phone").reserved == 0)
        item = self.own.stock.get("phone")
        self.assertEqual((item.available, item.sold), (7, 3))

    def test_a_closed_client_has_given_back_what_it_released(self):
        faults = self.through_faults()
        self.assertIsNone(self.ask("lock", client="f", id="x", names=["x"], lease=600).error)
        faults.next("Release", ("refuse", "INTERNAL", "MAYBE"))
        self.assertEqual(self.ask("release", id="x").code, "INTERNAL")
        self.assertIsNone(self.ask("close", client="f").error)
        self.assertEqual(len(self.inspect("x").holders), 0)


if __name__ == "__main__":
    options = sys.argv[1:3] if sys.argv[1] == "-k" else []
    DRIVER = sys.argv[1 + len(options):]
    unittest.main(argv=[sys.argv[0], *options])
