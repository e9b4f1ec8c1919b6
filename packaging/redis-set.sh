#!/usr/bin/env bash
# Runs a Redis Cluster, or a primary with replicas and sentinels, on 127.0.0.1, to try lockstock on them (./run.sh cluster,
# ./run.sh sentinel) and for its tests (tests/support/redis_set_fixture.h, tests/torture). Each server writes its AOF with
# fsync always.
#
#   packaging/redis-set.sh cluster DIR [--replicas 1]    three primaries; replicas: of each
#   packaging/redis-set.sh sentinel DIR [--replicas 2] [--sentinels 3]    the primary's name is lockstock
#
# starts one on free ports, with all its files in DIR, which is new or empty. When all nodes agree, it prints the URL and
# "ready". It runs until SIGINT or SIGTERM. The servers end when it ends, even by SIGKILL; DIR stays.
# --announce IP: the address that nodes tell each other and clients instead of 127.0.0.1. A proxy at IP
# (tests/torture/network.py) must forward each port to the same port of 127.0.0.1, also the ports of a cluster's bus (10,000
# higher). A node connects from 127.X.Y.1, where X * 256 + Y is its port.
#
# Commands while it runs, with the same DIR. Each ends when its effect is there, or with an error after 60 s
# (REDIS_SET_PATIENCE_S in the environment changes that):
#
#   redis-set.sh url DIR                   the URL for --store
#   redis-set.sh nodes DIR                 a line for each server: port, redis or sentinel, pid, role (master, slave, sentinel, dead)
#   redis-set.sh cli DIR PORT [command]    redis-cli to it
#   redis-set.sh kill DIR PORT             kill -9
#   redis-set.sh start DIR PORT            starts a killed server again
#   redis-set.sh wait DIR                  waits until all running servers agree and have their replicas
#   redis-set.sh failover DIR [PORT]       makes another node the primary in place of PORT, at once if PORT answers, else
#                                          when the others notice; prints its port. Sentinel: PORT is the primary, or the
#                                          one that died
#   redis-set.sh move DIR FIRST LAST PORT  moves these slots, with their keys, to the primary PORT. Repeat it after an
#                                          error: it continues where it stopped
set -euo pipefail

unset REDISCLI_AUTH
PROGRAM=redis-server
SERVERS=redis-servers
PRIMARY_NAME=lockstock
PRIMARIES=3 # of a cluster
SLOTS=16384
NODE_TIMEOUT_MS=2000
MOVED_AT_ONCE=512 # slots
KEYS_AT_ONCE=100
PATIENCE_S=${REDIS_SET_PATIENCE_S:-60}
ASKED_EVERY_S=6 # between requests for a failover; longer than Redis tries one
COUNT_MAX=1000

# shellcheck source=packaging/set.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/set.sh"

need_number() { # its name, text, from, to
  { [[ "$2" =~ ^(0|[1-9][0-9]{0,4})$ ]] && [ "$2" -ge "$3" ] && [ "$2" -le "$4" ]; } || die "$1 is a number from $3 to $4, not '$2'"
}

cli() { # port command...
  timeout 10 redis-cli -h 127.0.0.1 -p "$@"
}

answers() { # port
  [ "$(timeout 1 redis-cli -h 127.0.0.1 -p "$1" PING 2>/dev/null)" = PONG ]
}

role_of() { # port
  local role
  role=$(timeout 3 redis-cli -h 127.0.0.1 -p "$1" ROLE 2>/dev/null | sed -n 1p) || true
  echo "${role:-silent}"
}

ports_of() { # redis|sentinel
  awk -v kind="$1" '$2 == kind { print $1 }' "$set/nodes"
}

running() { # redis|sentinel
  local port
  for port in $(ports_of "$1"); do
    is_gone "$port" || echo "$port"
  done
}

# --- starting servers

launch() { # port; a child of this shell, killed by the kernel when this shell ends
  local dir="$set/$1" manifest="$set/$1/appendonlydir/appendonly.aof.manifest" flags=()
  [ ! -e "$dir/is_sentinel" ] || flags=(--sentinel)
  # Removes a transaction that a kill cut off, so that no half of it runs (docs/store.md).
  [ ! -e "$manifest" ] || redis-check-aof --fix "$manifest" < <(yes 2>/dev/null) >"$dir/mended" 2>&1 || return 1
  setpriv --pdeathsig KILL redis-server "$dir/redis.conf" "${flags[@]}" >>"$dir/output" 2>&1 3>&- &
  echo $! >"$dir/pid"
}

