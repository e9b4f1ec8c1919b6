// Cases for Node only, and the scenes. LOCKSTOCKD is the path of lockstockd.
import assert from "node:assert/strict";
import { test } from "node:test";
import { connect, GiveUp, LockLost, OnceFailed, SoldOut } from "../index.js";
import { server } from "../testing.js";

const [BUYERS, ITEMS, KILLS] = process.env.LOCKSTOCK_SOAK ? [2000, 100, 5] : [200, 20, 2];

async function withServer(scene) {
  const fake = await server({ args: ["--fsync", "everysec"] });
  const ls = connect(fake.url, { timeoutMs: 30_000 });
  try {
    await scene(ls, fake);
  } finally {
    await ls.close();
    await fake.close();
  }
}

test("a flash sale sells exactly what there is while the server and its Redis are killed", () => withServer(async (ls, fake) => {
  await ls.stock.put("phone", ITEMS);
  const bought = new Set();
  const left = Array.from({ length: BUYERS }, (_, buyer) => buyer);
  const buy = async () => {
    for (let buyer; (buyer = left.pop()) !== undefined;) {
      const click = () => ls.stock.deduct(`order-${buyer}`, { phone: 1 }).then(() => bought.add(buyer), (error) => {
        if (!(error instanceof SoldOut)) throw error;
      });
      await Promise.all([click(), click()]); // a double click
    }
  };
  const buyers = Promise.all(Array.from({ length: 8 }, buy));
  for (let kills = 0; kills < KILLS; kills++) {
    await fake.kill();
    await fake.start();
  }
  await buyers;
  const { available, sold } = await ls.stock.get("phone");
  assert.deepEqual([available, sold, bought.size], [0n, BigInt(ITEMS), ITEMS]);
}));

test("a double click charges once while replies are lost and the server is killed", () => withServer(async (ls, fake) => {
  let charges = 0;
  const charge = ls.once("charge", { key: (id) => id, waitMs: 60_000 }, async () => {
    await fake.kill();
    await fake.start();
    return { charge: ++charges };
  });
  fake.loseNextReply();
  const answers = await Promise.all([charge("o"), charge("o")]);
  fake.loseNextReply();
  assert.deepEqual([...answers, await charge("o")], Array(3).fill({ charge: 1 }));
}));

test("a lock that is lost aborts the body's signal, and the call rejects with it", () => withServer(async (ls) => {
  const scene = ls.lock(["x"], { leaseMs: 3_600_000 }, async ({ signal }) => {
    await ls.calls.lock.forceRelease({ name: "x" });
    await new Promise((done) => signal.addEventListener("abort", done));
    assert.ok(signal.reason instanceof LockLost);
  });
  await assert.rejects(scene, LockLost);
}));

const entering = (key, more = {}) => ({ group: key, once: { scope: "sale", key }, locks: { targets: [{ name: key }] },
  stock: { orderId: key, holdMs: 60_000, lines: [{ sku: "lamp", quantity: 1 }] }, ...more });

test("an entry is renewed, and its result is replayed", () => withServer(async (ls) => {
  await ls.stock.put("lamp", 2, { group: "kept" });
  const first = await ls.enter(entering("kept", { leaseMs: 12_000 }), async (entry) => {
    const left = async () => (await ls.calls.lock.inspect({ group: "kept", name: "kept" })).holders[0].leaseMs;
    for (let before = await left(), now; (now = await left()) <= before; before = now) // until it is renewed
      await new Promise((done) => setTimeout(done, 20));
    assert.deepEqual([entry.lost, entry.attempt, entry.signal.aborted], [false, 1, false]);
    assert.ok(entry.fences.kept > 0n);
    await assert.rejects(ls.enter(entering("kept"), () => assert.fail("two are in")), { name: "EnterRefused", outcome: "IN_PROGRESS" });
    return { receipt: 7 };
  });
  assert.deepEqual([first, await ls.enter(entering("kept"), () => assert.fail("it runs twice"))], Array(2).fill({ receipt: 7 }));
  const { available, reserved, sold } = await ls.stock.get("lamp", { group: "kept" });
  assert.deepEqual([available, reserved, sold], [1n, 0n, 1n]);
}));

test("after an exception the next entry runs, and after GiveUp none", () => withServer(async (ls) => {
  await ls.stock.put("lamp", 1, { group: "failed" });
  await assert.rejects(ls.enter(entering("failed"), () => { throw new RangeError("no"); }), RangeError);
  const left = async () => (await ls.stock.get("lamp", { group: "failed" })).available;
  while (await left() === 0n) await new Promise((done) => setTimeout(done, 20));
  const gaveUp = { name: "OnceFailed", detail: "no money" };
  await assert.rejects(ls.enter(entering("failed"), ({ attempt }) => { throw new GiveUp(attempt === 2 ? "no money" : "?"); }), gaveUp);
  await assert.rejects(ls.enter(entering("failed"), () => assert.fail("it runs again")), gaveUp);
  assert.equal(await left(), 1n);
}));

