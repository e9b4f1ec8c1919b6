"""Cases for Python only: fork, asyncio, `with`; and the flash sale. LOCKSTOCKD is the path of lockstockd; PYTHONPATH has the package."""
import asyncio
import enum
import functools
import os
import signal
import socket
import threading
import time
import unittest
from concurrent import futures

import grpc

import lockstock
import lockstock.aio
import lockstock.testing
from lockstock.v1 import admin_pb2, guard_pb2, id_pb2, idempotency_pb2, lock_pb2, ratelimit_pb2, stock_pb2

LIMIT_S = 60


class WithServer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = lockstock.testing.server()
        cls.addClassCleanup(cls.server.close)

    def setUp(self):
        self.ls = lockstock.connect(self.server.url)
        self.addCleanup(self.ls.close)

    def holders(self, name):
        return len(self.ls.calls.lock.inspect(lock_pb2.InspectRequest(name=name)).holders)

    def wait_for(self, what):
        for _ in range(LIMIT_S * 50):
            if what():
                return
            threading.Event().wait(0.02)
        self.fail("it does not come true")

    def force_release(self, name):
        self.ls.calls.lock.force_release(lock_pb2.ForceReleaseRequest(name=name, reason="a test"))


class Locks(WithServer):
    def test_a_block_that_lost_its_lock_raises(self):
        with self.assertRaises(lockstock.LockLost):
            with self.ls.lock("lost", lease=1) as held:
                self.force_release("lost")
                self.wait_for(lambda: held.lost)
                self.assertEqual(held.remaining, 0)
                self.assertRaises(lockstock.LockLost, held.check)

    def test_the_blocks_own_error_comes_first(self):
        with self.assertRaises(ZeroDivisionError):
            with self.ls.lock("error", lease=1) as held:
                self.force_release("error")
                self.wait_for(lambda: held.lost)
                print(1 / 0)

    def test_a_lock_object_is_not_reentrant(self):
        lock = self.ls.lock("again")
        with lock:
            self.assertRaises(RuntimeError, lock.acquire)
        with lock:
            pass
        self.assertRaises(RuntimeError, lock.release)

    def test_a_forked_child_holds_nothing_and_releases_nothing(self):
        with self.ls.lock("forked", lease=60) as held:
            child = os.fork()
            if child == 0:
                right = held.lost and held.remaining == 0
                held.release()
                try:
                    self.ls.ids()
                except lockstock.CallError as error:
                    right = right and error.code == "FAILED_PRECONDITION"
                os._exit(0 if right else 1)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
            self.assertFalse(held.lost)
            self.assertEqual(self.holders("forked"), 1)

    def test_an_interrupted_acquire_holds_no_place(self):
        with self.ls.lock("interrupted", lease=60):
            main = threading.main_thread().ident
            asker = threading.Thread(target=lambda: (self.wait_for(lambda: self.waiters("interrupted") == 1),
                                                     signal.pthread_kill(main, signal.SIGINT)))
            asker.start()
            with self.assertRaises(KeyboardInterrupt):
                self.ls.lock("interrupted", wait=LIMIT_S).acquire()
            asker.join()
            self.wait_for(lambda: self.waiters("interrupted") == 0)

    def waiters(self, name):
        return self.ls.calls.lock.inspect(lock_pb2.InspectRequest(name=name)).waiters

    def test_wrong_arguments_are_named(self):
        for url in ("tcp://h:1", "grpc://h", "", "h:1"):
            self.assertRaisesRegex(ValueError, "^url: ", lockstock.connect, url)
        self.assertRaisesRegex(ValueError, "^names: ", self.ls.lock)
        self.assertRaisesRegex(ValueError, "^lease: ", self.ls.lock, "x", lease=-1)
        self.assertRaisesRegex(ValueError, "^policy: ", self.ls.limit, "x")
        self.assertRaisesRegex(ValueError, "^group: ", self.ls.stock.deduct, "o", {"a": 1, "b": 1})
        self.assertRaisesRegex(ValueError, "^kind: ", self.ls.ids, kind="roman")
        self.assertRaisesRegex(ValueError, "^policy: must not be given together", self.ls.limit, "x", policy="p", limit=1)
        self.assertRaisesRegex(ValueError, "^lines: ", self.ls.stock.deduct, "o", {})
        self.assertRaisesRegex(ValueError, "^lease: ", self.ls.lock, "x", lease=float("inf"))
        self.assertRaisesRegex(TypeError, "^on_hand: ", self.ls.stock.put, "x", None)
        for url in (None, []):
            self.assertRaisesRegex(ValueError, "^url: ", lockstock.connect, url)

    def test_wrong_options_of_a_client_are_named(self):
        def refused(url, **options):
            (name,) = list(options)[:1]
            self.assertRaisesRegex(ValueError, f"^{name}: ", lockstock.connect, url, **options)
        for name in ("ca_file", "server_name"):
            refused("grpcs://h:1,grpc://h:2", **{name: "x"})  # the token would go in clear text
        refused("grpcs://h:1", certificate_file="x")
        refused("grpcs://h:1", certificate_file="x", ca_file="x")
        refused("grpc://h:1", timeout=0)
        refused("grpc://h:1", timeout=float("inf"))
        self.assertRaisesRegex(ValueError, "^timeout: ", self.ls.calls.id.next, id_pb2.NextRequest(), timeout=0)
        refused("grpc://h:1", namespace="a\nb")
        for token in (b"", 0, False):
            self.assertRaisesRegex(TypeError, "^token: ", lockstock.connect, "grpc://h:1", token=token)

    def test_a_secret_token_is_in_no_message(self):
        with self.assertRaises(ValueError) as told:
            lockstock.connect(self.server.url, token="one\ntwo")
        self.assertEqual(str(told.exception), "token: must be one line of ASCII")
        with lockstock.connect(self.server.url, token="of a file\n", namespace="default") as ls:
            self.assertTrue(ls.ids())

    def test_a_closed_client_says_so(self):
        self.ls.close()
        with self.assertRaises(lockstock.CallError) as told:
            self.ls.ids()
        self.assertEqual((told.exception.code, told.exception.applied), ("CANCELLED", "NO"))

    def test_a_call_that_waits_to_connect_says_that_its_client_is_closed(self):
        away = socket.socket()
        self.addCleanup(away.close)
        away.bind(("127.0.0.1", 0))
        ls = lockstock.connect(f"grpc://127.0.0.1:{away.getsockname()[1]}", timeout=LIMIT_S)
        with futures.ThreadPoolExecutor(1) as pool:
            told = pool.submit(ls.ids)
            time.sleep(0.3)
            ls.close()
            error = told.exception(LIMIT_S / 2)
        self.assertIsInstance(error, lockstock.CallError)
        self.assertEqual((error.code, error.applied), ("CANCELLED", "NO"))

    def test_never_is_no_time_to_try_again(self):
        self.assertIsNone(self.ls.limit("never", limit=5, period=1, cost=50).retry_after)


