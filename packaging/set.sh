# shellcheck shell=bash
# Sourced by redis-set.sh and zookeeper-set.sh: servers that are children of one shell, each in a directory $set/PORT, which has
# its pid. $set/pid is the pid of that shell; $set/control takes lines "start PORT"; each line of $set/nodes begins with a port.
# The script defines launch, answers and role_of, each of a port, and PROGRAM, SERVERS and PATIENCE_S.
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

need_served() {
  kill -0 "$(cat "$set/pid" 2>/dev/null)" 2>/dev/null || die "$set: the $SERVERS have ended"
}

need_port() { # port
  { [[ "$1" =~ ^[0-9]+$ ]] && grep -q "^$1\b" "$set/nodes"; } || die "$1 is no port of this set"
}

until_true() { # what it waits for, command..., which may set `refusal` to the reason why not yet
  local end=$((SECONDS + PATIENCE_S)) refusal=''
  until "${@:2}"; do
    [ "$SECONDS" -lt "$end" ] || die "no $1 after $PATIENCE_S s${refusal:+: $refusal}"
    need_served
    sleep 0.05
  done
}

pid_of() { # port; nothing when it does not run
  local pid
  pid=$(cat "$set/$1/pid" 2>/dev/null) || return 0
  ! tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | grep -q "$PROGRAM.*[:/]$1\b" || echo "$pid"
}

is_gone() { # port
  [ -z "$(pid_of "$1")" ]
}

show_nodes() {
  local port pid kind_of role
  while read -r port kind_of; do
    pid=$(pid_of "$port")
    role=dead
    [ -z "$pid" ] || role=$(role_of "$port")
    echo "$port${kind_of:+ $kind_of} ${pid:-0} $role"
  done <"$set/nodes"
}

kill_node() { # port
  local pid
  pid=$(pid_of "$1")
  [ -z "$pid" ] || kill -KILL "$pid"
  until_true "end of $1" is_gone "$1"
}

start_node() { # port
  echo "start $1" >"$set/control"
  until_true "answer of $1" answers "$1"
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
