import { connect } from "lockstock";

const ls = connect(process.argv[2] ?? "grpc://127.0.0.1:7701");

await ls.lock("report", { leaseMs: 10_000, waitMs: 2_000 }, async ({ fence }) => {   // renewed until the function ends
  console.log(`locked with fence ${fence}`);
});

await ls.stock.put("phone", 500);
await ls.stock.deduct("order-1", { phone: 1 });                    // the same order sells once, however often it is sent

const charge = ls.once("pay", { key: (order) => order }, async (order) => {   // the second caller gets the first one's result
  console.log("charging", order);
  return "paid";
});
console.log(await charge("order-1"));

console.log((await ls.limit("alice", { limit: 5, periodMs: 60_000 })).allowed ? "go on" : "too often");
await ls.close();