class Once(WithServer):
    def test_the_first_caller_gets_what_the_later_ones_get(self):
        once = self.ls.once("json", key=lambda: "k")(lambda: {1: 2, "t": (1, 2)})
        self.assertEqual([once(), once()], [{"1": 2, "t": [1, 2]}] * 2)

    def test_only_texts_and_whole_numbers_are_keys(self):
        once = self.ls.once("keys", key=lambda key: key)(lambda key: key)
        for key in (None, True, 1.5, b"k", {"a": 1}):
            self.assertRaisesRegex(TypeError, "^key: ", once, key)
        self.assertEqual([once(7), once("7")], [7, 7])
        text = enum.Enum("Text", {"ONE": "one"}, type=str)
        number = enum.IntEnum("Number", {"EIGHT": 8})
        index = type("Index", (), {"__index__": lambda index: 8})
        self.assertEqual([once("one"), once(text.ONE), once(8), once(number.EIGHT), once(index())], ["one", "one"] + [8] * 3)
        nothing = self.ls.once("keys", key=lambda: "f", fingerprint=lambda: None)(lambda: 1)
        self.assertRaisesRegex(TypeError, "^fingerprint: ", nothing)

    def test_bytes_may_be_a_bytearray_or_a_memoryview(self):
        for of in (bytes, bytearray, lambda text: memoryview(bytes(text))):
            once = self.ls.once("bytes", key=lambda: "k", fingerprint=lambda: of(b"f"), encode=lambda result: of(b"r"), decode=bytes)
            self.assertEqual(once(lambda: 1)(), b"r")
            fresh = self.ls.once("bytes", key=lambda: repr(of), encode=lambda result: of(b"r"), decode=bytes)
            self.assertEqual(fresh(lambda: 1)(), b"r")

    def test_a_result_that_cannot_be_stored_ends_the_key(self):
        for name, encode in (("large", lambda result: b"x" * 300000), ("text", lambda result: "x"), ("none", lambda result: 1 / 0)):
            ran = []
            once = self.ls.once("results", key=lambda: name, lease=1, encode=encode)(lambda: ran.append(1))
            for _ in range(2):
                with self.assertRaises(lockstock.OnceFailed) as told:
                    once()
                self.assertEqual(told.exception.applied, "YES")
                self.assertRegex(told.exception.detail, "the function ran, but")
            self.assertEqual(ran, [1])

    def test_a_failure_that_nobody_answers_is_stored_later(self):
        def function():
            self.server.kill()
            raise lockstock.GiveUp("as told")
        with lockstock.connect(self.server.url, timeout=0.5) as ls:
            self.assertRaises(lockstock.OnceDoubtful, ls.once("away", key=lambda: "k", lease=600)(function))
            self.server.start()
            again = self.ls.once("away", key=lambda: "k", wait=LIMIT_S)(lambda: self.fail("it runs again"))
            self.assertRaises(lockstock.OnceFailed, again)

    def test_each_client_takes_its_kind_of_function(self):
        async def function():
            return 1

        async def scene():
            async with lockstock.aio.connect(self.server.url) as ls:
                called = functools.partial(type("Called", (), {"__call__": lambda called: function()})())
                for key, one in enumerate((function, lambda: function(), called, lambda: 1)):
                    once = ls.once("kinds", key=lambda: key)(one)
                    self.assertEqual([await once(), await once()], [1, 1])
        asyncio.run(scene())
        self.assertRaisesRegex(TypeError, "async", self.ls.once("s", key=lambda: "k"), function)
        once = self.ls.once("s", key=lambda: "k", wait=LIMIT_S)
        self.assertRaisesRegex(TypeError, "awaitable", once(lambda: function()))
        self.assertEqual(once(lambda: 1)(), 1)  # the key has not ended


