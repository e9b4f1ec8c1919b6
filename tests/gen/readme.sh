#!/usr/bin/env bash
# readme.sh WAY BUILD_DIR SOURCE_DIR CFLAGS
# examples/hello builds and runs by the commands in README.md ("A service of your own"): by cmake and pkg-config on what
# `cmake --install` put down with DESTDIR and --prefix, or by fetchcontent. CC: the compiler.
set -euo pipefail
way=$1 build=$2 source=$3 flags=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
readme=$source/README.md

block() { # marker: the block under it
  awk -v "marker=<!-- $1 -->" '
    $0 == marker { found = 1; next }
    found && !inside && /^```/ { inside = 1; next }
    inside && /^```$/ { exit }
    inside' "$readme" >"$work/block"
  [ -s "$work/block" ] || { echo "FAILED: README.md has no block \"$1\""; exit 1; }
  cat "$work/block"
}

# A compiler's command line has no place for a space in $(pkg-config --cflags).
project="$work/my project" home="$work/my home"
[ "$way" != pkg-config ] || project=$work/project home=$work/home
mkdir "$project"
cp "$source"/examples/hello/* "$project"

if [ "$way" = fetchcontent ]; then
  mkdir "$home"
  ln -s "$source" "$home/lockstock"
  export HOME=$home
  block 'pasted: fetchcontent' >"$work/instead"
  sed -i -e "/^find_package/{r $work/instead" -e 'd}' "$project/CMakeLists.txt"
  way=cmake
else
  DESTDIR=$home cmake --install "$build" --prefix /opt/lockstock >"$work/log" || { cat "$work/log"; exit 1; }
  export PREFIX=$home/opt/lockstock
  eval "$(block 'pasted: elsewhere')"
  lockstockd --version
fi

# The commands of README, with the sanitizers of the libraries, and on a socket of its own.
if [ -n "$flags" ]; then
  export CFLAGS=$flags
  cc() { command "${CC:-cc}" "$flags" "$@"; }
fi
block "pasted: $way" | sed "s#tcp://127.0.0.1:7800#unix://$work/socket#" >"$work/commands"
cd "$project"
(
  trap 'kill $(jobs -p) 2>/dev/null || true' EXIT # where it failed before its own kill
  # shellcheck disable=SC1091
  . "$work/commands"
  wait
) >"$work/output" || { cat "$work/output"; exit 1; }
[ "$(tail -n 1 "$work/output")" = 'hello, world' ] || { cat "$work/output"; echo "FAILED: it did not say hello"; exit 1; }
