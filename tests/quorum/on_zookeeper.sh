#!/usr/bin/env bash
# Runs a test program whose lockstockds keep their locks in an ensemble of three ZooKeeper servers:
#   on_zookeeper.sh <zookeeper-set.sh> <program> [argument...]
# 77, for ctest to skip: there is no ZooKeeper here.
set -euo pipefail

set_sh=$1
shift
if ! command -v java >/dev/null || [ ! -e /usr/share/java/zookeeper.jar ]; then
  echo "skipped: needs the packages zookeeper and default-jre-headless"
  exit 77
fi
dir=$(mktemp -d)
"$set_sh" serve "$dir/set" >"$dir/out" 2>&1 &
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
LOCKSTOCK_TEST_ENSEMBLE=$("$set_sh" hosts "$dir/set") "$@"
