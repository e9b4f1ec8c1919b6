// What only Node has, and the scenes. LOCKSTOCKD names the server's program.
import assert from "node:assert/strict";
import { test } from "node:test";
import { connect, LockLost, SoldOut } from "../index.js";
import { server } from "../testing.js";

const [BUYERS, ITEMS, KILLS] = process.env.LOCKSTOCK_SOAK ? [2000, 100, 5] : [200, 20, 2];

async function withServer(scene) {
  const fake = await server();
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

test("a server that does not start says why", () =>
  assert.rejects(server({ args: ["--nosuch"] }), /nosuch/));

test("a program that is not there is named", () =>
  assert.rejects(server({ program: "/nosuch" }), /\/nosuch ENOENT/));
