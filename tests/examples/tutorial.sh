#!/usr/bin/env bash
# tutorial.sh LOCKSTOCKD BUILD_DIR SOURCE_DIR CFLAGS: each command and file of docs/tutorial.md, in order and in one shell,
# against a server of its own and with what `cmake --install` writes from BUILD_DIR. CC: the compiler.
set -euo pipefail
program=$1 build=$2 source=$3 flags=$4
. "$source/tests/examples/lockstockd.sh"

block() { # name: the block under "<!-- NAME -->"
  awk -v "marker=<!-- $1 -->" '
    $0 == marker { found = 1; next }
    found && !inside && /^```/ { inside = 1; next }
    inside && /^```$/ { exit }
    inside' "$source/docs/tutorial.md" >"$dir/block"
  [ -s "$dir/block" ] || { echo "FAILED: docs/tutorial.md has no block \"$1\""; exit 1; }
}

commands() { # name: writes them to $dir/commands, with this test's directories and addresses
  block "$1"
  sed -e "s#build/release#\"$build\"#" -e "s#tcp://127\.0\.0\.1:7700#tcp://$tcp#" "$dir/block" >"$dir/commands"
}

says() { # name text: the output of the block has the text
  grep -qE -- "$2" "$dir/$1.out" || { cat "$dir/$1.out"; echo "FAILED: \"$1\" did not say $2"; exit 1; }
}

start "$program" server "embedded:$dir/data"
export LOCKSTOCK_SERVER="tcp://$tcp" HOME="$dir/home" CFLAGS=$flags
mkdir "$HOME"
host=
trap 'status=$?; [ -z "$host" ] || kill "$host" 2>/dev/null || true; end_all "$status"' EXIT
unset CMAKE_PREFIX_PATH LD_LIBRARY_PATH
for name in install stock lock project; do
  commands "$name"
  # shellcheck disable=SC1091
  . "$dir/commands" >"$dir/$name.out"
done
[ "$(command -v lockstock)" = "$HOME/lockstock-installed/bin/lockstock" ] || { echo "FAILED: not the installed lockstock"; exit 1; }
says install "^tcp://$tcp +up"
says stock '^replayed  yes'
says stock '^available +2$'
says lock '^writing with fence [0-9]+$'
says lock '^report '

for file in orders.proto orders_host.c buy.c CMakeLists.txt; do
  block "$file"
  sed "s#tcp://127\.0\.0\.1:7800#unix://$dir/orders.sock#" "$dir/block" >"$file"
done
commands build
# shellcheck disable=SC1091
. "$dir/commands" >"$dir/build.out" || { cat "$dir/build.out"; exit 1; }
host=$!
block printed
grep '^order-' "$dir/build.out" >"$dir/printed" # not <(...), which would be the next $!
diff "$dir/block" "$dir/printed" || { cat "$dir/build.out"; echo "FAILED: it printed something else"; exit 1; }
commands look
# shellcheck disable=SC1091
. "$dir/commands" >"$dir/look.out"
wait "$host" || { echo "FAILED: orders_host ended with $?"; exit 1; }
host=
says look '^order-1: receipt 1$'
says look '^state +completed'
[ "$(wc -l <handled.txt)" -eq 3 ] || { cat handled.txt; echo "FAILED: the handler did not run three times"; exit 1; }
echo "tutorial: as expected"
