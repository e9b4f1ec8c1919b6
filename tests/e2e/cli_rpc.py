#!/usr/bin/env python3
# promise CL4: flags override the environment, which overrides the file; a field is given once; unknown flags, words
#   and variables are refused by name; a closed standard stream is not replaced by a connection; lists are read to their
#   end; a refusal, a wrong call and an unreachable server have exit codes of their own
# promise CL5: text from others cannot move the cursor, and wide characters keep columns aligned; times have units
"""lockstock SERVICE METHOD against a real lockstockd: every method, its flags, its answers and its exit codes.

    cli_rpc.py LOCKSTOCK LOCKSTOCKD
"""
import hashlib
import json
import os
import re
import subprocess
import tempfile
import unittest

from cli_scene import LOCKSTOCK, OK, OTHER, REFUSED, UNAVAILABLE, USAGE, Case, Server, main
from servers import make_certificate


class EachMethod(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.called = set()

    @classmethod
    def tearDownClass(cls):
        """Each method was called, by its name or its short name."""
        def of(*args):
            return subprocess.run([LOCKSTOCK, *args, "--help"], capture_output=True, check=True, text=True).stdout
        called = {re.match(r"usage: lockstock (\S+ \S+)", of(*words)).group(1) for words in cls.called}
        listed = re.findall(r"(?m)^  ([a-z][a-z-]+) +([a-z][a-z -]*)$", of().split("their methods:")[1])
        every = {f"{service} {method}" for service, methods in listed for method in methods.split()}
        super().tearDownClass()
        if cls.only == "*":
            assert len(every) == 47 and every <= called, every - called

    def run_cli(self, *args, **kwargs):
        self.called.add(args[:2])
        return super().run_cli(*args, **kwargs)

    def test_admin(self):
        self.assertRegex(self.out("admin", "get-status"), r"version +\d")
        self.assertIn("text", self.out("admin", "get-metrics"))
        self.assertNotIn("policy", self.out("admin", "who-am-i"))  # there is none

    def test_lock(self):
        taken = self.json("lock", "acquire", "door", "--wait", "5s", "--lease", "1m")
        self.assertEqual(taken["outcome"], "ACQUIRE_OUTCOME_ACQUIRED")
        token, fence = taken["token"], taken["fences"][0]["fence"]
        self.assertIn("busy", self.out("lock", "acquire", "door", "--lease", "10s", code=REFUSED))
        self.assertIn("timed-out", self.out("lock", "acquire", "door", "--lease", "10s", "--wait", "1ms", code=REFUSED))
        renewed = self.json("lock", "renew", f"door,names=door,token={token},lease=2m")
        self.assertEqual(renewed["results"][0]["outcome"], "RENEW_OUTCOME_RENEWED")
        self.assertIn("lost", self.out("lock", "renew", "--lease", f"door,token={'x' * 16},lease=1s", code=REFUSED))
        self.assertRegex(self.out("lock", "ls"), r"^GROUP +NAME +MODE +HOLDERS +LEASE +WAITERS\ndoor +door +exclusive +1 +1m5\ds +0\n$")
        self.assertEqual(self.out("lock", "list", "nothing"), "")
        self.assertRegex(self.out("lock", "inspect", "door"), rf"(?s)mode +exclusive\n.*last-fence +{fence}\n.*FENCE")
        self.assertRegex(self.out("lock", "check-fence", "file", fence), r"outcome +ok\nhigh-water +\d+\n")
        self.assertRegex(self.out("lock", "check-fence", "file", "1", code=REFUSED), "stale")
        self.assertEqual(self.json("lock", "reset-fence", "file", "0"), {"highWater": fence})
        self.assertRegex(self.out("lock", "release", "door", "--token", token), r"outcome +released\n")
        self.assertRegex(self.out("lock", "release", "door", "--token", "y" * 16, code=REFUSED), "not-held")
        self.json("lock", "acquire", "a,mode=permit,permits=2,capacity=3", "b,mode=shared", "--group", "g", "--lease",
                  "1h", "--owner", "me")
        self.assertEqual(self.json("lock", "watch-force-releases", "--wait", "1ms"), {"released": False})
        removed = self.json("lock", "force-release", "a", "--group", "g", "--reason", "test")["removed"]
        self.assertEqual([holder["owner"] for holder in removed], ["me"])

    def test_stock(self):
        self.assertRegex(self.out("stock", "put-item", "phone", "10", "--per-buyer-limit", "5"), r"available +10\n")
        self.assertIn("(ALREADY_EXISTS)", self.err("stock", "put", "phone", "1", "--must-be-new", code=REFUSED))
        order = ("--group", "phone")
        self.assertRegex(self.out("stock", "deduct", "o1", "ann", *order, "--line", "phone=2"),
                         r"outcome +deducted\n\nSKU +AVAILABLE\nphone +8\n")
        self.assertRegex(self.out("stock", "deduct", "--order", "o1", "--buyer", "ann", *order, "--line", "phone=2"),
                         r"replayed +yes")
        self.assertIn("buyer-limit", self.out("stock", "deduct", "o2", "ann", "--line", "phone=4", code=REFUSED))
        self.out("stock", "put", "case", "1", *order)
        self.assertIn("sold-out", self.out("stock", "reserve", "o3", *order, "--hold", "1m", "--line", "case=2", code=REFUSED))
        self.assertIn("reserved", self.out("stock", "reserve", "o4", "bob", "--hold", "1m", "--line",
                                           '{"sku":"phone","quantity":1}'))
        self.assertRegex(self.out("stock", "extend-hold", "o4", "2m", *order), r"hold +[12]m")
        self.assertRegex(self.out("stock", "confirm", "o4", *order), r"(?s)state +confirmed.*SKU +QUANTITY +RETURNED\nphone +1 +0\n")
        self.assertIn("unknown-order", self.out("stock", "cancel", "never", *order, code=REFUSED))
        self.assertIn("too-many", self.out("stock", "return", "r1", "o4", *order, "--line", "phone=2", code=REFUSED))
        self.assertIn("returned", self.out("stock", "return", "r2", "o4", *order))
        self.assertRegex(self.out("stock", "get-order", "o1", *order), r"order-id +o1\nstate +confirmed\n")
        self.assertRegex(self.out("stock", "adjust", "phone", "-3", "--reason", "broken"), r"available +5\n")
        self.assertEqual(self.json("stock", "get", "phone")["item"]["sold"], "2")
        self.assertIn("(NOT_FOUND)", self.err("stock", "get-item", "nothing", code=REFUSED))
        self.assertEqual(len(self.json("stock", "batch-get-items", "phone", "nothing")["items"]), 1)
        kinds = [entry["kind"][12:] for entry in self.json("stock", "read-ledger", *order)["entries"]]
        self.assertEqual(kinds, ["PUT", "DEDUCTED", "PUT", "RESERVED", "CONFIRMED", "RETURNED", "ADJUSTED"])
        last = self.json("stock", "read-ledger", *order, "--limit", "1")["entries"][0]["id"]
        self.assertEqual(self.out("stock", "trim-ledger", last, *order), "")
        self.assertIn("trimmed", self.out("stock", "read-ledger", "0-0", *order, code=REFUSED))
        self.assertEqual(self.out("stock", "delete-item", "phone"), "")

    def test_guard(self):
        parts = ("--once", "scope=pay,key=k", "--locks", "targets=door")
        limits = {"rules": [{"key": "ann", "limit": {"algorithm": "ALGORITHM_FIXED_WINDOW", "limit": "5", "periodMs": "86400000"}}]}
        entered = self.json("guard", "enter", *parts, "--limits", json.dumps(limits), "--lease", "1m")
        self.assertEqual(entered["outcome"], "ENTER_OUTCOME_ENTERED")
        self.assertEqual(entered["fences"][0]["name"], "door")
        self.assertIn("in-progress", self.out("guard", "enter", *parts, "--lease", "1m", code=REFUSED))
        self.assertIn("busy", self.out("guard", "enter", "--locks", "targets=door", "--lease", "1m", code=REFUSED))
        self.assertIn("renewed", self.out("guard", "renew", entered["token"], *parts, "--lease", "2m"))
        self.assertIn("left", self.out("guard", "leave", entered["token"], "complete", *parts, "--body", "done"))
        self.assertEqual(self.json("guard", "enter", *parts, "--lease", "1m")["result"]["body"], "ZG9uZQ==")  # "done"
        self.assertIn("lock-lost", self.out("guard", "renew", entered["token"], "--locks", "targets=door", "--lease", "1m", code=REFUSED))
        self.assertIn("superseded", self.out("guard", "leave", "x" * 16, "retryable", *parts, code=REFUSED))

    def test_lists_are_whole(self):
        for i in range(19):
            self.out("stock", "put", f"sku-{i:02}", "1", "--group", "all")
        items = self.json("stock", "list-items", "--group", "all", "--page-size", "3")
        self.assertEqual([item["sku"] for item in items["items"]], [f"sku-{i:02}" for i in range(19)])
        self.assertEqual(items["nextPageToken"], "")
        for size in ("1", "2"):
            self.assertEqual(self.json("stock", "list-items", "--group", "all", "--page-size", size), items)
        self.assertEqual(len(self.out("stock", "ls", "--group", "all", "--page-size", "3").splitlines()), 20)
        page = self.json("stock", "ls", "--group", "all", "--page-size", "3", "--page-token", "")
        self.assertEqual(len(page["items"]), 3)
        page = self.json("stock", "ls", "--group", "all", "--page-size", "3", "--page-token", page["nextPageToken"])
        self.assertEqual(page["items"][0]["sku"], "sku-03")

    def test_idempotency(self):
        begun = self.json("idempotency", "begin", "pay", "k1", "--lease", "1m", "--fingerprint", "abc")
        self.assertEqual(begun["outcome"], "BEGIN_OUTCOME_EXECUTE")
        fence = ("--fence", begun["fence"])
        self.assertIn("in-progress", self.out("idempotency", "begin", "pay", "k1", "--lease", "1m", "--fingerprint", "abc",
                                              code=REFUSED))
        self.assertIn("mismatch", self.out("idempotency", "begin", "pay", "k1", "--lease", "1m", code=REFUSED))
        self.assertIn("extended", self.out("idempotency", "extend", "pay", "k1", *fence, "--lease", "1m"))
        with open(f"{self.server.dir}/body", "wb") as body:
            body.write(b"\x00\xffreceipt")
        self.assertIn("stored", self.out("idempotency", "complete", "pay", "k1", *fence, "--code", "201", "--body",
                                         f"@{self.server.dir}/body", "--header", "type=a=b"))
        again = self.json("idempotency", "begin", "pay", "k1", "--lease", "1m", "--fingerprint", "abc")  # REPLAY is no refusal
        self.assertEqual(again["result"], {"code": 201, "body": "AP9yZWNlaXB0", "headers": [{"key": "type", "value": "a=b"}]})
        self.assertRegex(self.out("idempotency", "get", "pay", "k1"), r"(?s)state +completed\n.*KEY +VALUE\ntype +a=b\n")
        begun = self.json("idempotency", "begin", "pay", "k2", "--lease", "1m")
        self.assertIn("stored", self.out("idempotency", "fail", "pay", "k2", "--fence", begun["fence"], "--kind", "final",
                                         "--detail", "no money"))
        self.assertEqual(self.out("idempotency", "delete", "pay", "k2"), "")
        ticket = self.json("idempotency", "issue-ticket", "form", "ann", "--ttl", "1m")["ticket"]
        consume = ("idempotency", "consume-ticket", "form", "ann", "--ticket", ticket)
        self.assertIn("consumed", self.out(*consume))
        self.assertIn("already-consumed", self.out(*consume, code=REFUSED))

    def test_rate_limit(self):
        self.assertRegex(self.out("rate-limit", "put-policy", "login", "algorithm=fixed-window,limit=1,period=1h"),
                         r"limit limit +1\nlimit period +1h\n")
        check = ("rate-limit", "check", "login,key=ann", "--request", "a" * 16)
        self.assertIn("allowed", self.out(*check))
        self.assertIn("replayed  yes", self.out(*check))
        self.assertIn("denied", self.out("ratelimit", "check", "login,key=ann", code=REFUSED))
        self.assertRegex(self.out("rate-limit", "check", "login,key=bob", "--cost", "2", code=REFUSED), r"RETRY-AFTER\ndenied +1 +1 +never\n")
        self.assertIn("refunded", self.out("rate-limit", "refund", "--group", "ann", "--request", "a" * 16))
        self.assertIn("already-refunded", self.out("rate-limit", "refund", "--group", "ann", "--request", "a" * 16))
        self.assertEqual(self.out("rate-limit", "reset", "ann"), "")
        self.assertRegex(self.out("rate-limit", "get-policy", "login"), r"name +login\n")
        self.assertRegex(self.out("rate-limit", "ls"), r"NAME +LIMIT +VERSION\nlogin +algorithm=fixed-window limit=1 period=1h")
        self.assertEqual(self.out("rate-limit", "delete-policy", "login"), "")
        self.assertIn("no such policy", self.err("rate-limit", "check", "login,key=bob", code=REFUSED))

    def test_id(self):
        made = self.json("id", "next", "snowflake", "--count", "3")["ids"]
        self.assertEqual(len(set(made)), 3)
        self.assertRegex(self.out("id", "decode", made[0]), r"at-ms +\d{13}\nworker +\d+\nsequence +\d+\n")
        self.assertRegex(self.out("id", "next", "sequence", "orders"), r"ids +\d+\norder-scope +global\n")
        self.assertRegex(self.out("id", "next", "--kind", "ID_KIND_UUID_V7"), r"uuids +[0-9a-f]{8}-")


class WordsAndFlags(Case):
    def test_help_shows_methods_and_fields_of_the_contract(self):
        text = self.out("--help")
        self.assertIn("--server", text)
        methods = 0
        for line in re.search(r"(?s)methods:\n(.*?)\n\n", text).group(1).splitlines():
            service, *names = line.split()
            overview = self.out(service, "--help")
            methods += len(names)
            for name in names:
                self.assertIn(f"  {name} ", overview)
            self.assertTrue(self.out(service, name, "--help").startswith(f"usage: lockstock {service} {name} "))
        self.assertEqual(methods, 47)
        text = self.out("lock", "acquire", "--help")
        self.assertIn("Takes all targets or none. A repeat with the same token gets the same grant.\n", text)
        self.assertRegex(text, r"--lease TIME\n +How long the grant lasts unless renewed")
        self.assertIn("--line SKU=QUANTITY (several times)", self.out("stock", "deduct", "--help"))
        self.assertIn("--kind snowflake|uuid-v7|sequence", self.out("id", "next", "-h"))

    def test_an_error_is_one_line(self):
        for args, said in {
            (): "no command", ("lokc",): "lokc: unknown command", ("lock",): "lock: needs a method",
            ("lock", "take"): "take: unknown method; see --help", ("lock", "inspct"): "unknown method, did you mean inspect?",
            ("stock", "pu"): "did you mean put?", ("stokc",): "unknown command, did you mean stock?",
            ("stock", "put"): "--sku: is needed", ("stock", "put", "--on-hand", "1"): "--sku: is needed",
            ("stock", "return", "r1", "--group", "g"): "--order-id: is needed", ("lock", "acquire", "a"): "--lease: is needed",
            ("lock", "acquire", "--lease", "1s"): "--target: is needed",
            ("stock", "reserve", "o", "--line", "a=1"): "--hold: is needed",
            ("lock", "acquire", "a", "--lease", "100h"): "--lease: must be 10ms to 1d",
            ("lock", "renew", f"a,token={'x' * 16},lease=1ms"): "--lease 1: lease: must be 10ms to 1d",
            ("rate-limit", "put", "p", "algorithm=fixed-window,limit=1,period=400d"): "--limit: period: must be 1ms to 366d",
            ("stock", "put", "a"): "--on-hand: is needed", ("stock", "adjust", "a"): "--delta: is needed",
            ("stock", "put", "--json", '{"sku":"a"}'): "--on-hand: is needed",
            ("stock", "put", "--json", '{"sku":"a","onHand":null}'): "--on-hand: is needed",
            ("stock", "deduct", "o", "--line", "a=1,b=2"): "--line: must be field=value",
            ("stock", "deduct", "o", "--line", "quantity=1,a=2"): "--line: must be field=value",
            ("lock", "ls", "--prefx", "a"): "--prefx: unknown flag, did you mean --prefix?; see --help",
            ("lock", "ls", "--srver", "a"): "--srver: unknown flag, did you mean --server?",
            ("lock", "ls", "--server", "tcp://h:1", "--server", "tcp://h:1"): "--server: given more than once",
            ("--namespace", "a", "lock", "ls", "--namespace", "b"): "--namespace: given more than once",
            ("stock", "ledger", "a", "--group", "b"): "--group: given more than once",
            ("lock", "acquire", "a", "--lese", "1s"): "--lese: unknown flag, did you mean --lease?",
            ("status", "--hlp"): "--hlp: unknown flag, did you mean --help?",
            ("stock", "ledger", "a", "--folow"): "--folow: unknown flag, did you mean --follow?",
            ("stock", "ledger", "a", "--after", "x"): "--after: must be the id",
            ("stock", "deduct", "o", "--line", "sku=a,qty=1"): "--line: must be field=value",
            ("lock", "acquire", "nmae=a"): "--target: must be field=value", ("lock", "ls", "--colour"): "--colour: unknown flag",
            ("lock", "acquire", "a", "--lease", "10"): "--lease: must be a time with its unit",
            ("lock", "acquire", "a", "--lease", "5x"): "--lease: must be a time with its unit",
            ("lock", "acquire", "a", "--lease"): "--lease: needs a value",
            ("lock", "acquire", "a", "--lease-ms", "5"): "--lease: ",
            ("lock", "acquire", "a,colour=red"): "--target: must be field=value",
            ("lock", "acquire", "a,mode=odd"): "--target: mode: must be one of: exclusive shared permit",
            ("lock", "acquire", b"\xff"): "--target: name: not valid UTF-8",
            ("lock", "acquire", "a,mode=shared,mode=shared"): "--target: mode: given more than once",
            ("stock", "deduct", "o", "--line", "phone"): "--line: must be sku=quantity",
            ("stock", "deduct", "o", "--line", "x" * 200 + "=1"): "--line 1: sku: must be 1 to 128 bytes",
            ("stock", "deduct", "o", "--line", "phone=x"): "--line 1: quantity: must be a whole number",
            ("stock", "deduct", "o", "--line", "{"): "--line: not JSON",
            ("stock", "get", "a", "b"): "b: unexpected argument", ("stock", "get", "--json", "{]"): "--json: line 1",
            ("stock", "get", "--json", '{"skuu":"a"}'): "skuu: unknown field", ("stock", "get", "--json=[]"): "must be an object",
            ("stock", "put", "a", "--must-be-new=maybe"): "must be true or false", ("lock", "ls", "--", "ls"): "runs no program",
            ("lock", "ls", "--server", "tpc://x"): "--server: unknown scheme tpc", ("lock", "ls", "--timeout", "1"): "--timeout: must be a time",
            ("lock", "ls", "--tls-ca", "c"): "--tls-ca: needs a --server of tls:// or grpcs://",
            ("status", "--server", "grpc://h:1,tcp://h:1", "--tls-name", "n"): "--tls-name: needs a --server of tls:// or grpcs://",
            ("lock", "ls", "--server", "tls://h:1", "--tls-certificate", "c"): "--tls-key: is needed with --tls-certificate",
            ("lock", "ls", "--server", "tls://h:1", "--tls-key", "k"): "--tls-certificate: is needed with --tls-key",
            ("lock", "ls", "--config", "/nonexistent"): "/nonexistent: No such file",
            ("lock", "ls", "--config", "/"): "/: Is a directory",
            ("lock", "ls", "--token-file", "/nonexistent"): "--token-file: No such file",
            ("lock", "ls", "--token-file", "/"): "--token-file: Is a directory",
            ("lock", "ls", "--json=@/nonexistent"): "--json: No such file", ("lock", "ls", "--json=@/"): "--json: Is a directory",
            ("idempotency", "complete", "s", "k", "--body", "@/nonexistent"): "--body: No such file",
        }.items():
            with self.subTest(args=args):
                self.assertIn(said, self.err(*args, code=USAGE))

    def test_errors_in_json(self):
        self.assertEqual(self.failure("lock", "acquire", "a", "--lease", "1ms", code=USAGE),
                         {"code": "INVALID_ARGUMENT", "applied": "NO", "reason": "invalid_field", "field": "lease_ms",
                          "retry_after_ms": 0, "message": "--lease: must be 10ms to 1d"})
        self.assertIn("lease_ms: must be 10 to 86400000", self.err("lock", "acquire", "--json", '{"targets":[{"name":"a"}]}', code=USAGE))
        missing = self.failure("stock", "get", "nothing", code=REFUSED)
        self.assertEqual((missing["code"], missing["reason"], missing["field"]), ("NOT_FOUND", "not_found", "sku"))
        away = self.failure("lock", "ls", "--server", "unix:///nonexistent/s", "--timeout", "100ms", code=UNAVAILABLE)
        self.assertEqual((away["code"], away["reason"], away["field"]), ("UNAVAILABLE", "server_unreachable", ""))

    def test_a_line_that_names_its_fields(self):
        self.out("stock", "put", "phone", "5")
        self.out("stock", "deduct", "o", "--group", "phone", "--line", "sku=phone,quantity=2")
        self.out("stock", "deduct", "p", "--group", "phone", "--line", "phone,quantity=1")
        self.assertEqual(self.json("stock", "get", "phone")["item"]["available"], "2")

    def test_force_release_of_a_free_lock_fails(self):
        self.assertEqual(self.err("lock", "force-release", "nosuch", code=REFUSED), "lockstock: the lock is not held\n")

    def test_a_misspelt_variable(self):
        self.assertIn("LOCKSTOCK_SERVR: no such setting, did you mean LOCKSTOCK_SERVER?",
                      self.err("lock", "ls", code=USAGE, env={"LOCKSTOCK_SERVR": "tcp://h:1"}))
        self.out("lock", "ls", env={"LOCKSTOCK_LOCK": "a", "LOCKSTOCK_ELSEWHERE": "b"})  # of other programs

    def test_help_is_a_command(self):
        self.assertEqual(self.out("help"), self.out("--help"))
        self.assertEqual(self.out("help", "stock", "put"), self.out("stock", "put", "--help"))
        self.assertEqual(self.out("help", "run"), self.out("run", "--help"))
        self.assertEqual(self.out("stock", "help"), self.out("stock", "--help"))
        self.assertEqual(self.out("help", "help"), self.out("--help"))

    def test_an_error_does_not_print_the_value(self):
        self.assertEqual(self.err("lock", "ls", "--tokenn=hunter2", code=USAGE), "lockstock: --tokenn: unknown flag; see --help\n")

    def test_a_field_is_given_once(self):
        self.out("stock", "put", "phone", "500")
        for args in (("phone", "--sku", "case"), ("--sku", "phone", "7"), ("7", "--sku", "phone"),
                     ("phone", "7", "--on-hand", "8"), ("phone", "--on-hand", "7", "--on-hand", "8")):
            with self.subTest(args=args):
                self.assertIn("given more than once", self.err("stock", "put", *args, code=USAGE))
        self.assertEqual([item["available"] for item in self.json("stock", "ls")["items"]], ["500"])
        self.out("lock", "acquire", "a", "--target", "b", "--group", "g", "--lease", "1m")  # a list
        self.assertEqual(len(self.json("lock", "ls")["locks"]), 2)

    def test_a_request_in_json(self):
        self.out("stock", "put", "--json", '{"sku":"a","on_hand":3,"perBuyerLimit":"1"}')
        self.assertEqual(self.json("stock", "get", "a")["item"]["perBuyerLimit"], "1")
        out = self.out("stock", "put", "--json=@-", stdin=b'{"sku":"b","onHand":"4"}')
        self.assertEqual(json.loads(out)["item"]["available"], "4")
        with open(f"{self.server.dir}/request", "w") as file:
            file.write('{"sku":"c"}')
        out = self.out("stock", "put", f"--json=@{self.server.dir}/request", "--on-hand", "5")  # flags beside it
        self.assertEqual(json.loads(out)["item"]["available"], "5")

    def test_a_request_in_json_before_and_beside_flags(self):
        first = ("--json", '{"sku":"a","onHand":"4"}')
        self.assertEqual(json.loads(self.out(*first, "stock", "put"))["item"]["available"], "4")
        self.assertEqual(json.loads(self.out(*first, "stock", "put", "--on-hand", "5"))["item"]["available"], "5")
        self.assertEqual(json.loads(self.out("stock", "put", "--on-hand", "6", *first))["item"]["available"], "6")
        self.assertEqual(json.loads(self.out("stock", "put", *first, "--on-hand", "7"))["item"]["available"], "7")
        self.assertIn("nope: unknown field", self.err("--json", '{"nope":1}', "id", "decode", "5", code=USAGE))
        self.out("id", "decode", "--id", "5", "--json", "{}")
        self.assertIn("twice", self.err("stock", "put", "--json", '{"sku":"a","on_hand":1,"onHand":2}', code=USAGE))
        self.out("stock", "put", "b", "9", "--group", "a")
        for order, before, after in (("o1", ("--line", "b=1"), ()), ("o2", (), ("--line", "b=1"))):  # lists have both
            lines = json.loads(self.out("stock", "deduct", order, *before, "--json",
                                        '{"group":"a","lines":[{"sku":"a","quantity":2}]}', *after))["lines"]
            self.assertEqual(sorted(line["sku"] for line in lines), ["a", "b"])
        page = self.json("stock", "ls", '--json={"group":"a","pageSize":1,"pageToken":""}')  # a page that was named
        self.assertEqual(len(page["items"]), 1)

    def test_wide_names_move_no_column(self):
        self.out("stock", "put", "日本", "1")
        self.out("stock", "put", "phone", "2")
        first = [re.match(r"\S+ +", line).group(0) for line in self.out("stock", "ls").splitlines()]
        self.assertEqual(sorted(first), ["SKU    ", "phone  ", "日本   "])  # each is seven columns wide

    def test_server_text_prints_no_control_characters(self):
        self.out("lock", "acquire", "a", "--lease", "1m", "--owner", "\x1b[2Jé\x9b\n")
        self.assertRegex(self.out("lock", "inspect", "a"), r"OWNER.*\n\?\[2Jé\?+ ")

    def test_flags_beat_the_environment_which_beats_the_file(self):
        nobody = "unix:///nonexistent/s"
        fast = ("--timeout", "50ms")
        config = f"{self.server.dir}/.config/lockstock"
        os.makedirs(config)
        self.err("lock", "ls", *fast, env={"LOCKSTOCK_SERVER": nobody}, code=UNAVAILABLE)
        self.out("lock", "ls", "--server", self.server.url, env={"LOCKSTOCK_SERVER": nobody})
        self.out("--server", self.server.url, "lock", "ls", env={"LOCKSTOCK_SERVER": nobody})
        self.out("lock", "ls", env={"LOCKSTOCK_TLS_CA": "/nonexistent"})  # for servers over TLS
        with open(f"{config}/config", "w") as file:
            file.write(f"# a comment\nserver = {self.server.url}\nnamespace = of-the-file\n")
        del self.env["LOCKSTOCK_SERVER"], self.env["LOCKSTOCK_NAMESPACE"]
        self.out("lock", "acquire", "a", "--lease", "1m")
        self.assertIn("a", self.out("lock", "ls", "--namespace", "of-the-file"))
        self.assertEqual(self.out("lock", "ls", env={"LOCKSTOCK_NAMESPACE": "another"}), "")
        self.err("lock", "ls", *fast, env={"LOCKSTOCK_SERVER": nobody}, code=UNAVAILABLE)
        with open(f"{self.server.dir}/other", "w") as file:
            file.write(f"server = {nobody}\ntimeout = 50ms\n")
        self.err("lock", "ls", "--config", f"{self.server.dir}/other", code=UNAVAILABLE)
        self.err("lock", "ls", env={"LOCKSTOCK_CONFIG": f"{self.server.dir}/other"}, code=UNAVAILABLE)
        self.out("lock", "ls", env={"XDG_CONFIG_HOME": f"{self.server.dir}/.config"})
        for text, said in (("colour = red\n", "wrong:1: colour: unknown key"), ("\nnothing\n", "wrong:2: must be `key = value`"),
                           ("timeout = 5\n", "wrong:1: timeout: must be a time"), ("[x]\ntimeout = 5s\n", "wrong:1: sections are not supported in this file"),
                           ("namespace = a\nnamespace = b\n", "wrong:2: namespace: given more than once, first in line 1"),
                           ("namespace = a,\n  b\n", "wrong:2: must be `key = value`"),
                           ("\nnamespace = a\0b\n", "wrong:2: contains a NUL")):
            with open(f"{self.server.dir}/wrong", "w") as file:
                file.write(text)
            self.assertIn(said, self.err("lock", "ls", "--config", f"{self.server.dir}/wrong", code=USAGE))
        with open(f"{self.server.dir}/other", "w") as file:  # lines are long
            file.write(f"#{' ' * 198}namespace = b\nserver = {','.join(f'{nobody}-{n}' for n in range(20))},{self.server.url}\n")
        self.assertIn("a", self.out("lock", "ls", "--config", f"{self.server.dir}/other", "--namespace", "of-the-file"))
        os.remove(f"{config}/config")
        os.rmdir(config)


class Who(unittest.TestCase):
    """Over TLS, with a token of a file, where a policy says what each may do."""

    def test_a_token_over_tls(self):
        with tempfile.TemporaryDirectory(prefix="lc-", dir="/tmp") as own:
            make_certificate(f"{own}/key", f"{own}/certificate", "shop.internal")
            for name, text in (("policy", "[ann]\nnamespace = shop\nLockService = READ, WRITE\n"
                                "[ops]\nAdminService = ADMIN\n"), ("token", "secret-of-ann\n"), ("ops", "secret-of-ops\n"),
                               ("tokens", f"{hashlib.sha256(b'secret-of-ann').hexdigest()} ann\n"
                                f"{hashlib.sha256(b'secret-of-ops').hexdigest()} ops 4102444800\n"), ("empty", "\n")):
                with open(f"{own}/{name}", "w") as file:
                    file.write(text)
                os.chmod(f"{own}/{name}", 0o600)
            with Server("--policy", f"{own}/policy", "--tokens", f"{own}/tokens", "--tls-certificate",
                        f"{own}/certificate", "--tls-key", f"{own}/key", listen="tls://127.0.0.1:0") as server:
                self.calls(server, own)

    def calls(self, server, own):
        said = ""

        def code_of(*args, timeout="20s"):
            nonlocal said
            done = subprocess.run([LOCKSTOCK, "--server", server.url, "--timeout", timeout, *args], env={"HOME": own},
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=60, check=False)
            said = done.stderr.decode()
            return done.returncode

        trust = ("--tls-ca", f"{own}/certificate", "--tls-name", "shop.internal")
        token = ("--token-file", f"{own}/token")
        self.assertEqual(code_of("lock", "ls", *trust, *token), OK)
        self.assertEqual(code_of("lock", "ls", *trust), OTHER)
        self.assertIn("(UNAUTHENTICATED); identify yourself with --token-file", said)
        self.assertEqual(code_of("stock", "ls", *trust, *token), OTHER)
        self.assertIn("(PERMISSION_DENIED); the server's --policy grants", said)
        text = subprocess.run([LOCKSTOCK, "--server", server.url, "metrics", "--raw", *trust, "--token-file", f"{own}/ops"],
                              env={"HOME": own}, capture_output=True, timeout=60, check=True).stdout.decode()
        for line in ('calls_total{principal="ann",result="admitted"} 1', 'calls_total{principal="ann",result="refused"} 1',
                     'calls_total{principal="ops",result="admitted"} 1', 'waiting{principal="ann"} 0'):
            self.assertIn(f"\nlockstock_principal_{line}\n", text)
        self.assertIn('\nlockstock_token_expiry_timestamp_seconds{principal="ops"} 4102444800\n', text)
        self.assertNotIn('lockstock_token_expiry_timestamp_seconds{principal="ann"}', text)
        self.assertEqual(code_of("lock", "ls", *trust, "--token-file", f"{own}/empty"), USAGE)
        with open(f"{own}/nul", "wb") as file, open(f"{own}/token", "rb") as good:
            file.write(good.read().rstrip() + b"\0more\n")
        self.assertEqual(code_of("lock", "ls", *trust, "--token-file", f"{own}/nul"), USAGE)
        self.assertIn("--token-file: contains a NUL in its first line", said)
        self.assertEqual(code_of("lock", "ls", "--tls-ca", "/nonexistent", *token), USAGE)
        self.assertEqual(code_of("lock", "ls", *trust[:2], *token, timeout="300ms"), UNAVAILABLE)


if __name__ == "__main__":
    main()
