# shellcheck shell=bash
# Sourced by redis-set.sh and zookeeper-set.sh: servers that are children of one shell, each in a directory $set/PORT, which has
# its pid. $set/pid is the pid of that shell; $set/control takes lines "start PORT".
# shellcheck source=packaging/install.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/install.sh" # die

usage() { # prints the comment at the beginning of the script
  sed -n '2,/^set /s/^# \{0,1\}//p' "$0" >&2
  exit 2
}

make_set() {
  mkdir -p "$set"
  set=$(cd -- "$set" && pwd -P)
  [ -z "$(ls -A "$set")" ] || die "$set is not empty"
}

open_set() { # a file that each set has, what a set is
  [ -r "$set/$1" ] || die "$set: no $2 is here"
  set=$(cd -- "$set" && pwd -P)
}

need_served() { # the name of its servers
  kill -0 "$(cat "$set/pid" 2>/dev/null)" 2>/dev/null || die "$set: the $1 have ended"
}

is_gone() { # port
  [ -z "$(pid_of "$1")" ]
}

stop_all() {
  local pid
  trap '' INT TERM
  exec 2>/dev/null # the shell reports each child that was killed
  for pid in $(jobs -p); do
    kill -KILL "$pid" 2>/dev/null || true
  done
  wait
  rm -f "$set/pid" "$set/control"
}

# Runs start_all with the arguments, which prints what users need, and then serves $set/control until SIGINT or SIGTERM.
serve() {
  local command port
  trap stop_all EXIT
  trap 'exit 0' INT TERM
  echo $$ >"$set/pid"
  mkfifo "$set/control"
  exec 3<>"$set/control"
  start_all "$@"
  echo ready
  while read -r command port <&3; do
    [ "$command" != start ] || ! is_gone "$port" || launch "$port" || echo "cannot start $port: see $set/$port" >&2
  done
}
