#!/usr/bin/env bash
# ./run.sh          builds, then lets buyers fight over stock (examples/seckill,
#                   scenes a and b) on a server of its own. Exit 0: every count is exact.
# ./run.sh show     builds, then sells at two shops at once, one by hand and one with lockstock, to be watched in the
#                   terminal and disturbed by keys. More arguments are its own (./run.sh show --help).
#                   Exit 0: lockstock's counts are exact.
# ./run.sh serve    builds, then serves tcp://127.0.0.1:7700, grpc://127.0.0.1:7701 and http://127.0.0.1:7702 until Ctrl-C, with
#                   the console at http://127.0.0.1:7702/console/. The state is kept in ${XDG_STATE_HOME:-~/.local/state}/lockstock.
#                   More arguments are lockstockd's (see lockstockd --help): --listen serves other addresses instead.
# ./run.sh cluster  the same on a Redis Cluster of six nodes, or on three sentinels, a primary and two replicas, which
# ./run.sh sentinel it starts in a temporary directory and which end with it. What can be done to them while it runs:
#                   packaging/redis-set.sh, with the directory that it prints.
# ./run.sh zookeeper  starts three ZooKeeper servers on this machine and a lockstockd that keeps its locks there, shows that
#                   each lock has one holder while a server is killed (examples/shell/leader.sh), and ends them.
set -euo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
. "$root/packaging/install.sh"

build="$root/build/release"
quiet=()
[ -t 1 ] || quiet=(-- --quiet)
work=
server=
set=

clean_up() {
  local status=$?
  trap '' INT TERM
  if [ -n "$server" ]; then
    kill -TERM "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
  fi
  if [ -n "$set" ]; then
    kill -TERM "$set" 2>/dev/null || true
    wait "$set" 2>/dev/null || true
  fi
  if [ "$status" -ne 0 ] && [ "$status" -ne 130 ] && [ -n "$work" ] && [ -s "$work/log" ]; then
    echo "--- the end of the log ---" >&2
    tail -n 20 "$work/log" >&2
  fi
  [ -z "$work" ] || rm -rf "$work"
}

build_all() {
  mkdir -p "$build"
  (
    cd "$root"
    cmake --preset release >"$build/configure.log" 2>&1 || {
      tail -n 20 "$build/configure.log" >&2
      die "cmake failed"
    }
    # All, so that `cmake --install build/release` finds what it installs.
    cmake --build --preset release "${quiet[@]}" || die "the build failed"
  )
}

run_scenes() {
  work=$(mktemp -d)
  "$build/server/lockstockd" --listen tcp://127.0.0.1:0 --store "embedded:$work/data" >"$work/log" 2>&1 &
  server=$!
  until grep -q 'event=ready' "$work/log"; do
    kill -0 "$server" 2>/dev/null || die "lockstockd did not start"
    sleep 0.05
  done
  echo "Flash sales on a lockstockd of its own: 1,000 buyers who want one of 2 goods, then 10,000 who want the same one."
  echo "What each buyer was told is compared with the stock, the orders and the ledger: exact is yes only if all agree."
  url=$(sed -n 's/.*event=listening url=//p' "$work/log" | head -n 1)
  "$build/examples/seckill/seckill" "$url"
  kill -TERM "$server"
  wait "$server" || die "lockstockd did not stop cleanly"
  server=
}

run_on_set() { # cluster|sentinel [lockstockd's flags]
  work=$(mktemp -d)
  "$root/packaging/redis-set.sh" "$1" "$work/set" >"$work/log" 2>&1 &
  set=$!
  until grep -qx ready "$work/log"; do
    kill -0 "$set" 2>/dev/null || die "the redis-servers did not start"
    sleep 0.1
  done
  echo "Its redis-servers: packaging/redis-set.sh nodes $work/set; more in that script's header."
  "$build/server/lockstockd" --store "$(cat "$work/set/url")" "${@:2}" &
  server=$!
  : >"$work/log" # of the redis-servers, which run; lockstockd says itself what is wrong
  wait "$server" || die "lockstockd ended"
  server=
}

run_on_zookeeper() {
  install_packages zookeeper
  work=$(mktemp -d)
  "$root/packaging/zookeeper-set.sh" serve "$work/set" >"$work/log" 2>&1 &
  set=$!
  until grep -qx ready "$work/log"; do
    kill -0 "$set" 2>/dev/null || die "the ZooKeeper servers did not start"
    sleep 0.1
  done
  echo "Three ZooKeeper servers run: packaging/zookeeper-set.sh nodes $work/set"
  "$build/server/lockstockd" --listen "unix://$work/server" --store "embedded:$work/data" \
    --lock-store "zookeeper://$("$root/packaging/zookeeper-set.sh" hosts "$work/set")/lockstock" >>"$work/log" 2>&1 &
  server=$!
  until grep -q 'event=lock-store-ready' "$work/log"; do
    kill -0 "$server" 2>/dev/null || die "lockstockd did not start"
    sleep 0.05
  done
  LOCKSTOCK_SERVER="unix://$work/server" "$root/examples/shell/leader.sh" "$build/cli/lockstock" \
    "$root/packaging/zookeeper-set.sh" "$work/set"
}

case "${1:-}" in
"" | show | serve | cluster | sentinel | zookeeper) ;;
*) die "usage: ./run.sh [show [its flags] | serve|cluster|sentinel [lockstockd's flags] | zookeeper]" ;;
esac
trap clean_up EXIT
trap 'exit 130' INT TERM
install_packages run
build_all
case "${1:-}" in
"") run_scenes ;;
cluster | sentinel) run_on_set "$@" ;;
zookeeper) run_on_zookeeper ;;
show)
  trap - EXIT INT TERM
  exec /usr/bin/python3 -B "$root/examples/show/show.py" "${@:2}"
  ;;
serve)
  state="${XDG_STATE_HOME:-${HOME:-/var/tmp}/.local/state}/lockstock"
  mkdir -p "$state"
  trap - EXIT INT TERM
  # As variables, which flags override.
  export LOCKSTOCK_STORE="${LOCKSTOCK_STORE:-embedded:$state}"
  [[ " ${*:2}" == *" --listen"* ]] || export LOCKSTOCK_CONSOLE="${LOCKSTOCK_CONSOLE:-true}" # needs an address of http://
  exec "$build/server/lockstockd" "${@:2}"
  ;;
esac
