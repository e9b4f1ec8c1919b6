#!/usr/bin/env bash
# Runs three members of a ZooKeeper ensemble on 127.0.0.1, to try lockstock on them and for its tests.
#
#   packaging/zookeeper-set.sh serve DIR [PORT PORT PORT]
#
# starts them on these client ports, or on free ones, with all their files in DIR, which is new or empty. When all serve,
# it prints the hosts and "ready". It runs until SIGINT or SIGTERM. The members end when it ends, even by SIGKILL; DIR stays.
# Each member writes its log to disk before it answers. Needs Java and ZooKeeper: [zookeeper] in packaging/apt.txt.
#
# While it runs, with the same DIR:
#
#   zookeeper-set.sh hosts DIR            127.0.0.1:PORT,127.0.0.1:PORT,127.0.0.1:PORT
#   zookeeper-set.sh nodes DIR            a line for each member: port, pid, mode (leader, follower, none (no quorum), dead)
#   zookeeper-set.sh kill DIR PORT        kill -9
#   zookeeper-set.sh start DIR PORT       starts a killed member again; waits up to 60 s until it serves
set -euo pipefail

MEMBERS=3
PATIENCE_S=60
CLASS_PATH=/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar

# shellcheck source=packaging/set.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/set.sh"

need_port() { # port
  { [[ "$1" =~ ^[0-9]+$ ]] && grep -qx "$1" "$set/ports"; } || die "$1 is not a port of this ensemble"
}

is_taken() { # port
  (exec 4<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}

# Sets `port` to a free one, below those that the system gives to clients.
free_port() {
  port=$((11000 + SRANDOM % 10000))
  while is_taken "$port" || [[ " ${taken[*]} " == *" $port "* ]]; do
    port=$((11000 + SRANDOM % 10000))
  done
  taken+=("$port")
}

mode_of() { # port; nothing while it does not serve
  # shellcheck disable=SC2016
  timeout 2 bash -c 'exec 4<>"/dev/tcp/127.0.0.1/$0" && printf srvr >&4 && cat <&4' "$1" 2>/dev/null |
    sed -n 's/^Mode: //p' || true
}

pid_of() { # port; nothing when it does not run
  local pid
  pid=$(cat "$set/$1/pid" 2>/dev/null) || return 0
  ! tr '\0' '\n' 2>/dev/null <"/proc/$pid/cmdline" | grep -qxF "$set/$1/zoo.cfg" || echo "$pid"
}

launch() { # port; a child of this shell, killed by the kernel when this shell ends
  setpriv --pdeathsig KILL java -Xms32m -Xmx256m -XX:+UseSerialGC -XX:-UsePerfData \
    -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -cp "$CLASS_PATH" \
    org.apache.zookeeper.server.quorum.QuorumPeerMain "$set/$1/zoo.cfg" >>"$set/$1/output" 2>&1 3>&- &
  echo $! >"$set/$1/pid"
}

wait_for() { # port
  local end=$((SECONDS + PATIENCE_S))
  until [ -n "$(mode_of "$1")" ]; do
    is_gone "$1" || misses=0
    ! is_gone "$1" || [ $((misses += 1)) -lt 50 ] || die "$1 has ended: see $set/$1/output"
    [ "$SECONDS" -lt "$end" ] || die "$1 does not serve after $PATIENCE_S s: see $set/$1/output"
    sleep 0.1
  done
}

write_members() { # port...
  local id=0 member servers=() port
  for member in "$@"; do
    id=$((id + 1))
    free_port
    servers+=("server.$id=127.0.0.1:$port")
    free_port
    servers[id - 1]+=":$port"
  done
  id=0
  for member in "$@"; do
    id=$((id + 1))
    mkdir "$set/$member"
    echo "$id" >"$set/$member/myid"
    printf '%s\n' "tickTime=500" "initLimit=20" "syncLimit=4" "dataDir=$set/$member" "clientPort=$member" \
      "clientPortAddress=127.0.0.1" "admin.enableServer=false" "4lw.commands.whitelist=*" "maxClientCnxns=0" \
      "autopurge.snapRetainCount=3" "autopurge.purgeInterval=1" "${servers[@]}" >"$set/$member/zoo.cfg"
    echo "$member" >>"$set/ports"
  done
}

start_all() { # port...
  local port
  write_members "$@"
  for port in "$@"; do launch "$port"; done
  for port in "$@"; do wait_for "$port"; done
  echo "hosts=$(hosts)"
}

hosts() {
  sed 's/^/127.0.0.1:/' "$set/ports" | paste -sd,
}

show_nodes() {
  local port pid mode
  while read -r port; do
    pid=$(pid_of "$port")
    mode=dead
    [ -z "$pid" ] || mode=$(mode_of "$port")
    echo "$port ${pid:-0} ${mode:-none}"
  done <"$set/ports"
}

kill_node() { # port
  local pid
  pid=$(pid_of "$1")
  [ -n "$pid" ] || die "$1 is dead already"
  kill -KILL "$pid"
  until is_gone "$1"; do sleep 0.02; done
}

start_node() { # port
  is_gone "$1" || die "$1 runs"
  echo "start $1" >"$set/control"
  wait_for "$1"
}

misses=0
taken=()
[ $# -ge 2 ] || usage
command=$1
set=$2
shift 2
if [ "$command" = serve ]; then
  [ $# -eq 0 ] || [ $# -eq "$MEMBERS" ] || usage
  { command -v java >/dev/null && [ -r "${CLASS_PATH%%:*}" ]; } || die "needs Java and ZooKeeper ([zookeeper] in packaging/apt.txt)"
  for port in "$@"; do
    { [[ "$port" =~ ^[1-9][0-9]{0,4}$ ]] && [ "$port" -le 65535 ]; } || die "'$port' is not a port"
    ! is_taken "$port" || die "port $port is in use"
    [[ " ${taken[*]} " != *" $port "* ]] || die "$port is given twice"
    taken+=("$port")
  done
  while [ "${#taken[@]}" -lt "$MEMBERS" ]; do free_port; done
  make_set
  : >"$set/ports"
  serve "${taken[@]}"
  exit
fi

open_set ports ensemble
need_served members
case "$command:$#" in
kill:1 | start:1) need_port "$1" ;;
esac
case "$command:$#" in
hosts:0) hosts ;;
nodes:0) show_nodes ;;
kill:1) kill_node "$1" ;;
start:1) start_node "$1" ;;
*) usage ;;
esac
