#!/usr/bin/env bash
# Runs a test program whose servers have a Redis Cluster of three primaries, each with a replica, for their store:
#   on_cluster.sh <redis-set.sh> <program> [argument...]
# For tests that do not access their store themselves. The data of one run is that of all its tests.
set -euo pipefail

set_sh=$1
shift
dir=$(mktemp -d)
"$set_sh" cluster "$dir/set" >"$dir/out" 2>&1 &
set_pid=$!

finish() {
  kill "$set_pid" 2>/dev/null || true
  wait "$set_pid" 2>/dev/null || true
  rm -rf "$dir"
}
trap finish EXIT

until grep -q '^ready' "$dir/out"; do
  kill -0 "$set_pid" 2>/dev/null || { cat "$dir/out" >&2; exit 1; }
  sleep 0.1
done
LOCKSTOCK_TEST_STORE=$(sed -n 's/^url=//p' "$dir/out") "$@"
