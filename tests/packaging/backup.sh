#!/usr/bin/env bash
# backup.sh SOURCE_DIR DIR_OF_LOCKSTOCKD DIR_OF_LOCKSTOCK
# The commands of docs/operations.md, unchanged: a backup while the server sells, its verification, and a restore
# into a store that changed since. Changes answered before the backup are in it, and the stock is exact.
set -euo pipefail
source=$1
export PATH="$2:$3:$PATH"
work=$(mktemp -d)
server=
seller=
clean_up() {
  local status=$?
  [ -z "$seller" ] || { kill "$seller" && wait "$seller"; } 2>/dev/null || true
  [ -z "$server" ] || { kill "$server" && wait "$server"; } 2>/dev/null || true
  [ "$status" -eq 0 ] || tail -n 20 "$work"/*log >&2
  rm -rf "$work"
  exit $status
}
trap clean_up EXIT
export STORE="$work/store" BACKUP="$work/backup" LOCKSTOCK_SERVER="unix://$work/lockstock" TMPDIR="$work"

block() { # name
  sed -n "/^<!-- $1 -->\$/,/^\`\`\`\$/p" "$source/docs/operations.md" | grep -v '^<!--\|^```'
}
# Replaces the service manager.
systemctl() { # start|stop lockstockd
  [ "$2" = lockstockd ]
  if [ "$1" = start ]; then
    : >"$work/server.log"
    lockstockd --store "embedded:$STORE" --listen "$LOCKSTOCK_SERVER" >"$work/server.log" 2>&1 &
    server=$!
    until grep -q event=ready "$work/server.log"; do
      kill -0 "$server"
      sleep 0.05
    done
  else
    kill "$server"
    wait "$server"
    server=
  fi
}
field() { # name
  lockstock stock get tea --json | sed -n "s/.*\"$1\": \"\([0-9]*\)\".*/\1/p"
}
sell() { # first last
  local n
  for ((n = $1; n <= $2; n++)); do
    lockstock stock deduct "order-$n" --line tea=2 >/dev/null
    echo "$n" >"$work/answered.new"
    mv "$work/answered.new" "$work/answered" # a reader sees the whole number
  done
}

systemctl start lockstockd
lockstock stock put tea 10000 >/dev/null
sell 1 5
# Somebody sells all the time.
(trap 'exit 0' TERM; sell 6 4000) &
seller=$!
until [ "$(cat "$work/answered")" -gt 7 ]; do sleep 0.05; done
before=$(cat "$work/answered")
block backup >"$work/backup.sh"
bash "$work/backup.sh"
[ "$(redis-cli -s "$STORE/redis.sock" CONFIG GET auto-aof-rewrite-percentage | tail -n 1)" = 100 ]
during=$(cat "$work/answered")
until [ "$(cat "$work/answered")" -gt "$((during + 2))" ]; do sleep 0.05; done
kill "$seller"
wait "$seller" || true
seller=
after=$(cat "$work/answered")

# The same again must not be taken for a new backup.
if bash "$work/backup.sh" 2>"$work/again.log"; then
  echo "a second backup went into the first one" >&2
  exit 1
fi
grep -q 'File exists' "$work/again.log"
[ ! -e "$BACKUP/appendonlydir" ]

echo "verification"
block verify >"$work/verify.sh"
bash "$work/verify.sh" >"$work/verify.log" 2>&1
grep -q tea "$work/verify.log"

echo "restore"
block restore >"$work/restore.sh"
# shellcheck source=/dev/null
. "$work/restore.sh"
sold=$(($(field sold) / 2))
[ "$(field available)" -eq $((10000 - 2 * sold)) ]
# All that was answered before the backup began, and the one that was under way when it ended at most.
if [ "$sold" -lt "$before" ] || [ "$sold" -gt "$((during + 1))" ] || [ "$sold" -ge "$after" ]; then
  echo "$sold orders in the backup; answered: $before before it, $during at its end, $after in all" >&2
  exit 1
fi
# Just those orders are known: they sell nothing when they come again, the next one does.
sell 1 "$sold"
[ "$(field sold)" -eq $((2 * sold)) ]
sell "$((sold + 1))" "$((sold + 1))"
[ "$(field sold)" -eq $((2 * sold + 2)) ]
[ "$(lockstock stock ledger tea | grep -c order-)" -eq $((sold + 1)) ]
echo "$sold orders, of which $before were answered before the backup"
