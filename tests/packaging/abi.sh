#!/usr/bin/env bash
# promise AB3: while a library keeps its soname, option structs may only grow at their end, and no symbol goes away
# abi.sh SOURCE_DIR BUILD_DIR
set -euo pipefail
source=$1 build=$2
"$source/packaging/abi.sh" check "$build" # 77: there is no abigail-tools
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

library() { # name fields
  printf 'typedef struct lks_x_options {%s} lks_x_options;\nint lks_%s(const lks_x_options *o) {return o->a;}\n' "$2" "${3:-x}" |
    "${CC:-cc}" -g -shared -fPIC -x c - -o "$work/$1.so"
}

differs() { # name
  ! abidiff --no-added-syms --suppressions "$source/packaging/abi/may_grow.ini" "$work/released.so" "$work/$1.so" >"$work/why"
}

library released 'int a; int *b;'
library grown 'int a; int *b; int c; int d;'
library filled 'int a; int z; int *b;'
library shrunk 'int a;'
library renamed 'int a; int *b;' y
! differs grown || { cat "$work/why"; exit 1; }
for name in filled shrunk renamed; do
  differs "$name" || { echo "$name: not noticed"; exit 1; }
done
