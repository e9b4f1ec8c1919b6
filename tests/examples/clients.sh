#!/usr/bin/env bash
# clients.sh WHICH LOCKSTOCKD SOURCE_DIR: a client of examples/ against a server of its own.
# 77: what it needs is not here.
set -euo pipefail
which=$1 program=$2 source=$3
. "$source/tests/examples/lockstockd.sh"
expected=$source/tests/examples/expected.txt

case $which in
python-sp)
  [ -x /usr/bin/python3 ] || skip "needs python3"
  start "$program" server "embedded:$dir/data"
  expect_output /usr/bin/python3 -B "$source/examples/python/sp_client.py" "$tcp"
  ;;
shell)
  "$source/node_modules/.bin/buf" --version >/dev/null 2>&1 || skip "needs npm's packages: npm install, in the source directory"
  start "$program" server "embedded:$dir/data"
  PATH=$source/node_modules/.bin:$PATH expect_output "$source/examples/shell/calls.sh" "$grpc"
  ;;
esac
echo "$which: as expected"
