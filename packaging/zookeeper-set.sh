#!/usr/bin/env bash
# Runs three members of a ZooKeeper ensemble on 127.0.0.1, to try lockstock on them and for its tests.
#
#   packaging/zookeeper-set.sh serve DIR
#
# starts them on free ports, with all their files in DIR, which is new or empty. When all serve, it prints the hosts and
# "ready". It runs until SIGINT or SIGTERM. The members end when it ends, even by SIGKILL; DIR stays.
# Each member writes its log to disk before it answers. Needs Java and ZooKeeper: [zookeeper] in packaging/apt.txt.
#
# While it runs, with the same DIR:
#
#   zookeeper-set.sh hosts DIR            127.0.0.1:PORT,127.0.0.1:PORT,127.0.0.1:PORT
#   zookeeper-set.sh nodes DIR            a line for each member: port, pid, mode (leader, follower, none (no quorum), dead)
#   zookeeper-set.sh kill DIR PORT        kill -9
#   zookeeper-set.sh start DIR PORT       starts a killed member again; waits up to 60 s until it serves
set -euo pipefail

PROGRAM=java
SERVERS=members
MEMBERS=3
PATIENCE_S=60
CLASS_PATH=/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar

# shellcheck source=packaging/set.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/set.sh"

is_taken() { # port
  (exec 4<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}

# Sets `ports` to free ones, below those that the system gives to clients.
find_ports() { # how many
  local port
  ports=()
  while [ "${#ports[@]}" -lt "$1" ]; do
    port=$((11000 + SRANDOM % 10000))
    is_taken "$port" || [[ " ${ports[*]} " == *" $port "* ]] || ports+=("$port")
  done
}

mode_of() { # port; nothing while it does not serve
  # shellcheck disable=SC2016
  timeout 2 bash -c 'exec 4<>"/dev/tcp/127.0.0.1/$0" && printf srvr >&4 && cat <&4' "$1" 2>/dev/null |
    sed -n 's/^Mode: //p' || true
}

role_of() { # port
  local mode
  mode=$(mode_of "$1")
  echo "${mode:-none}"
}

answers() { # port
  refusal="see $set/$1/output"
  [ -n "$(mode_of "$1")" ]
}

launch() { # port; a child of this shell, killed by the kernel when this shell ends
  setpriv --pdeathsig KILL java -Xms32m -Xmx256m -XX:+UseSerialGC -XX:-UsePerfData \
    -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -cp "$CLASS_PATH" \
    org.apache.zookeeper.server.quorum.QuorumPeerMain "$set/$1/zoo.cfg" >>"$set/$1/output" 2>&1 3>&- &
  echo $! >"$set/$1/pid"
}

write_members() {
  local id dir servers=()
  find_ports $((3 * MEMBERS))
  for ((id = 1; id <= MEMBERS; id++)); do
    servers+=("server.$id=127.0.0.1:${ports[MEMBERS + id - 1]}:${ports[2 * MEMBERS + id - 1]}")
  done
  ports=("${ports[@]:0:MEMBERS}") # those for clients
  for ((id = 1; id <= MEMBERS; id++)); do
    dir="$set/${ports[id - 1]}"
    mkdir "$dir"
    echo "$id" >"$dir/myid"
    printf '%s\n' "tickTime=500" "initLimit=20" "syncLimit=4" "dataDir=$dir" "clientPort=${ports[id - 1]}" \
      "clientPortAddress=127.0.0.1" "admin.enableServer=false" "4lw.commands.whitelist=*" "maxClientCnxns=0" \
      "autopurge.snapRetainCount=3" "autopurge.purgeInterval=1" "${servers[@]}" >"$dir/zoo.cfg"
  done
  printf '%s\n' "${ports[@]}" >"$set/nodes"
}

start_all() {
  local port
  write_members
  for port in "${ports[@]}"; do launch "$port"; done
  for port in "${ports[@]}"; do until_true "answer of $port" answers "$port"; done
  echo "hosts=$(hosts)"
}

hosts() {
  sed 's/^/127.0.0.1:/' "$set/nodes" | paste -sd,
}

[ $# -ge 2 ] || usage
command=$1
set=$2
shift 2
if [ "$command" = serve ]; then
  [ $# -eq 0 ] || usage
  { command -v java >/dev/null && [ -r "${CLASS_PATH%%:*}" ]; } || die "needs Java and ZooKeeper ([zookeeper] in packaging/apt.txt)"
  make_set
  serve "$@"
  exit
fi

open_set nodes ensemble
need_served
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