test("an entry whose hold has ended is not stored", () => withServer(async (ls) => {
  await ls.stock.put("lamp", 1, { group: "ended" });
  const cancel = async () => { await ls.calls.stock.cancel({ group: "ended", orderId: "ended" }); };
  await assert.rejects(ls.enter(entering("ended"), cancel), { name: "HoldEnded" });
}));

test("the first caller gets what the later ones get", () => withServer(async (ls) => {
  const once = ls.once("json", { key: () => 7n }, () => [new Map([[1, 2]]), new Date(0), undefined]);
  assert.deepEqual([await once(), await once()], Array(2).fill([{}, "1970-01-01T00:00:00.000Z", null]));
  const nothing = ls.once("json", { key: () => "nothing" }, () => undefined);
  assert.deepEqual([await nothing(), await nothing()], [null, null]);
}));

test("a result that cannot be stored ends the key, and sells", () => withServer(async (ls) => {
  let ran = 0;
  const failed = { name: "OnceFailed", applied: "YES", detail: /^the function ran, but/ };
  for (const result of ["x".repeat(300_000), 1n]) {
    const once = ls.once("results", { key: () => typeof result, leaseMs: 1000 }, () => { ran++; return result; });
    await assert.rejects(once(), failed);
    await assert.rejects(once(), failed);
    await ls.stock.put("lamp", 1, { group: typeof result });
    await assert.rejects(ls.enter(entering(typeof result), () => { ran++; return result; }), failed);
    await assert.rejects(ls.enter(entering(typeof result), () => { ran++; }), failed);
    assert.equal((await ls.stock.get("lamp", { group: typeof result })).sold, 1n);
  }
  assert.equal(ran, 4);
}));

test("a failure that nobody answers is stored later", () => withServer(async (ls, fake) => {
  const away = connect(fake.url, { timeoutMs: 500 });
  const once = away.once("away", { key: () => "k", leaseMs: 600_000 }, async () => {
    await fake.kill();
    throw new GiveUp("as told \ud800");
  });
  await assert.rejects(once(), { name: "OnceDoubtful" });
  await fake.start();
  await assert.rejects(ls.once("away", { key: () => "k", waitMs: 60_000 }, () => assert.fail("it runs again"))(), { name: "OnceFailed" });
  await away.close();
}));

test("wrong arguments are named, and nothing is sent", () => withServer(async (ls) => {
  const refused = async (name, call) => assert.rejects(async () => call(), { name: "TypeError", message: new RegExp(`^${name}: `) });
  const body = () => assert.fail("it runs");
  for (const key of [undefined, null, NaN, 2 ** 60, { a: 1 }, true]) await refused("key", ls.once("s", { key: () => key }, body));
  await refused("lease", () => ls.lock("a", { lease: 60_000 }, body));
  await refused("lease", () => ls.once("s", { key: () => "k", lease: 1 }, body));
  await refused("encod", () => ls.enter(entering("k"), body, { encod: String }));
  await refused("cots", () => ls.limit("k", { limit: 5, periodMs: 1000, cots: 50 }));
  await refused("hold", () => ls.reserve("o", { phone: 1 }, { holdMs: 1000, hold: 1 }, body));
  await refused("buyr", () => ls.stock.deduct("o", { phone: 1 }, { buyr: "b" }));
  await refused("grup", () => ls.stock.get("phone", { grup: "g" }));
  await refused("grup", () => ls.stock.put("phone", 1, { grup: "g" }));
  await refused("nam", () => ls.ids(1, { nam: "n" }));
  await refused("wait", () => ls.ledger("phone", { wait: 1 }).next());
  await refused("timeout", () => ls.calls.lock.inspect({ name: "x" }, { timeout: 1 }));
  await refused("onHand", () => ls.stock.put("phone"));
  await refused("onHand", () => ls.stock.put("phone", "x"));
  await refused("leaseMs", () => ls.acquire("x", { leaseMs: "1s" }));
  await refused("leaseMs", () => ls.acquire("x", { leaseMs: 2 ** 63 }));
  await refused("lines", () => ls.stock.deduct("o", ["phone"]));
  await refused("lines", () => ls.stock.deduct("o", {}));
  await refused("names", () => ls.calls.lock.inspect({ name: "x" }).then(() => ls.acquire([])));
  await refused("targets.0..name", () => ls.acquire("\ud800x"));
  await refused("policy", () => ls.limit("k", { policy: "p", limit: 1, periodMs: 1 }));
  await refused("policy", () => ls.limit("k", { policy: null }));
  await refused("timeoutMs", () => ls.calls.lock.inspect({ name: "x" }, { timeoutMs: "5000" }));
  await refused("maxHoldMs", () => ls.acquire("x", { maxHoldMs: "1000" }));
  await refused("keepMs", () => ls.reserve("o", { phone: 1 }, { holdMs: 1000, keepMs: "60000" }, body));
  await refused("withinMs", () => ls.close({ withinMs: "x" }));
  assert.equal((await ls.limit("k", { limit: 5, periodMs: 1000, cost: 50 })).retryAfterMs, undefined);
}));

