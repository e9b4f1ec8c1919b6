#!/usr/bin/env bash
# abi.sh dump         writes packaging/abi/: the interfaces of the libraries of the last release (packaging/released.txt)
# abi.sh check BUILD  compares the libraries of a build that has debug information with these. While the soname is the same,
#                     symbols and fields may only be added. Exits with 77 if it cannot compare.
# Needs abigail-tools.
set -euo pipefail
root=$(cd -- "$(dirname -- "$0")/.." && pwd)
# The paths of the libraries below a build directory.
libraries=(rpc/liblockstock-rpc client/liblockstock host/liblockstock-host)

cannot() { # why
  echo "abi.sh: $1" >&2
  exit 77
}

dump() {
  read -r release commit <"$root/packaging/released.txt"
  git -C "$root" archive "$commit" | tar x -C "$work"
  cmake -S "$work" -B "$work/build" -DCMAKE_BUILD_TYPE=Debug -DLOCKSTOCK_TESTS=OFF
  cmake --build "$work/build" --target lockstock-host
  mkdir -p "$root/packaging/abi"
  for library in "${libraries[@]}"; do
    abidw --no-corpus-path --no-comp-dir-path --no-show-locs --drop-private-types \
      --headers-dir "$work/rpc/include" --headers-dir "$work/client/include" --headers-dir "$work/host/include" \
      --out-file "$work/dump" "$work/build/$library.so"
    xz -9 <"$work/dump" >"$root/packaging/abi/${library##*/}.abi.xz"
  done
  echo "packaging/abi is release $release"
}

check() { # build directory
  local failed=0 library name before now
  for library in "${libraries[@]}"; do
    name=${library##*/}
    readelf -S "$1/$library.so" | grep '\.debug_info' >/dev/null || cannot "$library.so has no debug information"
    xz -dc "$root/packaging/abi/$name.abi.xz" >"$work/$name.abi"
    before=$(grep -m 1 -o "soname='[^']*'" "$work/$name.abi")
    now=$(readelf -d "$1/$library.so" | sed -n "s/.*Library soname: \[\(.*\)\]/soname='\1'/p")
    if abidiff --no-show-locs --no-added-syms --suppressions "$root/packaging/abi/may_grow.ini" "$work/$name.abi" "$1/$library.so" \
      >"$work/difference"; then
      echo "$name: as it was released"
    elif [ "$before" != "$now" ]; then
      echo "$name: differs from its release, and so does its soname (it was $before)"
    else
      echo "$name: differs from its release, with the same soname"
      cat "$work/difference"
      failed=1
    fi
  done
  return $failed
}

command -v abidiff >/dev/null || cannot "needs abigail-tools"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
case "${1:-}" in
dump) dump ;;
check) check "${2:?a build directory}" ;;
*) echo "usage: abi.sh dump, or abi.sh check BUILD" >&2 && exit 2 ;;
esac