comes_up() { # port
  local end=$((SECONDS + PATIENCE_S))
  until answers "$1"; do
    kill -0 "$(cat "$set/$1/pid")" 2>/dev/null || return 1
    [ "$SECONDS" -lt "$end" ] || return 1
    sleep 0.02
  done
}

reason_of() { # port; a server without a log did not understand its configuration
  if [ -s "$set/$1/log" ]; then echo "$set/$1/log"; else echo "$set/$1/output"; fi
}

# Sets `port` to that of a new server, which answers. Ports are below those that the system gives to clients.
new_node() { # redis|sentinel, lines of its configuration...
  local tries
  for ((tries = 0; tries < 50; tries++)); do
    port=$((11000 + SRANDOM % 10000))
    mkdir "$set/$port" 2>/dev/null || continue
    {
      printf '%s\n' "bind 127.0.0.1" "port $port" "dir \"$set/$port\"" "logfile \"$set/$port/log\""
      [ "$announce" = 127.0.0.1 ] || printf '%s\n' "bind-source-addr 127.$((port / 256)).$((port % 256)).1"
      if [ "$1" = sentinel ]; then
        : >"$set/$port/is_sentinel"
        printf '%s\n' "sentinel announce-ip $announce"
      else
        printf '%s\n' 'save ""' "appendonly yes" "appendfsync always" "repl-diskless-sync-delay 0" \
          "replica-announce-ip $announce"
      fi
      printf '%s\n' "${@:2}"
    } >"$set/$port/redis.conf"
    if launch "$port" && comes_up "$port"; then
      echo "$port $1" >>"$set/nodes"
      return
    fi
    # A port in use is tried no further; any other reason is an error.
    grep -qs 'in use' "$set/$port/log" "$set/$port/output" || die "$port does not start: see $(reason_of "$port")"
    rm -rf "${set:?}/$port"
  done
  die "found no free port"
}

start_cluster() { # replicas of each primary
  local i nodes=() lines=(
    "cluster-enabled yes" "cluster-config-file nodes.conf" "cluster-node-timeout $NODE_TIMEOUT_MS"
    "cluster-require-full-coverage no" "cluster-allow-replica-migration no" "cluster-announce-ip $announce")
  for ((i = 0; i < PRIMARIES * (1 + $1); i++)); do
    new_node redis "${lines[@]}"
    nodes+=("127.0.0.1:$port")
    is_set "$port" cluster-node-timeout 30000 # redis-cli greets each node once: its answer must not be too late
  done
  logged "$set/create" "redis-cli makes no cluster of them" \
    timeout "$PATIENCE_S" redis-cli --cluster create "${nodes[@]}" --cluster-replicas "$1" --cluster-yes
  for port in $(ports_of redis); do
    is_set "$port" cluster-node-timeout "$NODE_TIMEOUT_MS"
  done
  until_true "cluster that agrees" set_agrees "$((PRIMARIES * $1))"
}

start_sentinels() { # replicas, sentinels
  local i primary lines
  new_node redis
  primary=$port
  for ((i = 0; i < $1; i++)); do
    new_node redis "replicaof $announce $primary"
  done
  until_true "primary with all its replicas" replicas_follow "$1"
  lines=("sentinel monitor $PRIMARY_NAME $announce $primary $(($2 / 2 + 1))"
    "sentinel down-after-milliseconds $PRIMARY_NAME 1000" "sentinel failover-timeout $PRIMARY_NAME 3000")
  for ((i = 0; i < $2; i++)); do
    new_node sentinel "${lines[@]}"
  done
  until_true "sentinels that agree" set_agrees "$1"
}

write_url() {
  local path='' ports
  ports=$(ports_of redis)
  if [ "$kind" = sentinel ]; then
    path="/$PRIMARY_NAME"
    ports=$(ports_of sentinel)
  fi
  echo "redis+$kind://$(awk -v host="$announce" '{ print host ":" $1 }' <<<"$ports" | paste -sd ,)$path" >"$set/url"
}

start_all() { # replicas, sentinels
  if [ "$kind" = cluster ]; then start_cluster "$1"; else start_sentinels "$1" "$2"; fi
  write_url
  echo "url=$(cat "$set/url")"
}

# --- the state of the set

