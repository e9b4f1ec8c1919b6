#!/usr/bin/env bash
# examples/ledger/run.sh [--naive]
# Starts a Redis, two lockstockd and a MariaDB of its own, on unix sockets and loopback
# ports in a temporary directory; sells on both servers while the consumer is killed with
# SIGKILL again and again; then prints what both sides say. Exit 0: they are equal.
# KILLS=20 is how often, BUILD=build/release where the programs are.
set -euo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd -P)
. "$root/packaging/install.sh"

build=${BUILD:-$root/build/release}
kills=${KILLS:-20}
naive=()
case "${1:-}" in
"") ;;
--naive) naive=(--naive) ;;
*) die "usage: examples/ledger/run.sh [--naive]" ;;
esac

work=$(mktemp -d)
pids=()
clean_up() {
  local status=$?
  trap '' INT TERM
  for pid in "${pids[@]}"; do kill -TERM "$pid" 2>/dev/null || true; done
  for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
  rm -rf "$work"
  exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

until_log() { # pid log text
  until grep -qs "$3" "$2"; do
    kill -0 "$1" 2>/dev/null || { tail -n 20 "$2" >&2; die "${2##*/} did not start"; }
    sleep 0.05
  done
}

start_copy() {
  "$ledger" copy "$urls" "$work/mariadb/sock" shop --limit 20 "${naive[@]}" >>"$work/copy" 2>&1 &
  copy=$!
}

if [ -z "${BUILD:-}" ]; then
  install_packages run test
  (cd "$root" && cmake --preset release >"$work/configure" && cmake --build --preset release --target lockstockd ledger)
fi
ledger="$build/examples/ledger/ledger"
[ -x "$ledger" ] || die "there is no $ledger: it needs libmariadb-dev when cmake runs"

redis-server --port 0 --unixsocket "$work/redis" --dir "$work" --appendonly yes --appendfsync always --save "" \
  >"$work/redis.log" 2>&1 &
pids+=($!)
until_log $! "$work/redis.log" 'ready to accept'
"$root/examples/ledger/mariadb.sh" "$work/mariadb" >"$work/mariadb.log" 2>&1 &
pids+=($!)
until_log $! "$work/mariadb.log" 'ready for connections'
urls=
for i in 1 2; do
  "$build/server/lockstockd" --listen nng+tcp://127.0.0.1:0 --store "unix://$work/redis" >"$work/server$i.log" 2>&1 &
  pids+=($!)
  until_log $! "$work/server$i.log" 'event=ready'
  url[i]=$(sed -n 's/.*event=listening url=//p' "$work/server$i.log" | head -n 1)
  urls+="${urls:+,}${url[i]}"
done

"$ledger" fill "$urls" shop
: >"$work/stop"
sellers=()
for i in 1 2; do
  (while [ -e "$work/stop" ]; do "$ledger" sell "${url[i]}" shop 100 >/dev/null; done) &
  sellers+=($!)
  pids+=($!)
done
batches() { wc -l <"$work/copy"; }
: >"$work/copy"
for ((n = 1; n <= kills; n++)); do
  start_copy
  enough=$(($(batches) + 1 + RANDOM % 4))
  while [ "$(batches)" -lt "$enough" ]; do
    kill -0 $copy 2>/dev/null || { echo "the consumer gave up: $(tail -n 1 "$work/copy")"; break 2; }
    sleep 0.01
  done
  sleep "0.0$((RANDOM % 10))"
  kill -KILL $copy 2>/dev/null || true
  wait $copy 2>/dev/null || true
  echo "kill $n after $(batches) transactions; the last $(tail -n 1 "$work/copy")"
done
rm "$work/stop"
wait "${sellers[@]}"
start_copy
pids+=("$copy")
"$ledger" check "$urls" "$work/mariadb/sock" shop
