#!/usr/bin/env bash
# promise CH4
# promise CH14
# errors.sh GENERATOR LOCKSTOCK_PROTO_DIR PROTOBUF_PROTO_DIR
# Each errors/*.proto, and each errors/*.txtpb (a CodeGeneratorRequest), is refused
# with exactly the lines that its comments "error: " give, and nothing is written. So are some prefixes.
set -euo pipefail
generator=$1 protos=$2 google=$3
here=$(cd -- "$(dirname -- "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
out=$work/out given=$work/given
mkdir "$out"
failed=0

expect() { # file status
  local wanted
  wanted=$(sed -nE 's/^(\/\/|#) error: //p' "$1")
  if ! diff -u --label "$1, expected" --label "$1, given" <(printf '%s\n' "$wanted") "$given"; then
    failed=1
  elif [ "$2" -eq 0 ] || [ -n "$(ls -A "$out")" ]; then
    echo "$1: the error was shown, but protoc went on (status $2): $(ls "$out")"
    failed=1
  fi
}

run() { # file protoc's arguments...
  local file=$1 status=0
  shift
  protoc "--plugin=protoc-gen-lockstock=$generator" -I "$here/errors" -I "$protos" -I "$google" "$@" \
    2>"$given" || status=$?
  sed -i -E 's/^--lockstock_out: //' "$given"
  expect "$file" "$status"
}

for file in "$here"/errors/*.proto; do
  grep -q '^// error: ' "$file" || continue # only imported by others
  run "$file" "--lockstock_out=$out" "$file"
done

plugin=google/protobuf/compiler/plugin.proto
for file in "$here"/errors/*.txtpb; do
  protoc -I "$google" --encode=google.protobuf.compiler.CodeGeneratorRequest "$google/$plugin" <"$file" |
    "$generator" |
    protoc -I "$google" --decode=google.protobuf.compiler.CodeGeneratorResponse "$google/$plugin" |
    sed -nE 's/^error: "(.*)"$/\1/p' | sed 's/\\n/\n/g' >"$given"
  expect "$file" 1
done

while IFS='|' read -r prefix why; do
  sed -e "s#WHY#prefix.proto: (lockstock.rpc.v1.c_prefix) $why#" -e "s/PREFIX/$prefix/" >"$work/prefix.proto" <<'END'
// error: WHY
syntax = "proto3";
package prefix.v1;
import "lockstock/rpc/v1/options.proto";
option (lockstock.rpc.v1.c_prefix) = "PREFIX";
message Empty {}
END
  run "$work/prefix.proto" -I "$work" "--lockstock_out=$out" "$work/prefix.proto"
done <<'END'
a-b|is not a C identifier that begins with a letter: "a-b"
1st|is not a C identifier that begins with a letter: "1st"
_a|is not a C identifier that begins with a letter: "_a"
lks|"lks" is reserved for the library
lks_rpc|"lks_rpc" is reserved for the library
END

printf '// error: --lockstock_opt: "clients" must be types, client or server\n' >"$work/parameter"
run "$work/parameter" "--lockstock_out=types,clients:$out" "$here/errors/clash_other.proto"

if printf 'no request' | "$generator" >/dev/null 2>"$given"; then
  echo "a request that is none was accepted"
  failed=1
fi
exit $failed