class Entries(WithServer):
    def request(self, key, **fields):
        return guard_pb2.EnterRequest(group=key, once=guard_pb2.GuardOnce(scope="sale", key=key),
                                      locks=guard_pb2.GuardLocks(targets=[lock_pb2.Target(name=key)]),
                                      stock=guard_pb2.GuardStock(order_id=key, hold_ms=60000,
                                                                 lines=[stock_pb2.Line(sku="lamp", quantity=1)]), **fields)

    def test_an_entry_is_renewed_and_its_result_replayed(self):
        self.ls.stock.put("lamp", 2, group="kept")
        def left():
            return self.ls.calls.lock.inspect(lock_pb2.InspectRequest(group="kept", name="kept")).holders[0].lease_ms

        with self.ls.enter(self.request("kept", lease_ms=6000)) as entry:
            self.assertEqual(entry.attempt, 1)
            self.assertGreater(entry.fences["kept"], 0)
            seen = [left()]
            self.wait_for(lambda: seen.append(left()) or seen[-1] > seen[-2])  # it is renewed
            entry.check()
            with self.assertRaises(lockstock.EnterRefused) as refused:
                with self.ls.enter(self.request("kept", lease_ms=1000)):
                    self.fail("two are in")
            self.assertEqual(refused.exception.outcome, "IN_PROGRESS")
            entry.store(b"a receipt")
        with self.ls.enter(self.request("kept")) as again:
            self.assertEqual(again.result.body, b"a receipt")
        item = self.ls.stock.get("lamp", group="kept")
        self.assertEqual((item.available, item.reserved, item.sold), (1, 0, 1))

    def test_after_an_exception_the_next_one_runs(self):
        self.ls.stock.put("lamp", 1, group="failed")
        with self.assertRaises(ZeroDivisionError):
            with self.ls.enter(self.request("failed")):
                print(1 / 0)
        self.wait_for(lambda: self.ls.stock.get("lamp", group="failed").available == 1)
        with self.assertRaises(lockstock.GiveUp):
            with self.ls.enter(self.request("failed")) as entry:
                self.assertEqual(entry.attempt, 2)
                raise lockstock.GiveUp("no money \ud800")
        with self.ls.enter(self.request("failed")) as again:
            self.assertEqual(again.result.code, -1)
        self.assertEqual(self.ls.stock.get("lamp", group="failed").available, 1)

    def test_a_result_that_is_too_large_ends_the_key_and_sells(self):
        self.ls.stock.put("lamp", 1, group="large")
        with self.assertRaises(lockstock.OnceFailed) as told:
            with self.ls.enter(self.request("large")) as entry:
                entry.store(b"x" * 300000)
        self.assertEqual(told.exception.applied, "YES")
        with self.ls.enter(self.request("large")) as again:
            self.assertEqual(again.result.code, -1)
        self.assertEqual(self.ls.stock.get("lamp", group="large").sold, 1)

    def test_an_entry_without_once_stores_nothing(self):
        request = guard_pb2.EnterRequest(group="only", locks=guard_pb2.GuardLocks(targets=[lock_pb2.Target(name="only")]))
        with self.ls.enter(request) as entry:
            entry.store(b"x" * 300000)

    def test_a_lock_that_is_taken_away_and_a_hold_that_ends(self):
        self.ls.stock.put("lamp", 1, group="ended")
        with self.assertRaises(lockstock.HoldEnded):
            with self.ls.enter(self.request("ended", lease_ms=1000)) as entry:
                self.ls.calls.stock.cancel(stock_pb2.CancelRequest(group="ended", order_id="ended"))
                self.wait_for(lambda: entry.lost)
                self.assertRaises(lockstock.LockLost, entry.check)

    def test_in_asyncio(self):
        async def scene():
            async with lockstock.aio.connect(self.server.url) as ls:
                await ls.stock.put("lamp", 1, group="async")
                async with ls.enter(self.request("async")) as entry:
                    entry.store(b"done", code=7)
                async with ls.enter(self.request("async")) as again:
                    return again.result
        result = asyncio.run(scene())
        self.assertEqual((result.code, result.body), (7, b"done"))


