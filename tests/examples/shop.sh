#!/usr/bin/env bash
# shop.sh WHICH LOCKSTOCKD SHOP_DIR SOURCE_DIR: the block "pasted: WHICH" of examples/shop/README.md, as a user pastes it,
# with the shop built in SHOP_DIR. 77: what it needs is not here.
set -euo pipefail
which=$1 program=$2 built=$3 source=$4
. "$source/tests/examples/lockstockd.sh"

[ "$which" != buf ] || [ -x "$source/node_modules/.bin/buf" ] ||
  skip "needs npm's packages: npm install, in the source directory"

block() { # name: its commands, with places of this test's own
  awk -v "marker=<!-- pasted: $1 -->" '
    $0 == marker { found = 1; next }
    found && $0 == "```sh" { inside = 1; next }
    inside && $0 == "```" { exit }
    inside' "$source/examples/shop/README.md" >"$dir/block"
  [ -s "$dir/block" ] || { echo "FAILED: examples/shop/README.md has no block $1"; exit 1; }
  # shellcheck disable=SC2154 # tcp: of lockstockd.sh
  sed -e "s#tcp://127\.0\.0\.1:7700#tcp://$tcp#g" -e "s#build/release/examples/shop#$dir/built#g" \
    -e "s#/tmp/shop#$dir/shop#g" -e "s#tcp://127\.0\.0\.1:7800#${shop_tcp:-}#g" \
    -e "s#127\.0\.0\.1:7801#${shop_grpc:-}#g" -e '/^cmake /d' -e 's#^\(.*/shop .*\) &.*#\1 tcp://127.0.0.1:0 grpc://127.0.0.1:0 \&#' \
    "$dir/block"
}

start "$program" server "embedded:$dir/data"
ln -s "$built" "$dir/built" # a path without spaces
cd "$source"
block serve >"$dir/serve"
# shellcheck source=/dev/null
. "$dir/serve" >"$dir/shop.log" 2>&1 # so that the shop is this script's own
pids=("$!" "${pids[@]}")
until grep -q 'listening grpc' "$dir/shop.log"; do
  kill -0 "${pids[0]}" || { cat "$dir/shop.log"; exit 1; }
  pause
done
shop_tcp=$(sed -n 's/^listening \(tcp:.*\)/\1/p' "$dir/shop.log")
shop_grpc=$(sed -n 's#^listening grpc://##p' "$dir/shop.log")

block "$which" >"$dir/commands"
case $which in
c)
  awk '$0 == "It prints" { found = 1 } found && $0 == "```" { if (inside) exit; inside = 1; next } inside' \
    "$source/examples/shop/README.md" >"$dir/expected"
  [ -s "$dir/expected" ] || { echo "FAILED: README.md does not say what is printed"; exit 1; }
  # shellcheck disable=SC2034 # read by expect_output
  expected=$dir/expected
  expect_output bash -e "$dir/commands"
  expect_output bash -e "$dir/commands" # again: the same
  ;;
buf)
  timeout 100 bash -e "$dir/commands" | tr -d ' \n' >"$dir/output"
  for text in '"outcome":"BUY_OUTCOME_BOUGHT"' '"outcome":"BUY_OUTCOME_OTHER_ORDER"' '{"left":"2","sold":"1","orders":"1"}'; do
    grep -qF -- "$text" "$dir/output" || { echo "FAILED: no $text in"; cat "$dir/output"; exit 1; }
  done
  ;;
esac
echo "$which: as expected"