test("durations may be bigints", () => withServer(async (ls) => {
  await ls.lock("big", { leaseMs: 60_000n, maxHoldMs: 60_000n }, () => {});
  assert.equal(await ls.once("big", { key: () => "k", leaseMs: 60_000n }, () => 1)(), 1);
  await ls.stock.put("lamp", 1n, { group: "big" });
  assert.equal(await ls.enter(entering("big", { leaseMs: 60_000n }), () => 2), 2);
  await ls.stock.put("chair", 1n);
  assert.equal(await ls.reserve("big", { chair: 1 }, { holdMs: 60_000n, keepMs: 60_000n }, () => 3), 3);
}));

test("null and undefined are not given", () => withServer(async (ls) => {
  await ls.stock.put("phone", 1, { group: "g" });
  await ls.stock.deduct("o", { phone: 1 }, { group: "g", buyer: null });
  assert.equal((await ls.calls.lock.inspect({ name: "x", group: null })).holders.length, 0);
  assert.ok((await ls.limit("k", { policy: null, limit: 5, periodMs: 1000, cost: null })).allowed);
  await ls.lock("x", { maxHoldMs: null, owner: null }, () => {});
  const of = (key, part) => ({ group: key, leaseMs: undefined, owner: undefined, once: null, ...part });
  assert.equal(await ls.enter(of("locks", { locks: { targets: [{ name: "locks" }] } }), () => 1), 1);
  await ls.stock.put("lamp", 1, { group: "hold" });
  const stock = { orderId: "o", holdMs: 60_000, lines: [{ sku: "lamp", quantity: 1 }] };
  assert.equal(await ls.enter(of("hold", { stock }), () => 2), 2);
  assert.equal((await ls.stock.get("lamp", { group: "hold" })).sold, 1n);
}));

test("a result is stored later when the function for the token throws", () => withServer(async (ls, fake) => {
  let token = "good";
  const away = connect(fake.url, { token: async () => token ?? assert.fail("no token") });
  const once = (end) => away.once("token", { key: () => String(end), leaseMs: 600_000 }, () => { token = end; return "ran"; });
  for (const end of [undefined, "two\nlines"]) {
    await assert.rejects(once(end)(), end ? TypeError : assert.AssertionError);
    token = "good again";
    await away.lock("next", {}, () => {}); // the thread gets the new token
    const again = ls.once("token", { key: () => String(end), waitMs: 60_000 }, () => assert.fail("it runs again"));
    assert.equal(await again(), "ran");
  }
  await away.close();
}));

test("the longest waits are no error", () => withServer(async (ls) => {
  const timeoutMs = Number.MAX_SAFE_INTEGER;
  assert.equal((await ls.calls.stock.putItem({ sku: "phone", onHand: 1 }, { timeoutMs })).item.available, 1n);
  const far = connect("grpc://127.0.0.1:1", { timeoutMs: 100 });
  await assert.rejects(far.acquire("x", { waitMs: 1 }), { reason: "server_unreachable" });
  await far.close({ withinMs: Infinity });
}));

test("an error of this package can be made from a text", () => assert.equal(new OnceFailed("x").detail, ""));

test("wrong options of a client are named, and no secret is told", async () => {
  const refused = (name, url, options) => assert.throws(() => connect(url, options), { name: "TypeError", message: new RegExp(`^${name}: `) });
  refused("tokn", "grpc://h:1", { tokn: "x" });
  for (const name of ["caFile", "serverName"]) refused(name, "grpcs://h:1,grpc://h:2", { [name]: "x" });
  refused("certificateFile", "grpcs://h:1", { certificateFile: "x" });
  for (const timeoutMs of [0, "5000"]) refused("timeoutMs", "grpc://h:1", { timeoutMs });
  for (const url of [undefined, []]) refused("url", url);
  assert.throws(() => connect("grpc://h:1", { token: "one\ntwo" }), { message: "token: must be one line of ASCII" });
  const ls = connect("grpc://127.0.0.1:1", { token: "of a file\n", timeoutMs: 100 });
  await assert.rejects(ls.ids(), { reason: "server_unreachable" });
  await ls.close();
  await assert.rejects(ls.ids(), { code: "CANCELLED", applied: "NO" });
});

test("a server that does not start says why", () =>
  assert.rejects(server({ args: ["--nosuch"] }), /nosuch/));

test("a program that is not there is named", () =>
  assert.rejects(server({ program: "/nosuch" }), /\/nosuch ENOENT/));
