// Uses of the API, compiled but not run.
import { server } from "../testing.js";
import { connect, LockLost, SoldOut, type Decision } from "../index.js";

interface Order { id: string; amount: number }

export async function scene(): Promise<number> {
  const fake = await server({ args: ["--metrics"] });
  const ls = connect([fake.url, "grpc://b:7701"], { token: async () => "secret", namespace: "shop" });
  const { holders } = await ls.calls.lock.inspect({ name: "report" });
  const fences: bigint[] = holders.map(({ fence }) => fence);
  // @ts-expect-error a request has no such field
  await ls.calls.lock.inspect({ nam: "report" });
  const length: number = await ls.lock(["report"], { leaseMs: 10_000, waitMs: 2_000 }, async ({ fence, signal }) => {
    const text: string = `${fence + 1n} ${signal.aborted}`;
    return text.length;
  });
  const charge = ls.once("charge", { key: (order: Order) => order.id }, async (order, { attempt }) => ({ paid: order.amount, attempt }));
  const { paid } = await charge({ id: "o", amount: 5 });
  const receipt: string = await ls.enter({ group: "g", once: { scope: "sale", key: "o" }, locks: { targets: [{ name: "x" }] } },
    async (entry) => `${entry.fences.x + 1n} ${entry.answer.rules.length}`);
  console.log(receipt);
  const decision: Decision = await ls.limit("ip", { policy: "login" });
  // @ts-expect-error a limit has a period
  await ls.limit("ip", { limit: 5 });
  // @ts-expect-error the options are named in camelCase
  await ls.acquire("x", { lease_ms: 10 });
  try {
    await ls.reserve("o", { phone: 1 }, { holdMs: 600_000 }, (reservation) => reservation.confirm());
  } catch (error) {
    if (error instanceof SoldOut) return Number(error.lines[0].available);
    if (error instanceof LockLost) return error.applied === "MAYBE" ? 1 : 0;
  }
  for await (const entry of ls.ledger("phone")) console.log(entry.quantity + 1n);
  await ls.close();
  return length + paid + decision.remaining + fences.length;
}