class InAsyncio(WithServer):
    def run_with(self, scene):
        async def run():
            async with lockstock.aio.connect(self.server.url) as ls:
                await scene(ls)
        asyncio.run(asyncio.wait_for(run(), LIMIT_S))

    def test_a_lost_lock_cancels_its_block(self):
        async def scene(ls):
            with self.assertRaises(lockstock.LockLost):
                async with ls.lock("a-lost", lease=1):
                    self.force_release("a-lost")
                    await asyncio.sleep(LIMIT_S * 2)
            await asyncio.sleep(0)  # the task itself is not cancelled
        self.run_with(scene)

    def test_a_cancelled_block_releases(self):
        async def hold(ls, held):
            async with ls.lock("a-held", lease=60):
                held.set()
                await asyncio.sleep(LIMIT_S * 2)

        async def scene(ls):
            held = asyncio.Event()
            task = asyncio.ensure_future(hold(ls, held))
            await held.wait()
            task.cancel()
            self.assertIsInstance((await asyncio.gather(task, return_exceptions=True))[0], asyncio.CancelledError)
            self.assertEqual(self.holders("a-held"), 0)
        self.run_with(scene)

    def test_a_cancelled_release_releases(self):
        async def scene(ls):
            lock = await ls.lock("a-released", lease=60).acquire()
            self.server.freeze()
            task = asyncio.ensure_future(lock.release())
            await asyncio.sleep(0.05)  # any moment before the answer will do
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            self.server.thaw()
            self.wait_for(lambda: self.holders("a-released") == 0)
        self.run_with(scene)

    def test_a_call_says_that_its_client_is_closed(self):
        async def scene(ls):
            away = socket.socket()
            self.addCleanup(away.close)
            away.bind(("127.0.0.1", 0))
            connecting = lockstock.aio.connect(f"grpc://127.0.0.1:{away.getsockname()[1]}", timeout=LIMIT_S)
            waiting = lockstock.aio.connect(self.server.url, timeout=LIMIT_S)
            async with ls.lock("a-closed", lease=60):
                calls = [asyncio.ensure_future(call) for call in (connecting.ids(), waiting.lock("a-closed", wait=LIMIT_S).acquire())]
                while self.ls.calls.lock.inspect(lock_pb2.InspectRequest(name="a-closed")).waiters == 0:
                    await asyncio.sleep(0.02)
                await connecting.close()
                await waiting.close(0.1)
                errors = await asyncio.gather(*calls, return_exceptions=True)
            self.assertEqual([(type(error), error.code, error.applied) for error in errors],
                             [(lockstock.CallError, "CANCELLED", "NO"), (lockstock.CallError, "CANCELLED", "MAYBE")])
        self.run_with(scene)

    def test_once_and_the_ledger(self):
        async def scene(ls):
            @ls.once("a-once", key=lambda order: order)
            async def charge(order):
                return {"order": order, "attempt": lockstock.attempt().number}

            self.assertEqual([await charge("o"), await charge("o")], [{"order": "o", "attempt": 1}] * 2)
            self.assertRaises(RuntimeError, lockstock.attempt)
            await ls.stock.put("a-phone", 1)
            async with ls.reserve("o", {"a-phone": 1}, hold=60) as reservation:
                await reservation.confirm()
            kinds = [stock_pb2.LedgerKind.Name(entry.kind)[len("LEDGER_KIND_"):] async for entry in ls.ledger("a-phone")]
            self.assertEqual(kinds, ["PUT", "RESERVED", "CONFIRMED"])
        self.run_with(scene)


