#!/bin/sh
# calls.sh HOST:PORT: calls lockstock with `buf curl`, which gets the messages from the server by reflection.
set -eu
server=http://$1/lockstock.v1

call() { # METHOD JSON: the response as JSON in one line
  buf curl --protocol grpc --http2-prior-knowledge --data "$2" "$server.$1" | tr -d '\n'
}
# A field of flat JSON; 64-bit numbers are strings in it.
field() { sed -n "s/.*\"$1\": *\"\{0,1\}\([^\",}]*\).*/\1/p"; }

token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
held=$(call LockService/Acquire '{"targets": [{"name": "printer"}], "token": "'"$token"'", "owner": "me", "leaseMs": 60000}')
case $held in *ACQUIRE_OUTCOME_ACQUIRED*) echo "lock: mine" ;; *) echo "lock: taken" ;; esac
other=$(call LockService/Acquire '{"targets": [{"name": "printer"}], "token": "somebody-else-000", "leaseMs": 60000}')
echo "lock: taken by $(echo "$other" | field owner)"
renewed=$(call LockService/Renew '{"leases": [{"group": "printer", "token": "'"$token"'", "leaseMs": 120000}]}')
case $renewed in *RENEW_OUTCOME_RENEWED*) echo "lock: renewed" ;; *) echo "lock: lost" ;; esac
released=$(call LockService/Release '{"group": "printer", "token": "'"$token"'"}')
case $released in *RELEASE_OUTCOME_RELEASED*) echo "lock: released" ;; *) echo "lock: was not held" ;; esac

# The order's id makes it safe to send it again: the answer is the first one.
call StockService/PutItem '{"sku": "phone", "onHand": 10}' >/dev/null
for _ in 1 2; do
  sold=$(call StockService/Deduct '{"orderId": "order-1", "lines": [{"sku": "phone", "quantity": 1}]}')
  before=
  case $sold in *'"replayed": true'* | *'"replayed":true'*) before=" before" ;; esac
  echo "order-1: sold$before, $(echo "$sold" | field available) left"
done

for _ in 1 2 3; do
  answer=$(call RateLimitService/Check '{"rules": [{"key": "alice",
    "limit": {"algorithm": "ALGORITHM_FIXED_WINDOW", "limit": 2, "periodMs": 3600000}}]}')
  case $answer in
  *CHECK_OUTCOME_DENIED*) echo "limit: too often" ;;
  *) remaining=$(echo "$answer" | field remaining); echo "limit: go on, ${remaining:-0} left" ;;
  esac
done

# An error is JSON on stderr, with details; -v shows trailers. applied NO: nothing was changed; MAYBE: send the same call again,
# with the same id.
if ! buf curl -v --protocol grpc --http2-prior-knowledge \
  --data '{"orderId": "order-2", "lines": [{"sku": "phone", "quantity": 0}]}' \
  "$server.StockService/Deduct" >/dev/null 2>"${TMPDIR:-/tmp}/calls.$$"; then
  said=$(tr -d '\n' <"${TMPDIR:-/tmp}/calls.$$")
  applied=$(echo "$said" | sed -n 's/.*[Ll]ockstock-[Aa]pplied: *\([A-Z]*\).*/\1/p')
  code=$(echo "$said" | field code | tr '[:lower:]' '[:upper:]')
  what=$(echo "$said" | sed -n 's/.*"message": *"\([^:"]*\).*/\1/p')
  echo "error: $code, applied $applied, $what"
fi
rm -f "${TMPDIR:-/tmp}/calls.$$"
