#!/usr/bin/env bash
# leader.sh LOCKSTOCK ENSEMBLE DIR: three processes compete to be the leader. The script kills the leader of the ensemble, and
# then, twice, the leading process. LOCKSTOCK is the command line, with LOCKSTOCK_SERVER in the environment; ENSEMBLE is
# packaging/zookeeper-set.sh, which runs in DIR. Exits with 0 if each leader had a higher fence than the one before.
set -euo pipefail
lockstock=$1 ensemble=$2 dir=$3
out=$(mktemp -d)
led=$out/led
touch "$led"
trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$out"' EXIT

candidate() { # name
  # shellcheck disable=SC2016
  exec "$lockstock" run --lock leader --wait 2m --lease 5s -- sh -c '
    echo "$0 $LOCKSTOCK_FENCE" >>"$1"
    while sleep 1; do :; done' "$1" "$led"
}

until_led() { # how many
  until [ "$(wc -l <"$led")" -ge "$1" ]; do sleep 0.1; done
  tail -n 1 "$led" | sed 's/ / leads, with fence /'
}

declare -A pids
for name in anna ben carl; do
  candidate "$name" &
  pids[$name]=$!
done
until_led 1

port=$("$ensemble" nodes "$dir" | awk '$3 == "leader" { print $1 }')
echo "The leader of the ensemble is killed (port $port). The lock has the same holder:"
"$ensemble" kill "$dir" "$port"
until "$lockstock" lock inspect leader >"$out/holder" 2>&1; do sleep 0.2; done
sed -n '/^OWNER  *FENCE/,+1p' "$out/holder"
"$ensemble" start "$dir" "$port"

for n in 1 2; do
  read -r name _ < <(tail -n 1 "$led")
  echo "$name is killed. Its lease ends, and another leads:"
  kill -KILL "${pids[$name]}"
  wait "${pids[$name]}" 2>/dev/null || true
  until_led $((n + 1))
done
cut -d ' ' -f 2 "$led" | sort -n -c -u
echo "Three have led, one after the other, and each had a higher fence than the one before."