class Calls(WithServer):
    def test_every_method_is_there(self):
        for attribute, module in (("lock", lock_pb2), ("stock", stock_pb2), ("idempotency", idempotency_pb2),
                                  ("rate_limit", ratelimit_pb2), ("id", id_pb2), ("guard", guard_pb2),
                                  ("admin", admin_pb2)):
            (service,) = module.DESCRIPTOR.services_by_name.values()
            there = {name for name in dir(getattr(self.ls.calls, attribute)) if not name.startswith("_")}
            self.assertEqual({name.rstrip("_").replace("_", "") for name in there}, {m.name.lower() for m in service.methods})
        self.assertTrue(self.ls.calls.admin.get_status(admin_pb2.GetStatusRequest()))

    def test_token_and_namespace_go_along(self):
        seen = []

        class Seen(grpc.GenericRpcHandler):
            def service(self, details):
                seen.append(dict(details.invocation_metadata))

        server = grpc.server(futures.ThreadPoolExecutor(1))
        port = server.add_insecure_port("127.0.0.1:0")
        server.add_generic_rpc_handlers((Seen(),))
        server.start()
        self.addCleanup(server.stop, None)
        tokens = iter(("first", "second"))
        with lockstock.connect(f"grpc://127.0.0.1:{port}", token=lambda: next(tokens), namespace="shop") as ls:
            for _ in range(2):
                with self.assertRaises(lockstock.CallError) as told:
                    ls.ids()
                self.assertEqual(told.exception.code, "UNIMPLEMENTED")
        self.assertEqual([(one["authorization"], one["lockstock-namespace"]) for one in seen],
                         [("Bearer first", "shop"), ("Bearer second", "shop")])


class Away(unittest.TestCase):
    def test_a_call_without_an_id_was_not_sent_to_a_server_that_is_away(self):
        with lockstock.testing.server("--fsync", "always") as server, lockstock.connect(server.url) as ls:
            ls.stock.put("phone", 1)
            server.kill()
            request = stock_pb2.GetItemRequest(sku="phone")
            self.assertRaises(lockstock.CallError, ls.calls.stock.get_item, request, timeout=0.5)
            with self.assertRaises(lockstock.CallError) as told:
                ls.calls.stock.put_item(stock_pb2.PutItemRequest(sku="phone", on_hand=2), timeout=0.5)
            self.assertEqual((told.exception.applied, told.exception.reason), ("NO", "server_unreachable"))


class FlashSale(unittest.TestCase):
    """Buyers in threads send each order twice while the server is killed: exactly the available units are sold."""

    BUYERS, ITEMS, KILLS = (2000, 100, 5) if os.environ.get("LOCKSTOCK_SOAK") else (200, 20, 2)

    def test_nothing_is_oversold_while_the_server_is_killed(self):
        with lockstock.testing.server() as server, lockstock.connect(server.url, timeout=30) as ls:
            ls.stock.put("phone", self.ITEMS)
            bought, errors, left = [], [], iter(range(self.BUYERS))

            def buy():
                for buyer in left:
                    for _ in range(2):  # a double click
                        try:
                            bought.append((buyer, ls.stock.deduct(f"order-{buyer}", {"phone": 1}).replayed))
                        except lockstock.SoldOut:
                            pass
                        except Exception as error:
                            errors.append(error)

            threads = [threading.Thread(target=buy) for _ in range(8)]
            for thread in threads:
                thread.start()
            for _ in range(self.KILLS):
                server.kill()
                server.start()
            for thread in threads:
                thread.join()
            item = ls.stock.get("phone")
            self.assertEqual(errors, [])
            self.assertEqual((item.available, item.sold), (0, self.ITEMS))
            self.assertEqual(len({buyer for buyer, _ in bought}), self.ITEMS)


if __name__ == "__main__":
    unittest.main()