# Prints the nodes, their roles and their slots as one node sees them; nothing while it is not sure.
cluster_view() { # port
  cli "$1" CLUSTER NODES 2>/dev/null | tr -d '\r' | awk '
    NF < 8 { next }
    {
      gone = $3 ~ /(^|,)fail(,|$)/
      if ($3 ~ /handshake|fail\?|noaddr/ || ($8 != "connected" && !gone && $3 !~ /myself/)) { unsure = 1 }
      sub(/myself,/, "", $3)
      line = $1 " " $2 " " $3 " " $4
      for (i = 9; i <= NF; i++) if ($i !~ /^\[/) line = line " " $i
      lines[++n] = line
      if (gone) failed++
    }
    END { if (unsure) exit; print "failed " failed + 0; for (i = 1; i <= n; i++) print lines[i] | "sort" }'
}

cluster_agrees() {
  local port view first='' all
  all=$(ports_of redis | wc -l)
  for port in $(running redis); do
    view=$(cluster_view "$port") || return 1
    [ -n "$view" ] && [ "$(wc -l <<<"$view")" -eq $((all + 1)) ] || return 1
    [ "$(head -n 1 <<<"$view")" = "failed $((all - $(running redis | wc -l)))" ] || return 1
    [ -z "$first" ] || [ "$view" = "$first" ] || return 1
    first=$view
    cli "$port" CLUSTER INFO | grep -q '^cluster_state:ok' || return 1
  done
}

sentinels_agree() {
  local port answer first=''
  for port in $(running sentinel); do
    answer=$(cli "$port" SENTINEL MASTER "$PRIMARY_NAME" 2>/dev/null | paste -d ' ' - -) || return 1
    grep -q '^flags master$' <<<"$answer" || return 1
    grep -q "^num-other-sentinels $(($(ports_of sentinel | wc -l) - 1))\$" <<<"$answer" || return 1
    grep -q "^num-slaves $(($(ports_of redis | wc -l) - 1))\$" <<<"$answer" || return 1
    cli "$port" SENTINEL CKQUORUM "$PRIMARY_NAME" | grep -q ^OK || return 1
    answer=$(grep '^port ' <<<"$answer")
    [ -z "$first" ] || [ "$answer" = "$first" ] || return 1
    first=$answer
  done
  [ "$(cli "${first#port }" ROLE | sed -n 1p)" = master ]
}

# All running replicas are in step with their primaries, which know them; and there are at least so many.
replicas_follow() { # how many
  local port info n_up=0 n_known=0 n_primaries=0
  for port in $(running redis); do
    info=$(cli "$port" INFO replication | tr -d '\r') || return 1
    if grep -q '^role:slave' <<<"$info"; then
      grep -q '^master_link_status:up' <<<"$info" || return 1
      n_up=$((n_up + 1))
    else
      n_primaries=$((n_primaries + 1))
      n_known=$((n_known + $(grep -c '^slave.*state=online' <<<"$info" || true)))
    fi
  done
  # A primary that was replaced does not know it at once.
  [ "$kind" = cluster ] || [ "$n_primaries" -eq 1 ] || return 1
  [ "$n_up" -eq "$n_known" ] && [ "$n_up" -ge "${1:-0}" ]
}

set_agrees() { # replicas at least
  if [ "$kind" = cluster ]; then cluster_agrees; else sentinels_agree; fi && replicas_follow "${1:-0}"
}

# --- commands

# "port id first-last..." of each primary with slots; reads CLUSTER NODES.
owners_there() {
  tr -d '\r' |
    awk '$3 ~ /master/ && NF > 8 { split($2, a, "[:@]"); line = a[2] " " $1; for (i = 9; i <= NF; i++) if ($i !~ /^\[/) line = line " " $i; print line }'
}

owners() { # port, in whose view
  cli "$1" CLUSTER NODES | owners_there
}

# Prints the primary that has the slot, if all nodes but `besides` agree on it.
owner_of() { # slot, besides
  local port found=''
  for port in $(running redis); do
    { [ "$port" != "${2:-}" ] && answers "$port"; } || continue
    found+=$(owners "$port" | awk -v slot="$1" '
      { for (i = 3; i <= NF; i++) { n = split($i, r, "-"); if (slot + 0 >= r[1] + 0 && slot + 0 <= r[n] + 0) print $1 } }')$'\n'
  done
  [ "$(sort -u <<<"${found%$'\n'}" | wc -l)" -ne 1 ] || echo "${found%%$'\n'*}"
}

another_has() { # port, slot
  local owner
  owner=$(owner_of "$2" "$1")
  [ -n "$owner" ] && [ "$owner" != "$1" ]
}

# Also asks for a failover if the port answers, repeatedly: Redis gives up one that comes shortly after another.
is_replaced() { # the condition to check, how to ask, port, more...
  "$1" "${@:3}" && return
  [ "$SECONDS" -ge "$ask_at" ] && answers "$3" || return 1
  "$2" "$3"
  refusal=${refusal#OK}
  [ -n "$refusal" ] || ask_at=$((SECONDS + ASKED_EVERY_S))
  return 1
}

# Prints a replica of the primary, as the primary sees it, or "none"; nothing if it is no primary with slots.
replica_of() { # port
  cli "$1" CLUSTER NODES | tr -d '\r' | awk '
    $3 ~ /myself,master/ && NF > 8 { id = $1 }
    $3 ~ /slave/ && $3 !~ /fail/ { split($2, a, "[:@]"); of[$4] = a[2] }
    END { if (id) print id in of ? of[id] : "none" }'
}

ask_replica() { # port
  local replica
  replica=$(replica_of "$1")
  case "$replica" in
  '') refusal='' ;;
  none) refusal="$1 has no replica" ;;
  *) refusal=$(cli "$replica" CLUSTER FAILOVER) ;;
  esac
}

fail_over_in_cluster() { # port
  local slot ask_at=0
  # In its own view, which it keeps in a file: it may be killed, and already replaced.
  slot=$(owners_there <"$set/$1/nodes.conf" | awk -v port="$1" '$1 == port { split($3, r, "-"); print r[1] }')
  [ -n "$slot" ] || die "$1 is no primary with slots"
  until_true "other primary" is_replaced another_has ask_replica "$1" "$slot"
  owner_of "$slot" "$1"
}

sentinels_name_another() { # port
  local port
  for port in $(running sentinel); do
    named=$(named_primary "$port")
    [ "$named" != "$1" ] || return 1
  done
  [ "$(cli "$named" ROLE 2>/dev/null | sed -n 1p)" = master ]
}

named_primary() { # sentinel's port
  cli "$1" SENTINEL GET-MASTER-ADDR-BY-NAME "$PRIMARY_NAME" | tail -n 1
}

ask_sentinel() { # port
  local any
  any=$(running sentinel | sed -n 1p)
  refusal=''
  [ "$(named_primary "$any")" != "$1" ] || refusal=$(cli "$any" SENTINEL FAILOVER "$PRIMARY_NAME")
}

# Sentinels make each node write whom it follows, so this also works for a dead node.
leads() { # port
  ports_of redis | grep -qx "$1" && ! grep -q '^replicaof ' "$set/$1/redis.conf"
}

fail_over_by_sentinels() { # port, by default that of the primary
  local old named='' ask_at=0
  old=${1:-$(named_primary "$(running sentinel | sed -n 1p)")}
  leads "$old" || die "$old is not the primary"
  until_true "other primary" is_replaced sentinels_name_another ask_sentinel "$old"
  echo "$named"
}

each_slot() { # first, last, format of a command with %d for the slot
  local slot
  for ((slot = $1; slot <= $2; slot++)); do
    # shellcheck disable=SC2059
    printf "CLUSTER $3\n" "$slot"
  done
}

# If the answer to a MIGRATE was lost, the key may be at both; no client changes it until the slot has moved.
move_keys() { # from, to, keys
  refusal=$(echo "MIGRATE $announce $2 \"\" 0 5000 REPLACE KEYS $3" | cli "$1")
  [[ "$refusal" =~ ^(OK|NOKEY) ]]
}

set_slots() { # port, first, last, arguments of SETSLOT
  local all
  all=$(each_slot "$2" "$3" "SETSLOT %d $4" | cli "$1")
  refusal=$(grep -m 1 -v -e '^OK' -e '^$' <<<"$all")
  [ "$(grep -c '^OK' <<<"$all")" -eq $(($3 - $2 + 1)) ]
}

is_set() { # port, setting, value
  cli "$1" CONFIG SET "$2" "$3" | grep -q ^OK
}

# A replica that took over from a node whose slots move would have only parts of groups.
forbid_failovers() { # yes or no
  local port
  for port in $(running redis); do
    until_true "answer of $port" is_set "$port" cluster-replica-no-failover "$1"
  done
}

move_range() { # first, last, from, its id, to, its id
  local slot keys port
  until_true "import of $1-$2 by $5" set_slots "$5" "$1" "$2" "IMPORTING $4"
  until_true "move of $1-$2 out of $3" set_slots "$3" "$1" "$2" "MIGRATING $6"
  # A slot without a key gets no keys any more.
  for slot in $(each_slot "$1" "$2" "COUNTKEYSINSLOT %d" | cli "$3" | awk -v first="$1" '$1 > 0 { print first + NR - 1 }'); do
    # redis-cli reads the names as it quotes them.
    while keys=$(cli "$3" --no-raw CLUSTER GETKEYSINSLOT "$slot" "$KEYS_AT_ONCE" | sed -En 's/^ *[0-9]+\) //p' | paste -sd ' ') &&
      [ -n "$keys" ]; do
      # Fails while the other node is short of memory, for instance.
      until_true "move of slot $slot from $3 to $5" move_keys "$3" "$5" "$keys"
    done
  done
  for port in "$5" "$3"; do
    until_true "new owner of $1-$2 at $port" set_slots "$port" "$1" "$2" "NODE $6"
  done
}

move_slots() { # first, last, to
  local to_id port id range first last ranges
  [ "$kind" = cluster ] || die "only a cluster has slots"
  need_number FIRST "$1" 0 $((SLOTS - 1))
  need_number LAST "$2" 0 $((SLOTS - 1))
  [ "$1" -le "$2" ] || die "FIRST is $1, behind LAST, $2"
  need_port "$3"
  [ "$(cli "$3" ROLE | sed -n 1p)" = master ] || die "$3 is no primary"
  to_id=$(cli "$3" CLUSTER MYID)
  trap 'forbid_failovers no' EXIT
  forbid_failovers yes
  while read -r port id ranges; do
    [ "$port" != "$3" ] || continue
    for range in $ranges; do
      last=${range#*-}
      [ "$last" -le "$2" ] || last=$2
      for ((first = ${range%-*} > $1 ? ${range%-*} : $1; first <= last; first += MOVED_AT_ONCE)); do
        move_range "$first" $((first + MOVED_AT_ONCE - 1 < last ? first + MOVED_AT_ONCE - 1 : last)) "$port" "$id" "$3" "$to_id"
      done
    done
  done < <(owners "$3")
  until_true "cluster that agrees" cluster_agrees
}

# --- the command line

[ $# -ge 2 ] || usage
command=$1
set=$2
shift 2
announce=127.0.0.1
replicas=
sentinels=3

case "$command" in
cluster | sentinel)
  kind=$command
  while [ $# -gt 0 ]; do
    [ $# -ge 2 ] || usage
    case "$1" in
    --replicas) replicas=$2 ;;
    --sentinels) sentinels=$2 ;;
    --announce) announce=$2 ;;
    *) usage ;;
    esac
    shift 2
  done
  if [ "$kind" = cluster ]; then replicas=${replicas:-1}; else replicas=${replicas:-2}; fi
  need_number --replicas "$replicas" 0 "$COUNT_MAX"
  need_number --sentinels "$sentinels" 1 "$COUNT_MAX"
  umask 077
  make_set
  : >"$set/nodes"
  declare -p kind announce >"$set/settings"
  serve "$replicas" "$sentinels"
  exit
  ;;
esac

open_set settings "set of redis-servers"
# shellcheck source=/dev/null
. "$set/settings"
[ "$command" = url ] || need_served
case "$command:$#" in
cli:[!0]* | kill:1 | start:1 | failover:1) need_port "$1" ;;
esac
case "$command:$#" in
url:0) cat "$set/url" ;;
nodes:0) show_nodes ;;
cli:[!0]*) cli "$@" ;;
kill:1) kill_node "$1" ;;
start:1) start_node "$1" ;;
wait:0) until_true "agreement" set_agrees ;;
failover:0 | failover:1)
  if [ "$kind" = sentinel ]; then
    fail_over_by_sentinels "$@"
  else
    fail_over_in_cluster "${1:-$(owners "$(running redis | sed -n 1p)" | awk '{ print $1 }' | sed -n 1p)}"
  fi
  ;;
move:3) move_slots "$@" ;;
*) usage ;;
esac
