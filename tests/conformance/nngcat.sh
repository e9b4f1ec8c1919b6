#!/usr/bin/env bash
# nngcat.sh LOCKSTOCKD: nngcat, as Debian has it, sends a Frame of vectors.txt over tcp://,
# unix:// and ws:// and gets its Reply. Exit 77: there is no nngcat.
set -euo pipefail
command -v nngcat >/dev/null || {
  echo "skipped: no nngcat (Debian: nng-utils)"
  exit 77
}
vectors=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)/vectors.txt
work=$(mktemp -d)
server=

clean_up() {
  trap '' INT TERM
  [ -z "$server" ] || {
    kill -TERM "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
  }
  rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

# The last body of a direction in sp/success, without length and id.
body() {
  grep "^sp/success | $1 " "$vectors" | tail -n 1 | cut -d'|' -f3 | tr -d ' ' | cut -c25-
}

printf '%b' "$(body '>' | sed 's/../\\x&/g')" >"$work/frame"
"$1" --listen tcp://127.0.0.1:0 --listen "unix://$work/server" --listen ws://127.0.0.1:0/lockstock --store "embedded:$work/data" >"$work/log" 2>&1 &
server=$!
until grep -q 'event=ready' "$work/log"; do
  kill -0 "$server" 2>/dev/null || {
    cat "$work/log" >&2
    exit 1
  }
  sleep 0.05
done
tcp=$(sed -n 's/.*event=listening url=\(tcp:[^ ]*\).*/\1/p' "$work/log")
ws=$(sed -n 's/.*event=listening url=\(ws:[^ ]*\).*/\1/p' "$work/log")
for url in "$tcp" "ipc://$work/server" "$ws"; do
  reply=$(nngcat --req --dial "$url" --file "$work/frame" --recv-timeout 20 --raw | od -An -v -tx1 | tr -d ' \n')
  if [ "$reply" != "$(body '<')" ]; then
    echo "$url: got ${reply:-nothing} instead of $(body '<')" >&2
    exit 1
  fi
  echo "${url%%:*}: answered"
done
