#!/bin/bash
# Packs the package and uses it from a project that has nothing else: package.sh PACKAGE_DIR. Its dependencies are those of the
# project's package-lock.json, found in a folder above. Skipped (77) without npm.
set -euo pipefail
command -v npm > /dev/null || { echo "skipped: needs npm"; exit 77; }
work=$(mktemp -d "$1/../node-package-XXXXXX")
trap 'rm -rf "$work"' EXIT
(cd "$1" && npm pack --silent --pack-destination "$work" > /dev/null)
mkdir -p "$work/node_modules"
tar -xzf "$work"/lockstock-*.tgz -C "$work/node_modules"
mv "$work/node_modules/package" "$work/node_modules/lockstock"
cd "$work"
cat > use.mjs <<'USE'
import { connect, SoldOut } from "lockstock";
import { server } from "lockstock/testing";
const ls = connect("grpc://127.0.0.1:1", { timeoutMs: 100 });
const error = await ls.stock.deduct("o", { phone: 1 }).catch((failure) => failure);
if (error.applied !== "NO" || error.reason !== "server_unreachable" || error instanceof SoldOut) throw error;
let wrong;
try { await ls.calls.lock.acquire({ targets: [{ nam: "x" }] }); } catch (failure) { wrong = failure.message; }
if (wrong !== "targets[0].nam: Target has no such field") throw new Error(wrong);
await ls.close();
const unable = await server({ program: "/nosuch" }).catch((failure) => failure);
if (unable.code !== "ENOENT") throw unable;
USE
node use.mjs
node -e 'if (!/^[1-9]|^0\.[1-9]/.test(require("./node_modules/lockstock/package.json").version)) process.exit(1)'
