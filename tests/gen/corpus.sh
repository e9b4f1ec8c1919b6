#!/usr/bin/env bash
# corpus.sh GENERATOR LOCKSTOCK_PROTO_DIR PROTOBUF_PROTO_DIR INCLUDES [everywhere]
# Each corpus/*.proto, and what words.sh writes beside it, has one thing that C does not like. What is made of it, and of
# golden/, compiles without a warning, as C and as C++, with gcc and with clang, behind headers of C whose macros are in
# the way. INCLUDES: a file of compiler options. everywhere: in each standard, each header alone.
set -euo pipefail
generator=$1 protos=$2 google=$3 includes=$4 everywhere=${5:-}
here=$(cd -- "$(dirname -- "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
out=$work/out corpus=$work/corpus
mkdir "$out"
cp -r "$here/corpus" "$corpus"
cp -r "$here"/golden/{common,guard,names,shop,legacy.proto} "$corpus"
bash "$here/words.sh" "$corpus"
failed=0

run() { # parameter file...
  local parameter=$1
  shift
  (cd "$corpus" && protoc "--plugin=protoc-gen-lockstock=$generator" -I . -I "$protos" -I "$google" \
    "--lockstock_out=$parameter:$out" "$@") 2>"$work/given"
}

# All at once, as in a project of them all; one alone gives the same.
mapfile -t files < <(cd "$corpus" && find . -name '*.proto' -printf '%P\n' | sort)
if ! run '' "${files[@]}" || [ -s "$work/given" ]; then
  cat "$work/given"
  exit 1
fi
run types google/protobuf/{any,descriptor,duration,empty,field_mask,struct,timestamp,wrappers}.proto ||
  { cat "$work/given"; exit 1; }

# Each message's initialiser is used.
uses() { # file.lks.h
  local guard name type
  guard=$(tr -c 'a-zA-Z0-9\n' '_' <<<"$1")
  echo "#include \"$1\""
  sed -nE "s/^#define ([A-Z0-9_]+_INIT) .*/\1/p" "$out/$1" | while IFS= read -r init; do
    name="use_${guard}_$init" type=$(sed -nE "/^#define $init /{x;s/^typedef \w+ (\w+);/\1/p};h" "$out/$1")
    [[ $1 == deprecated.* ]] && echo '__attribute__((deprecated))' # else clang++ warns of the members
    echo "void $name(void); void $name(void) { $type m = $init; (void)m; }"
  done
}

macros='#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <netdb.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>'

# A file of C for each .proto, of all that was made of it.
units=()
headers=$work/headers.cc
echo "$macros" >"$headers"
for file in "${files[@]}"; do
  stem=${file%.proto}
  unit=$work/$(tr -c 'a-zA-Z0-9\n' '_' <<<"$stem").c
  {
    echo "$macros"
    [[ $stem == macro_* ]] && printf '#include <complex.h>\n#include <stdnoreturn.h>\n'
    for part in .pb-c .lks .lks_client .lks_server; do
      echo "#include \"$stem$part.c\""
    done
    uses "$stem.lks.h"
  } >"$unit"
  units+=("$unit")
  {
    echo "#include \"$stem.lks_client.h\""
    echo "#include \"$stem.lks_server.h\""
    uses "$stem.lks.h"
  } >>"$headers"
done

flags=(-fsyntax-only -Wall -Wextra -Wpedantic -Wwrite-strings -Werror -I "$out" "@$includes")
users=("$here/literals.c" "$here/../../examples/cart.c")
check() { # compiler standard file...
  local compiler=$1 standard=$2 language=c
  shift 2
  [[ $standard == *++* ]] && language=c++
  if ! "$compiler" "-std=$standard" "${flags[@]}" -x "$language" "$@"; then
    echo "$compiler -std=$standard: does not compile"
    failed=1
  fi
}

for compiler in gcc clang; do
  if ! command -v "$compiler" >/dev/null; then
    echo "$compiler: not here, skipped"
    continue
  fi
  standards=(c11 c17 gnu11 gnu17)
  [ -n "$everywhere" ] || { [ "$compiler" = gcc ] && standards=(gnu17) || standards=(c11); }
  for standard in "${standards[@]}"; do
    check "$compiler" "$standard" "${units[@]}"
  done
  for standard in c11 c17; do
    check "$compiler" "$standard" "${users[@]}"
  done
  cxx=${compiler/gcc/g++}
  cxx=${cxx/clang/clang++}
  if ! echo 'int x;' | "$cxx" -fsyntax-only -x c++ - 2>/dev/null; then
    echo "$cxx: not here, skipped"
    continue
  fi
  check "$cxx" c++17 "$headers" "${users[@]}"
  if [ -n "$everywhere" ]; then
    while IFS= read -r header; do
      echo "#include \"$header\"" >"$work/alone.c"
      for standard in c11 c17 gnu17; do
        check "$compiler" "$standard" "$work/alone.c"
      done
      for standard in c++17 gnu++17; do
        check "$cxx" "$standard" "$work/alone.c"
      done
    done < <(cd "$out" && find . -name '*.h' -printf '%P\n' | sort)
  fi
done
exit $failed
