// Calls a second with the library over calls a second with bare grpc-js, in turns: speed.js HOST:PORT [ROUNDS]. Run by hand.
import grpc from "@grpc/grpc-js";
import { connect } from "../index.js";
import { requestOf, services } from "../lib/contract.js";

const CALLS = 1000, [address, rounds = 10] = process.argv.slice(2);
const ls = connect(`grpc://${address}`), client = new grpc.Client(address, grpc.credentials.createInsecure());
const method = services.stock.getItem;
await ls.stock.put("phone", 10);
const bare = () => new Promise((done, failed) => client.makeUnaryRequest(method.path, method.encode, method.decode,
  requestOf(method, { sku: "phone" }), new grpc.Metadata(), { deadline: Date.now() + 5000 }, (error, answer) => error ? failed(error) : done(answer)));
const seconds = async (call) => {
  const began = performance.now();
  for (let n = 0; n < CALLS; n++) await call();
  return performance.now() - began;
};
const ratios = [];
for (let round = 0; round < rounds; round++) ratios.push(await seconds(bare) / await seconds(() => ls.calls.stock.getItem({ sku: "phone" })));
ratios.sort((a, b) => a - b);
console.log(`library / bare: ${ratios[rounds >> 1].toFixed(2)} (${ratios[0].toFixed(2)} to ${ratios.at(-1).toFixed(2)})`);
client.close();
await ls.close();
